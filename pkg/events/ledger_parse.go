package events

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// ParseLedgerEntry reads an entry's body. Fields that are not every entry's
// are gathered in Detail, known to this version or not. A kind or version it
// does not know gives KindUnknown, with SentType set.
func ParseLedgerEntry(body []byte) (LedgerEntry, error) {
	var e LedgerEntry
	r := reader{data: body, deep: true}
	r.checkUTF8()
	var detail []byte
	var version int64
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "v":
			version = m.integer(0, math.MaxInt64)
		case "kind":
			e.Kind = LedgerKind(r.text("kind", 0, MaxPayloadBytes))
		case "at":
			e.At = r.instant("at")
		case "moves":
			e.Moves = r.moves()
		case "labels":
			e.Labels = r.plainLabels()
		default:
			if to := e.plain(string(m.name)); to != nil {
				*to = r.long(m.field())
				break
			}
			detail = r.gather(&m, detail)
		}
	}
	r.end()
	if r.err != nil {
		return LedgerEntry{}, fmt.Errorf("ledger entry: %w", r.err)
	}
	if detail != nil {
		e.Detail = append(detail, '}')
	}
	if version != 1 || e.SentType != ledgerType+string(e.Kind) || !KnownKind(e.Kind) {
		e.Kind = KindUnknown
	} else {
		e.SentType = ""
	}
	return e, nil
}

// plain gives the place of a member that is a plain string.
func (e *LedgerEntry) plain(name string) *string {
	switch name {
	case "type":
		return &e.SentType
	case "id":
		return &e.ID
	case "org":
		return &e.Org
	case "execution":
		return &e.Execution
	case "agent":
		return &e.Agent
	case "on_behalf_of":
		return &e.OnBehalfOf
	case "key":
		return &e.Key
	case "trace":
		return &e.Trace
	case "record":
		return &e.Record
	}
	return nil
}

func (r *reader) long(path string) string { return r.text(path, 0, math.MaxInt) }

func (r *reader) instant(path string) time.Time {
	v := r.long(path)
	if !r.ok() {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil || !strings.HasSuffix(v, "Z") {
		r.fail(faultMeaning, path, "must be an RFC 3339 time in UTC", "")
	}
	return t
}

func (r *reader) plainLabels() map[string]string {
	var out map[string]string
	for m := r.object("labels"); m.next(); {
		if out == nil {
			out = make(map[string]string, 4)
		}
		name := string(m.name)
		out[name] = r.long("labels")
	}
	return out
}

// gather adds the current member to an open object.
func (r *reader) gather(m *members, object []byte) []byte {
	if object == nil {
		object = append(object, '{')
	} else {
		object = append(object, ',')
	}
	object = append(appendString(object, string(m.name)), ':')
	r.space()
	start := r.pos
	r.skip(m.field())
	return append(object, r.data[start:r.pos]...)
}

func (r *reader) moves() []Move {
	var out []Move
	for a := r.array("moves"); a.next(); {
		var v Move
		for m := r.object("moves"); m.next(); {
			switch string(m.name) {
			case "pool":
				v.Pool = r.long("moves.pool")
			case "unit":
				v.Unit = r.long("moves.unit")
			case "period":
				v.Period = r.long("moves.period")
			case "held":
				v.Held = r.counter()
			case "spent":
				v.Spent = r.counter()
			case "withheld":
				v.Withheld = r.counter()
			case "cap":
				v.Cap = r.counter()
			case "adj":
				v.Adj = r.counter()
			case "missing":
				v.Missing = r.boolean("moves.missing")
			default:
				r.skip("moves")
			}
		}
		out = append(out, v)
	}
	return out
}

func (r *reader) counter() int64 { return r.integer("moves", math.MinInt64, math.MaxInt64) }

// DecodeDetail reads the kind's own fields into a struct with JSON tags.
func (e LedgerEntry) DecodeDetail(into any) error {
	if len(e.Detail) == 0 {
		return nil
	}
	if err := json.Unmarshal(e.Detail, into); err != nil {
		return fmt.Errorf("ledger entry %s: %w", e.ID, err)
	}
	return nil
}
