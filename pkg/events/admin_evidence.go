package events

import (
	"encoding/base64"
	"strings"
	"unicode"
)

// Bounds of evidence. A file travels in parts, because one message has to be
// smaller than the server's largest; every part but the last is full.
const (
	EvidencePartBytes = 512 << 10
	MaxEvidenceParts  = 20
	MaxEvidenceBytes  = MaxEvidenceParts * EvidencePartBytes

	MaxEvidenceNameBytes = 128
)

// EvidencePut puts one part of a file that corrections may rest on. Evidence is
// the SHA-256 of the whole file in hex, and its id from then on. Parts are sent
// in order, the last one makes the file; the name is a label for people.
type EvidencePut struct {
	Org      string  `json:"org"`
	Evidence string  `json:"evidence"`
	Part     int64   `json:"part"`
	Parts    int64   `json:"parts"`
	Name     *string `json:"name,omitempty"`
	Data     []byte  `json:"data"`
}

// DecodeEvidencePut reads a request strictly. It is the one message that may be
// larger than MaxPayloadBytes.
func DecodeEvidencePut(data []byte) (EvidencePut, *Error) {
	var q EvidencePut
	r := reader{data: data}
	r.checkUTF8()
	q.Part = -1
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "evidence":
			q.Evidence = m.hash()
		case "part":
			q.Part = m.integer(0, MaxEvidenceParts-1)
		case "parts":
			q.Parts = m.integer(1, MaxEvidenceParts)
		case "name":
			q.Name = new(m.evidenceName())
		case "data":
			q.Data = m.base64(EvidencePartBytes)
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Evidence != "", "evidence", "the SHA-256 of the whole file in hex")
	r.need(q.Part >= 0, "part", "parts are counted from 0")
	r.need(q.Parts > 0, "parts", "")
	r.need(len(q.Data) > 0, "data", "")
	if r.ok() && q.Part >= q.Parts {
		r.fail(faultMeaning, "part", "must be below parts", "parts are counted from 0")
	}
	if r.ok() && q.Part < q.Parts-1 && len(q.Data) != EvidencePartBytes {
		r.fail(faultMeaning, "data", "every part but the last has 524288 bytes", "")
	}
	if err := r.finish(); err != nil {
		return EvidencePut{}, err
	}
	return q, nil
}

// hash reads a SHA-256.
func (m *members) hash() string {
	path := m.field()
	v := m.r.text(path, 1, 64)
	if m.r.ok() && !validHex(v, 64) {
		m.r.fail(faultMeaning, path, "must be a SHA-256 of 64 lower-case hex digits", "")
	}
	return v
}

// base64 reads 1 to high bytes.
func (m *members) base64(high int) []byte {
	path := m.field()
	v := m.r.text(path, 1, base64.StdEncoding.EncodedLen(high))
	if !m.r.ok() {
		return nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(v)
	if err != nil || strings.ContainsAny(v, "\r\n") { // which the decoder passes over
		m.r.fail(faultMeaning, path, "must be base64 with padding", "")
		return nil
	}
	if len(b) > high {
		m.r.fail(faultMeaning, path, "has too many bytes", "a part has at most 524288")
	}
	return b
}

func (m *members) evidenceName() string {
	path := m.field()
	v := m.r.text(path, 1, MaxEvidenceNameBytes)
	if m.r.ok() && !ValidEvidenceName(v) {
		m.r.fail(faultMeaning, path, "must not have control characters, outer spaces, / or \\", nameHint(v))
	}
	return v
}

// ValidEvidenceName reports whether v may label a file: a name without a folder
// and without characters that make people read another one.
func ValidEvidenceName(v string) bool {
	return validName(v, MaxEvidenceNameBytes) && !strings.ContainsAny(v, `/\`) &&
		!strings.ContainsFunc(v, func(c rune) bool { return unicode.Is(unicode.Bidi_Control, c) })
}

// EvidenceGet asks for one part of a file; without one, for the first.
type EvidenceGet struct {
	Org      string `json:"org"`
	Evidence string `json:"evidence"`
	Part     *int64 `json:"part,omitempty"`
}

// DecodeEvidenceGet reads a request strictly.
func DecodeEvidenceGet(data []byte) (EvidenceGet, *Error) {
	var q EvidenceGet
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "evidence":
			q.Evidence = m.hash()
		case "part":
			q.Part = new(m.integer(0, MaxEvidenceParts-1))
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Evidence != "", "evidence", "the SHA-256 of the file in hex")
	if err := r.finish(); err != nil {
		return EvidenceGet{}, err
	}
	return q, nil
}

// EvidenceList asks what evidence an org has, by id: that after the cursor.
type EvidenceList struct {
	Org    string  `json:"org"`
	Limit  *int64  `json:"limit,omitempty"` // default 1,000
	Cursor *string `json:"cursor,omitempty"`
}

// DecodeEvidenceList reads a request strictly.
func DecodeEvidenceList(data []byte) (EvidenceList, *Error) {
	var q EvidenceList
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "limit":
			q.Limit = new(m.integer(1, ListLimitMax))
		case "cursor":
			q.Cursor = new(m.hash())
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return EvidenceList{}, err
	}
	return q, nil
}
