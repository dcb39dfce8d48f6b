package events

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode"
)

// begin opens the body of a request.
func begin(data []byte) (reader, *Error) {
	if len(data) > MaxPayloadBytes {
		return reader{}, PayloadTooLarge()
	}
	r := reader{data: data}
	r.checkUTF8()
	return r, r.err
}

// optionalBody lets a query without content be sent as an empty message.
func optionalBody(data []byte) []byte {
	if len(data) == 0 {
		return []byte("{}")
	}
	return data
}

// finish closes the body and gives the first fault.
func (r *reader) finish() *Error {
	r.end()
	return r.err
}

// need reports an absent field.
func (r *reader) need(given bool, field, hint string) {
	if !given {
		r.fail(faultMeaning, field, "is missing", hint)
	}
}

// amounts reads {unit: n}; least is 0 or 1. An empty object is refused: it
// says nothing that leaving the field out would not say better.
func (m *members) amounts(least int64) map[string]int64 {
	r, path := m.r, m.field()
	inner := r.object(path)
	var out map[string]int64
	for inner.next() {
		unit := intern(inner.name)
		if !ValidUnit(unit) {
			r.fail(faultMeaning, inner.field(), "is no unit name: lower-case letters, digits and _, at most 32", "")
			break
		}
		if out == nil {
			out = make(map[string]int64, 1)
		}
		if len(out) == MaxUnits {
			r.fail(faultMeaning, path, "at most 16 units", "")
			break
		}
		n := r.amount(&inner, least)
		if r.ok() {
			out[unit] = n
		}
	}
	if r.ok() && len(out) == 0 {
		r.fail(faultMeaning, path, "must name at least one unit", "")
	}
	return out
}

// amount reads one amount; the path is built only for an error.
func (r *reader) amount(m *members, least int64) int64 {
	n := r.integer("", least, MaxAmount)
	if r.err != nil && r.err.Field == "" {
		r.err.Field = m.field()
	}
	return n
}

// labels reads {"name": "value"}; {} is given and empty.
func (m *members) labels() map[string]string {
	r, path := m.r, m.field()
	inner := r.object(path)
	out := map[string]string{}
	for inner.next() {
		name := string(inner.name)
		if !validName(name, MaxLabelNameBytes) {
			r.fail(faultMeaning, path, "names have 1 to 64 bytes without control characters and outer spaces", "")
		}
		if len(out) == MaxLabels {
			r.fail(faultMeaning, path, "at most 16 labels", "")
		}
		out[name] = r.text(path+"."+name, 0, MaxLabelValueBytes)
	}
	return out
}

// usage reads an object of free counts and keeps it as it was sent, without
// spaces.
func (m *members) usage() json.RawMessage {
	r, path := m.r, m.field()
	if !r.ok() {
		return nil
	}
	if r.peek() != '{' {
		r.wrong(path, "must be a JSON object")
		return nil
	}
	start := r.pos
	r.skip(path)
	if !r.ok() {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, r.data[start:r.pos]); err != nil {
		r.fail(faultSyntax, path, "not JSON", "")
		return nil
	}
	if b.Len() > MaxUsageBytes {
		r.fail(faultMeaning, path, "at most 1024 bytes", "")
		return nil
	}
	return b.Bytes()
}

// name reads the name of a pool or agent.
func (m *members) nameOf() string { return m.checked(MaxNameBytes, ValidPool) }

func (m *members) target() string { return m.checked(MaxTargetBytes, ValidTarget) }

func (m *members) checked(maxBytes int, valid func(string) bool) string {
	path := m.field()
	v := m.r.text(path, 1, maxBytes)
	if m.r.ok() && !valid(v) {
		m.r.fail(faultMeaning, path, "must not have control characters or outer spaces", nameHint(v))
	}
	return v
}

// nameHint says what is wrong with a name.
func nameHint(v string) string {
	for at, c := range v {
		if unicode.IsControl(c) {
			return "byte " + strconv.Itoa(at) + " is the control character " + strconv.QuoteRuneToASCII(c)
		}
	}
	return "it begins or ends with a space"
}

// onBehalfOf reads whom the agent works for.
func (m *members) onBehalfOf() string {
	return m.checked(MaxOnBehalfOfBytes, func(v string) bool { return validName(v, MaxOnBehalfOfBytes) })
}

// purpose reads a purpose or reason: free text.
func (m *members) purpose() string { return m.r.text(m.field(), 0, MaxPurposeBytes) }

// uuid reads an agent's or a reservation's id.
func (m *members) uuid() string {
	path := m.field()
	if m.r.ok() && m.r.peek() != '"' {
		m.r.wrong(path, "must be a UUID in lower case")
	}
	v := m.r.text(path, 0, MaxPayloadBytes)
	if m.r.ok() && !validUUID(v) {
		m.r.fail(faultMeaning, path, "must be a UUID in lower case", "")
	}
	return v
}

// key reads an idempotency key that is sent as a field.
func (m *members) key() string {
	path := m.field()
	v := m.r.text(path, 1, MaxKeyBytes)
	if m.r.ok() && !ValidKey(v) {
		m.r.fail(faultMeaning, path, "must have no CR, LF, NUL and outer spaces", "")
	}
	return v
}

// org reads an org's name.
func (m *members) org() string {
	path := m.field()
	v := m.r.text(path, 1, MaxNameBytes)
	if m.r.ok() && !ValidOrg(v) {
		m.r.fail(faultMeaning, path, "must be lower-case letters, digits and -, at most 32, and not admin, ledger, event or dead", "")
	}
	return v
}

// oneOf reads one of a closed list of words.
func (m *members) oneOf(words ...string) string {
	path := m.field()
	v := m.r.text(path, 1, MaxNameBytes)
	if !m.r.ok() {
		return v
	}
	list := ""
	for _, w := range words {
		if v == w {
			return w
		}
		list += " " + w
	}
	m.r.fail(faultMeaning, path, "must be one of:"+list, "")
	return v
}

func (m *members) integer(low, high int64) int64 { return m.r.integer(m.field(), low, high) }
func (m *members) boolean() bool                 { return m.r.boolean(m.field()) }

// reference demands exactly one of reservation and key.
func (r *reader) reference(reservation, key *string) {
	switch {
	case reservation == nil && key == nil:
		r.fail(faultMeaning, "reservation", "is missing", "give reservation, or key: the reserve's own idempotency key")
	case reservation != nil && key != nil:
		r.fail(faultMeaning, "key", "given together with reservation", "give one of the two")
	}
}
