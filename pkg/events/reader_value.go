package events

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// rawString reads a string. The result points into the text unless the string
// has escapes.
func (r *reader) rawString() []byte {
	start := r.pos + 1
	for i := start; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '"':
			r.pos = i + 1
			return r.data[start:i:i]
		case c == '\\':
			return r.escapedString(start, i)
		case c < 0x20:
			r.bareControl(i)
			return nil
		}
	}
	r.pos = len(r.data)
	r.syntax("a string without end")
	return nil
}

func (r *reader) bareControl(at int) {
	r.pos = at
	r.fail(faultSyntax, "", "not JSON: a control character in a string at byte "+strconv.Itoa(at), "JSON has it escaped, such as \\n")
}

func (r *reader) escapedString(start, i int) []byte {
	d := r.data
	out := append(make([]byte, 0, 2*(i-start)+16), d[start:i]...)
	for i < len(d) {
		switch c := d[i]; {
		case c == '"':
			r.pos = i + 1
			return out
		case c < 0x20:
			r.bareControl(i)
			return nil
		case c != '\\':
			out = append(out, c)
			i++
		default:
			r.pos = i
			if out = r.escape(out); !r.ok() {
				return nil
			}
			i = r.pos
		}
	}
	r.pos = len(d)
	r.syntax("a string without end")
	return nil
}

// escape reads one escape at pos.
func (r *reader) escape(out []byte) []byte {
	if r.pos+1 >= len(r.data) {
		r.syntax("a string without end")
		return nil
	}
	switch c := r.data[r.pos+1]; c {
	case '"', '\\', '/':
		out = append(out, c)
	case 'b':
		out = append(out, '\b')
	case 'f':
		out = append(out, '\f')
	case 'n':
		out = append(out, '\n')
	case 'r':
		out = append(out, '\r')
	case 't':
		out = append(out, '\t')
	case 'u':
		return r.unicodeEscape(out)
	default:
		r.syntax("an unknown escape")
		return nil
	}
	r.pos += 2
	return out
}

func (r *reader) unicodeEscape(out []byte) []byte {
	c, ok := hex4(r.data, r.pos)
	if !ok {
		r.syntax("expected four hex digits")
		return nil
	}
	r.pos += 6
	if utf16.IsSurrogate(c) {
		low, ok := hex4(r.data, r.pos)
		c = utf16.DecodeRune(c, low)
		if !ok || c == utf8.RuneError {
			// The rest may not even be JSON; that is the better message.
			r.fail(faultSurrogate, "", "half of a surrogate pair in a string", "escape both halves, or send the character itself")
			return nil
		}
		r.pos += 6
	}
	return utf8.AppendRune(out, c)
}

// hex4 reads the escape \uXXXX at i.
func hex4(d []byte, i int) (rune, bool) {
	if i+6 > len(d) || d[i] != '\\' || d[i+1] != 'u' {
		return 0, false
	}
	var c rune
	for _, b := range d[i+2 : i+6] {
		switch {
		case digit(b):
			c = c<<4 | rune(b-'0')
		case b >= 'a' && b <= 'f':
			c = c<<4 | rune(b-'a'+10)
		case b >= 'A' && b <= 'F':
			c = c<<4 | rune(b-'A'+10)
		default:
			return 0, false
		}
	}
	return c, true
}

// integer reads a whole number between low and high, written in digits only.
func (r *reader) integer(path string, low, high int64) int64 {
	if !r.ok() {
		return 0
	}
	if c := r.peek(); c != '-' && !digit(c) {
		r.wrong(path, whole(low, high))
		return 0
	}
	text := r.number()
	if !r.ok() {
		r.err.Field = path
		return 0
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < low || n > high || string(text) == "-0" {
		if c := r.peek(); c != ',' && c != '}' && c != ']' && c != 0 { // 0x10, 01
			r.syntax("a number that goes on")
			r.err.Field = path
			return 0
		}
		hint := ""
		if err != nil {
			hint = "write it in digits only, without fraction or exponent"
		}
		r.fail(faultMeaning, path, whole(low, high), hint)
		return 0
	}
	return n
}

func whole(low, high int64) string {
	return "must be a whole number from " + strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10)
}

// text reads a string of low to high bytes.
func (r *reader) text(path string, low, high int) string {
	if !r.ok() {
		return ""
	}
	if r.peek() != '"' {
		r.wrong(path, "must be a string")
		return ""
	}
	b := r.rawString()
	if !r.ok() {
		if r.err.Field == "" {
			r.err.Field = path
		}
		return ""
	}
	if len(b) < low || len(b) > high {
		r.fail(faultMeaning, path, "must have "+strconv.Itoa(low)+" to "+strconv.Itoa(high)+" bytes", "it has "+strconv.Itoa(len(b)))
		return ""
	}
	return intern(b)
}

// intern avoids an allocation for the words that nearly every request has.
func intern(b []byte) string {
	switch string(b) {
	case "usd_microcents":
		return "usd_microcents"
	case "tokens":
		return "tokens"
	case "calls":
		return "calls"
	case "ms":
		return "ms"
	case "success":
		return "success"
	case "failure":
		return "failure"
	case "unknown":
		return "unknown"
	}
	return string(b)
}

// boolean reads true or false.
func (r *reader) boolean(path string) bool {
	if !r.ok() {
		return false
	}
	switch r.peek() {
	case 't':
		r.literal("true")
		return r.ok()
	case 'f':
		r.literal("false")
		return false
	}
	r.wrong(path, "must be true or false")
	return false
}
