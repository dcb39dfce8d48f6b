package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of an export: a body of at most a megabyte, escaped.
const maxLine = 8 << 20

// line is one entry of an export. The body's exact bytes travel as a JSON
// string.
type line struct {
	StreamSeq uint64 `json:"stream_seq"`
	Seq       uint64 `json:"seq"`
	Subject   string `json:"subject"`
	Prev      string `json:"prev"`
	Hash      string `json:"hash"`
	Body      string `json:"body"`
}

// MarshalJSON writes the export form, which is also what the admin verb
// `ledger` answers with.
func (m Message) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(line{m.StreamSeq, m.Seq, m.Subject, m.Prev.String(), m.Hash.String(), string(m.Body)})
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// UnmarshalJSON reads the export form. An entry whose hashes are none is kept:
// a verifier has to call it altered instead of losing it.
func (m *Message) UnmarshalJSON(data []byte) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	*m = Message{StreamSeq: l.StreamSeq, Seq: l.Seq, Subject: l.Subject, Body: []byte(l.Body)}
	m.Prev, m.Hash = parseLink(l.Prev, l.Hash)
	return nil
}

// parseLink reads both hashes of an entry. Where one is none both are zeros,
// which no body hashes to: a verifier calls the entry altered.
func parseLink(prev, hash string) (p, h Hash) {
	p, errPrev := ParseHash(prev)
	h, errHash := ParseHash(hash)
	if errPrev != nil || errHash != nil {
		return Hash{}, Hash{}
	}
	return p, h
}

// Export writes an entry as one JSON line.
func Export(w io.Writer, m Message) error {
	b, err := m.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Import reads JSON lines and gives each entry to visit.
func Import(r io.Reader, visit func(Message) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; in.Scan(); n++ {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		m, ok := parseLine(in.Bytes())
		if !ok {
			if err := json.Unmarshal(in.Bytes(), &m); err != nil {
				return fmt.Errorf("line %d is not an entry: %w", n, err)
			}
		}
		if err := visit(m); err != nil {
			return err
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes: %w", maxLine, in.Err())
	}
	return in.Err()
}

// VerifyExport gives an export to a verifier.
func VerifyExport(r io.Reader, v *Verifier) (Verification, error) {
	err := Import(r, func(m Message) error {
		v.Add(m)
		return nil
	})
	return v.Result(), err
}
