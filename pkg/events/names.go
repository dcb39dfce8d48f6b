package events

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxAmount is the largest amount one message may carry: the last integer
// that every JSON reader holds exactly.
const MaxAmount int64 = 1<<53 - 1

// Bounds of what a message may carry.
const (
	MaxPayloadBytes    = 64 << 10
	MaxKeyBytes        = 255
	MaxNameBytes       = 64
	MaxTargetBytes     = 128
	MaxPurposeBytes    = 256
	MaxOnBehalfOfBytes = 128
	MaxLabels          = 16
	MaxLabelNameBytes  = 64
	MaxLabelValueBytes = 256
	MaxUsageBytes      = 1 << 10
	MaxUnits           = 16
	MaxLimits          = 32
	MaxSlots           = 32
	MaxSlotHolders     = 100_000
	MaxManagers        = 64
	MaxCursorBytes     = 256
	MaxDepth           = 8

	TTLMinMS     int64 = 1_000
	TTLMaxMS     int64 = 86_400_000
	TTLDefaultMS int64 = 600_000

	AgentTTLMaxMS   int64 = 365 * 86_400_000
	LateWindowMaxMS int64 = 30 * 86_400_000
	OverlapMaxMS    int64 = 30 * 86_400_000
	// LateWindowPeriod as late_window_ms: until the period closes.
	LateWindowPeriod int64 = -1

	ListLimitDefault   int64 = 100
	ListLimitMax       int64 = 1_000
	LedgerLimitDefault int64 = 256
	LedgerLimitMax     int64 = 1_000
)

// ValidOrg reports whether v names an org: [a-z0-9][a-z0-9-]{0,31}, and not
// one of the words that take an org's place in other subjects.
func ValidOrg(v string) bool {
	if len(v) == 0 || len(v) > 32 || v[0] == '-' {
		return false
	}
	for i := range len(v) {
		if c := v[i]; !lower(c) && !digit(c) && c != '-' {
			return false
		}
	}
	switch v {
	case "admin", "ledger", "event", "dead":
		return false
	}
	return true
}

// ValidAgent reports whether v is an agent's id: a UUID in lower case.
func ValidAgent(v string) bool { return validUUID(v) }

// ValidReservation reports whether v is a reservation's id: a UUID in lower
// case.
func ValidReservation(v string) bool { return validUUID(v) }

func validUUID(v string) bool {
	if len(v) != 36 {
		return false
	}
	for i := range len(v) {
		switch i {
		case 8, 13, 18, 23:
			if v[i] != '-' {
				return false
			}
		default:
			if c := v[i]; !digit(c) && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// ValidPool reports whether v names a pool or an agent: 1 to 64 bytes of
// UTF-8 without control characters and outer spaces.
func ValidPool(v string) bool { return validName(v, MaxNameBytes) }

// ValidTarget reports whether v names a target or a slot's pattern.
func ValidTarget(v string) bool { return validName(v, MaxTargetBytes) }

func validName(v string, maxBytes int) bool {
	if len(v) == 0 || len(v) > maxBytes || !utf8.ValidString(v) || outerSpace(v) {
		return false
	}
	for _, c := range v {
		if unicode.IsControl(c) {
			return false
		}
	}
	return true
}

func outerSpace(v string) bool { return strings.TrimSpace(v) != v }

// ValidUnit reports whether v names a unit: [a-z][a-z0-9_]{0,31}.
func ValidUnit(v string) bool { return len(v) <= 32 && validWord(v) && v[0] != '_' && !digit(v[0]) }

// ValidPeriod reports whether v names a kind of period, such as none or month.
func ValidPeriod(v string) bool { return len(v) <= 32 && validWord(v) && lower(v[0]) }

// ValidKey reports whether v is an idempotency key: 1 to 255 bytes of UTF-8
// without CR, LF, NUL and outer spaces.
func ValidKey(v string) bool {
	return len(v) > 0 && len(v) <= MaxKeyBytes && utf8.ValidString(v) && !strings.ContainsAny(v, "\r\n\x00") && !outerSpace(v)
}

// CheckKey explains what is wrong with an idempotency key, or gives nil.
func CheckKey(v string) *Error {
	if v == "" {
		return InvalidArgument(HeaderKey, "the idempotency key is missing",
			"send a header "+HeaderKey+" that is unique for this operation and repeat it on every retry")
	}
	if !ValidKey(v) {
		return InvalidArgument(HeaderKey, "the idempotency key must be 1 to 255 bytes of UTF-8 without CR, LF, NUL and outer spaces", "")
	}
	return nil
}

// validWord: [a-z0-9_]{1,64}, what verbs, kinds and event types consist of.
func validWord(v string) bool {
	if len(v) == 0 || len(v) > 64 {
		return false
	}
	for i := range len(v) {
		if c := v[i]; !lower(c) && !digit(c) && c != '_' {
			return false
		}
	}
	return true
}

func validHex(v string, n int) bool {
	if len(v) != n {
		return false
	}
	for i := range len(v) {
		if c := v[i]; !digit(c) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func lower(c byte) bool { return c >= 'a' && c <= 'z' }
func digit(c byte) bool { return c >= '0' && c <= '9' }
