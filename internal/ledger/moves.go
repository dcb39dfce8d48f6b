package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"tallystick/pkg/budget"
)

// Moves reads an entry's place, kind, execution, principal and moves, no more:
// what a fold needs, for a quarter of the price of Decode. names keeps the
// strings that repeat.
func (n Names) Moves(body []byte) (budget.Entry, error) {
	var e budget.Entry
	s := scanner{b: body, names: n}
	err := s.object(func(name []byte) (err error) {
		switch string(name) {
		case "id":
			var id string
			if id, err = s.text(); err == nil {
				e.Partition, e.OutboxID, err = SplitEntryID(id)
			}
		case "org":
			e.Org, err = s.name()
		case "kind":
			var kind string
			kind, err = s.name()
			e.Kind = budget.Kind(kind)
		case "execution":
			e.Execution, err = s.text()
		case "on_behalf_of":
			e.OnBehalfOf, err = s.name()
		case "moves":
			e.Moves, err = s.moves()
		default:
			err = s.skip()
		}
		return err
	})
	if err == nil && (e.Org == "" || e.Kind == "" || e.OutboxID == "") {
		err = errors.New("org, kind or id is absent")
	}
	if err != nil {
		return budget.Entry{}, fmt.Errorf("ledger entry: %w", err)
	}
	return e, nil
}

// Names are strings met before: orgs, pools, units, kinds, principals.
type Names map[string]string

// namesMax bounds what is kept.
const namesMax = 100_000

func (n Names) of(raw []byte) string {
	if known, ok := n[string(raw)]; ok {
		return known
	}
	text := string(raw)
	if len(n) < namesMax {
		n[text] = text
	}
	return text
}

// scanner walks JSON that was checked when it was written: it refuses what it
// does not understand, but is no validator.
type scanner struct {
	b     []byte
	i     int
	names Names
}

var errSyntax = errors.New("malformed JSON")

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// next skips white space and takes c where it is next.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// object gives the name of each member to member, which takes the value.
func (s *scanner) object(member func(name []byte) error) error {
	if !s.next('{') {
		return errSyntax
	}
	if s.next('}') {
		return nil
	}
	for {
		name, _, err := s.quoted()
		if err != nil || !s.next(':') {
			return errSyntax
		}
		s.space()
		if err := member(name); err != nil {
			return err
		}
		if s.next('}') {
			return nil
		}
		if !s.next(',') {
			return errSyntax
		}
	}
}

// quoted takes a string as it is written, without the quotes.
func (s *scanner) quoted() (raw []byte, escaped bool, err error) {
	if !s.next('"') {
		return nil, false, errSyntax
	}
	start := s.i
	for s.i < len(s.b) {
		end := bytes.IndexByte(s.b[s.i:], '"')
		if end < 0 {
			break
		}
		back := bytes.IndexByte(s.b[s.i:s.i+end], '\\')
		if back < 0 {
			s.i += end + 1
			return s.b[start : s.i-1], escaped, nil
		}
		escaped = true
		s.i += back + 2
	}
	return nil, false, errSyntax
}

func (s *scanner) text() (string, error) {
	start := s.i
	raw, escaped, err := s.quoted()
	if err != nil || !escaped {
		return string(raw), err
	}
	var out string
	return out, json.Unmarshal(s.b[start:s.i], &out)
}

// name is text that is likely to come again.
func (s *scanner) name() (string, error) {
	start := s.i
	raw, escaped, err := s.quoted()
	if err != nil || !escaped {
		return s.names.of(raw), err
	}
	s.i = start
	return s.text()
}

// skip passes over one value.
func (s *scanner) skip() error {
	s.space()
	if s.i >= len(s.b) {
		return errSyntax
	}
	if s.b[s.i] == '"' {
		_, _, err := s.quoted()
		return err
	}
	depth := 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			if _, _, err := s.quoted(); err != nil {
				return err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return nil // the end of what the value stands in
			}
			if depth--; depth == 0 {
				s.i++
				return nil
			}
		case ',':
			if depth == 0 {
				return nil
			}
		}
		s.i++
	}
	return errSyntax
}

func (s *scanner) moves() ([]budget.Move, error) {
	if !s.next('[') {
		return nil, errSyntax
	}
	if s.next(']') {
		return nil, nil
	}
	out := make([]budget.Move, 0, 2)
	for {
		m, err := s.move()
		if err != nil {
			return nil, err
		}
		out = append(out, m)
		if s.next(']') {
			return out, nil
		}
		if !s.next(',') {
			return nil, errSyntax
		}
	}
}

func (s *scanner) move() (m budget.Move, err error) {
	err = s.object(func(name []byte) (err error) {
		switch string(name) {
		case "pool":
			m.Pool, err = s.name()
		case "unit":
			m.Unit, err = s.name()
		case "period":
			m.Period, err = s.name()
		case "held":
			m.Held, err = s.integer()
		case "spent":
			m.Spent, err = s.integer()
		case "withheld":
			m.Withheld, err = s.integer()
		case "cap":
			m.Cap, err = s.integer()
		case "adj":
			m.Adj, err = s.integer()
		case "missing":
			start := s.i
			err = s.skip()
			m.Missing = string(bytes.TrimSpace(s.b[start:s.i])) == "true"
		default:
			err = s.skip()
		}
		return err
	})
	return m, err
}

func (s *scanner) integer() (int64, error) {
	start := s.i
	for s.i < len(s.b) && (s.b[s.i] == '-' || s.b[s.i] >= '0' && s.b[s.i] <= '9') {
		s.i++
	}
	return strconv.ParseInt(string(s.b[start:s.i]), 10, 64)
}
