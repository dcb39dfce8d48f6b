package events

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, size := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c == '\n':
		return append(dst, '\\', 'n')
	case c == '\t':
		return append(dst, '\\', 't')
	case c == '\r':
		return append(dst, '\\', 'r')
	case c >= utf8.RuneSelf:
		return append(dst, "\ufffd"...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendName writes a member's name with the comma before it.
func appendName(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// appendText writes a member unless it is empty.
func appendText(dst []byte, name, v string) []byte {
	if v == "" {
		return dst
	}
	return appendString(appendName(dst, name), v)
}

func appendInt(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(dst, name), n, 10)
}

// appendOptional writes a member unless it is nil.
func appendOptional(dst []byte, name string, n *int64) []byte {
	if n == nil {
		return dst
	}
	return appendInt(dst, name, *n)
}

func appendBool(dst []byte, v bool) []byte { return strconv.AppendBool(dst, v) }

// appendTrue writes a member only where it is true.
func appendTrue(dst []byte, name string, v bool) []byte {
	if !v {
		return dst
	}
	return append(appendName(dst, name), "true"...)
}

// appendAmounts writes {unit: n} with the units in byte order.
func appendAmounts(dst []byte, amounts map[string]int64) []byte {
	dst = append(dst, '{')
	if len(amounts) == 1 {
		for unit, n := range amounts {
			dst = append(appendString(dst, unit), ':')
			dst = strconv.AppendInt(dst, n, 10)
		}
		return append(dst, '}')
	}
	var room [MaxUnits]string
	for i, unit := range sortedNames(room[:0], amounts) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, unit), ':')
		dst = strconv.AppendInt(dst, amounts[unit], 10)
	}
	return append(dst, '}')
}

func appendLabels(dst []byte, labels map[string]string) []byte {
	if labels == nil {
		return dst
	}
	dst = append(appendName(dst, "labels"), '{')
	var room [MaxLabels]string
	for i, name := range sortedNames(room[:0], labels) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		dst = appendString(dst, labels[name])
	}
	return append(dst, '}')
}

func sortedNames[V any](room []string, m map[string]V) []string {
	for name := range m {
		room = append(room, name)
	}
	slices.Sort(room)
	return room
}

// FormatTime writes a ledger time: RFC 3339 in UTC with microseconds.
func FormatTime(t time.Time) string { return string(AppendTime(nil, t)) }

// AppendTime is FormatTime without an allocation.
func AppendTime(dst []byte, t time.Time) []byte { return appendStamp(dst, t, 6) }

// FormatMillis writes a time of an answer: RFC 3339 in UTC with milliseconds.
func FormatMillis(t time.Time) string { return string(AppendMillis(nil, t)) }

// AppendMillis is FormatMillis without an allocation.
func AppendMillis(dst []byte, t time.Time) []byte { return appendStamp(dst, t, 3) }

// appendStamp is five times as fast as time.AppendFormat, and entries carry
// two of these.
func appendStamp(dst []byte, t time.Time, fraction int) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = append(appendPadded(dst, year, 4), '-')
	dst = append(appendPadded(dst, int(month), 2), '-')
	dst = append(appendPadded(dst, day, 2), 'T')
	dst = append(appendPadded(dst, hour, 2), ':')
	dst = append(appendPadded(dst, minute, 2), ':')
	dst = append(appendPadded(dst, second, 2), '.')
	n := t.Nanosecond() / 1000
	if fraction == 3 {
		n /= 1000
	}
	return append(appendPadded(dst, n, fraction), 'Z')
}

func appendPadded(dst []byte, n, width int) []byte {
	var b [8]byte
	for i := width - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return append(dst, b[:width]...)
}

func appendInstant(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	dst = append(appendName(dst, name), '"')
	return append(AppendMillis(dst, t), '"')
}

// appendJSON writes what need not be fast. It fails only on types that JSON
// does not have, which no message holds.
func appendJSON(dst []byte, v any) []byte {
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return Internal("encoding: " + err.Error()).Append(dst)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
