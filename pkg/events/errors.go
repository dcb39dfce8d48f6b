package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Code is one of the closed list of errors; [Catalogue] explains each.
type Code string

// Error codes.
const (
	CodeInvalidArgument Code = "invalid_argument"
	CodeBrokerArgument  Code = "broker_argument"
	CodeUnitMissing     Code = "unit_missing"
	CodeUnitUnknown     Code = "unit_unknown"
	CodeLimitExceeded   Code = "limit_exceeded"
	CodeNotFound        Code = "not_found"
	CodeKeyReused       Code = "key_reused"
	CodeAlreadySettled  Code = "already_settled"
	CodeAlreadyReleased Code = "already_released"
	CodeAlreadyExpired  Code = "already_expired"
	CodePayloadTooLarge Code = "payload_too_large"
	CodeOverloaded      Code = "overloaded"
	CodeUnavailable     Code = "unavailable"
	CodeInternal        Code = "internal"
)

// Error is the answer to a request that was not executed. A decision, such as
// a denial, is never an Error.
type Error struct {
	Code         Code   `json:"code"`
	Message      string `json:"message"`
	Field        string `json:"field,omitempty"`
	Hint         string `json:"hint,omitempty"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

func (e *Error) Error() string {
	if e.Field != "" {
		return string(e.Code) + ": " + e.Field + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message
}

// Is matches errors of the same code, so that errors.Is(err,
// &events.Error{Code: events.CodeNotFound}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Append writes {"error":{…}}.
func (e *Error) Append(dst []byte) []byte {
	dst = append(dst, `{"error":{"code":`...)
	dst = appendString(dst, string(e.Code))
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, e.Message)
	dst = appendText(dst, "field", e.Field)
	dst = appendText(dst, "hint", e.Hint)
	dst = append(dst, `,"retryable":`...)
	dst = appendBool(dst, e.Retryable)
	if e.RetryAfterMS > 0 {
		dst = appendInt(dst, "retry_after_ms", e.RetryAfterMS)
	}
	return append(dst, "}}"...)
}

// ParseError gives the error in an answer, or nil where the answer is none.
func ParseError(data []byte) *Error {
	if !bytes.Contains(data, []byte(`"error"`)) {
		return nil
	}
	var m struct {
		Error *Error `json:"error"`
	}
	if json.Unmarshal(data, &m) != nil || m.Error == nil || m.Error.Code == "" {
		return nil
	}
	return m.Error
}

// parse decodes an answer tolerantly: an error answer is returned as *Error,
// unknown fields are ignored.
func parse(data []byte, into any) error {
	if e := ParseError(data); e != nil {
		return e
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("malformed answer: %w", err)
	}
	return nil
}

// InvalidArgument: malformed, unknown field, bad amount, missing key.
func InvalidArgument(field, message, hint string) *Error {
	return &Error{Code: CodeInvalidArgument, Field: field, Message: message, Hint: hint}
}

// BrokerArgument: a field that only the broker may set.
func BrokerArgument(field string) *Error {
	return &Error{
		Code: CodeBrokerArgument, Field: field,
		Message: "only the broker sets this field",
		Hint:    "leave it out: who you are comes from your connection",
	}
}

// UnitMissing: a limit on the path counts a unit that the request lacks.
func UnitMissing(unit string) *Error {
	return &Error{
		Code: CodeUnitMissing, Field: unit,
		Message: "a limit on the path counts this unit and the request does not give it",
		Hint:    "balance shows every limit on the path with its unit",
	}
}

// UnitUnknown: no limit on the path, or of the reservation, has the unit.
func UnitUnknown(unit string) *Error {
	return &Error{
		Code: CodeUnitUnknown, Field: unit,
		Message: "nothing here counts this unit",
		Hint:    "balance shows every limit on the path with its unit",
	}
}

// LimitExceeded: a structural bound; field says which.
func LimitExceeded(field string) *Error {
	return &Error{Code: CodeLimitExceeded, Field: field, Message: "this bound is reached"}
}

// NotFound: no such thing, or not yours: the words are the same.
func NotFound(what string) *Error {
	return &Error{Code: CodeNotFound, Message: "no such " + what + ", or not yours"}
}

// KeyReused: the same idempotency key with other content.
func KeyReused(field string) *Error {
	return &Error{
		Code: CodeKeyReused, Field: field,
		Message: "this idempotency key was used with other content",
		Hint:    "repeat a request exactly, or give a new operation a new key",
	}
}

// AlreadySettled: another key has settled the reservation.
func AlreadySettled() *Error {
	return &Error{
		Code: CodeAlreadySettled, Message: "another key has settled this reservation",
		Hint: "book further cost with charge and incurred",
	}
}

// AlreadyReleased: another key has released the reservation.
func AlreadyReleased() *Error {
	return &Error{
		Code: CodeAlreadyReleased, Message: "this reservation was released",
		Hint: "book a cost that arose all the same with charge and incurred",
	}
}

// AlreadyExpired: extend after the deadline.
func AlreadyExpired() *Error {
	return &Error{
		Code: CodeAlreadyExpired, Message: "the reservation's deadline has passed",
		Hint: "settle it, or reserve again under a new key",
	}
}

// PayloadTooLarge: over 64 KiB.
func PayloadTooLarge() *Error {
	return &Error{Code: CodePayloadTooLarge, Message: "the message is larger than 65536 bytes"}
}

// EvidenceTooLarge: a file of evidence over 10 MiB.
func EvidenceTooLarge() *Error {
	return &Error{Code: CodePayloadTooLarge, Field: "data", Message: "the file is larger than 10485760 bytes"}
}

// Overloaded: queues full, or the agent is throttled.
func Overloaded(retryAfterMS int64) *Error {
	return &Error{
		Code: CodeOverloaded, Message: "too much is waiting", Retryable: true, RetryAfterMS: retryAfterMS,
		Hint: "repeat with the same key after the given time",
	}
}

// Unavailable: a dependency is out of reach and the outcome may be unknown.
func Unavailable(retryAfterMS int64) *Error {
	return &Error{
		Code: CodeUnavailable, Message: "the budget store is out of reach or being rebuilt", Retryable: true, RetryAfterMS: retryAfterMS,
		Hint: "the outcome may be unknown: repeat with the same key",
	}
}

// Internal: a bug; the incident id is in the logs.
func Internal(incident string) *Error {
	return &Error{
		Code: CodeInternal, Message: "internal error, incident " + incident, Retryable: true,
		Hint: "repeat with the same key; report the incident id to the operator",
	}
}

// Exit codes of the command line.
const (
	ExitOK           = 0
	ExitFailure      = 1
	ExitUsage        = 2
	ExitNotFound     = 3
	ExitDenied       = 4
	ExitConflict     = 5 // key reused or already resolved
	ExitUnauthorised = 6
	ExitUnavailable  = 7
	ExitDrift        = 8 // drift, or verification failed
)

// Lookup explains a code or denial reason.
func Lookup(code string) (CatalogueEntry, bool) {
	all := Catalogue()
	i := slices.IndexFunc(all, func(c CatalogueEntry) bool { return c.Code == code })
	if i < 0 {
		return CatalogueEntry{}, false
	}
	return all[i], true
}

// ExitCode is the command line's exit code for an error code; a code that
// this version does not know is a failure.
func ExitCode(code Code) int {
	if c, ok := Lookup(string(code)); ok && !c.Denial {
		return c.Exit
	}
	return ExitFailure
}
