package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// ledgerType and a kind make the type of an entry.
const ledgerType = "tally.ledger.v1."

// LedgerEntry is one effect, once, in order. Folding the moves of an org's
// entries gives its counters.
type LedgerEntry struct {
	ID         string // see EntryID
	Org        string
	At         time.Time // Redis's clock, µs
	Kind       LedgerKind
	Execution  string
	Agent      string
	OnBehalfOf string
	Key        string
	Labels     map[string]string
	Trace      string
	Moves      []Move
	// Detail is an object with the kind's own fields (see LedgerKinds), or
	// nil. Its members stand beside the entry's own in the body.
	Detail json.RawMessage
	// Record is the execution record after this entry, opaque text that a
	// rebuild writes back; "" where there is none.
	Record string

	// SentType is the type as it was received where Kind is KindUnknown.
	SentType string
}

// Move is what an entry did to one limit. Missing marks a move that was due
// but had no counters to land on.
type Move struct {
	Pool, Unit, Period              string
	Held, Spent, Withheld, Cap, Adj int64
	Missing                         bool
}

// EntryID names an entry by where its script wrote it.
func EntryID(partition int, outboxID string) string {
	return strconv.Itoa(partition) + "-" + outboxID
}

// ParseEntryID is the inverse of EntryID.
func ParseEntryID(id string) (partition int, outboxID string, ok bool) {
	head, rest, found := strings.Cut(id, "-")
	n, err := strconv.ParseUint(head, 10, 16)
	if !found || err != nil || rest == "" || strconv.FormatUint(n, 10) != head {
		return 0, "", false
	}
	return int(n), rest, true
}

// Append writes the entry's body. These bytes are what the chain hashes.
func (e LedgerEntry) Append(dst []byte) []byte {
	dst = append(dst, `{"v":1,"type":"`+ledgerType...)
	dst = append(dst, e.Kind...)
	dst = appendString(append(dst, `","id":`...), e.ID)
	dst = appendString(append(dst, `,"org":`...), e.Org)
	dst = AppendTime(append(dst, `,"at":"`...), e.At)
	dst = appendString(append(dst, `","kind":`...), string(e.Kind))
	dst = appendText(dst, "execution", e.Execution)
	dst = appendText(dst, "agent", e.Agent)
	dst = appendText(dst, "on_behalf_of", e.OnBehalfOf)
	dst = appendText(dst, "key", e.Key)
	if len(e.Labels) > 0 {
		dst = appendLabels(dst, e.Labels)
	}
	dst = appendText(dst, "trace", e.Trace)
	dst = append(dst, `,"moves":[`...)
	for i := range e.Moves {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.Moves[i].append(dst)
	}
	dst = append(dst, ']')
	dst = appendMembers(dst, e.Detail)
	dst = appendText(dst, "record", e.Record)
	return append(dst, '}')
}

func (m *Move) append(dst []byte) []byte {
	dst = appendString(append(dst, `{"pool":`...), m.Pool)
	dst = appendString(append(dst, `,"unit":`...), m.Unit)
	dst = appendString(append(dst, `,"period":`...), m.Period)
	dst = appendCounter(dst, "held", m.Held)
	dst = appendCounter(dst, "spent", m.Spent)
	dst = appendCounter(dst, "withheld", m.Withheld)
	dst = appendCounter(dst, "cap", m.Cap)
	dst = appendCounter(dst, "adj", m.Adj)
	return append(appendTrue(dst, "missing", m.Missing), '}')
}

// appendCounter leaves zeros out.
func appendCounter(dst []byte, name string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return appendInt(dst, name, n)
}

// appendMembers splices the members of an object into an open one.
func appendMembers(dst []byte, object json.RawMessage) []byte {
	r := reader{data: object}
	if r.peek() != '{' {
		return dst
	}
	start := r.pos + 1
	r.pos = start
	if c := r.peek(); c == '}' || c == 0 {
		return dst
	}
	dst = append(dst, ',')
	end := len(object)
	for end > start && object[end-1] != '}' {
		end--
	}
	return append(dst, object[r.pos:max(r.pos, end-1)]...)
}

// EntryHash chains an entry to the one before it: SHA-256 of the previous
// hash (zeros for the first), the sequence as 8 bytes big-endian and the
// exact body.
func EntryHash(prev [32]byte, seq uint64, body []byte) [32]byte {
	var head [40]byte
	copy(head[:], prev[:])
	binary.BigEndian.PutUint64(head[32:], seq)
	h := sha256.New()
	h.Write(head[:])
	h.Write(body)
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// ParseHash reads a hash as headers and exports carry it.
func ParseHash(v string) (sum [32]byte, ok bool) {
	if !validHex(v, 64) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(v))
	return sum, err == nil
}

// FormatHash is the inverse of ParseHash.
func FormatHash(sum [32]byte) string { return hex.EncodeToString(sum[:]) }
