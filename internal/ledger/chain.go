package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"tallystick/pkg/events"
)

// Hash is a link of a chain: SHA-256 of the hash before, the sequence and the
// exact body.
type Hash [32]byte

// String is the hash as the headers carry it: lower-case hex.
func (h Hash) String() string { return events.FormatHash(h) }

// ParseHash reads 64 lower-case hex digits.
func ParseHash(s string) (Hash, error) {
	h, ok := events.ParseHash(s)
	if !ok {
		return Hash{}, fmt.Errorf("hash %q is not 64 lower-case hex digits", s)
	}
	return h, nil
}

// Message is one stored entry.
type Message struct {
	StreamSeq uint64
	Subject   string
	Seq       uint64 // within the org, from 1
	Prev      Hash
	Hash      Hash
	Positions string // Tally-Positions, on the last entry of a batch
	Body      []byte
}

// Positions holds, per partition, the outbox id of the newest entry that is on
// the ledger; "" where there is none.
type Positions []string

// String is the compact header form: "0=1764550000000-0,3=1764550000123-1".
func (p Positions) String() string {
	b := make([]byte, 0, 24*len(p))
	for i, id := range p {
		if id == "" {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, '=')
		b = append(b, id...)
	}
	return string(b)
}

// ParsePositions reads the header form for n partitions.
func ParsePositions(s string, n int) (Positions, error) {
	p := make(Positions, n)
	if s == "" {
		return p, nil
	}
	for term := range strings.SplitSeq(s, ",") {
		index, id, ok := strings.Cut(term, "=")
		i, err := strconv.Atoi(index)
		if !ok || err != nil || i < 0 || i >= n || !validOutboxID(id) {
			return nil, fmt.Errorf("positions %q: bad term %q for %d partitions", s, term, n)
		}
		p[i] = id
	}
	return p, nil
}

func validOutboxID(id string) bool {
	ms, seq, ok := strings.Cut(id, "-")
	if !ok {
		return false
	}
	_, err1 := strconv.ParseUint(ms, 10, 64)
	_, err2 := strconv.ParseUint(seq, 10, 64)
	return err1 == nil && err2 == nil
}

// CompareIDs orders two outbox ids; "" is below every id.
func CompareIDs(a, b string) int {
	if a == b {
		return 0
	}
	ams, aseq := splitID(a)
	bms, bseq := splitID(b)
	switch {
	case ams < bms || ams == bms && aseq < bseq:
		return -1
	case ams == bms && aseq == bseq:
		return 0
	}
	return 1
}

func splitID(id string) (ms, seq uint64) {
	a, b, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(a, 10, 64)
	seq, _ = strconv.ParseUint(b, 10, 64)
	return ms, seq
}

// EntryID is the id of an entry: partition and outbox id.
func EntryID(partition int, outboxID string) string { return events.EntryID(partition, outboxID) }

// SplitEntryID is the inverse of EntryID.
func SplitEntryID(id string) (partition int, outboxID string, err error) {
	partition, outboxID, ok := events.ParseEntryID(id)
	if !ok || !validOutboxID(outboxID) {
		return 0, "", fmt.Errorf("entry id %q is not partition, ms and sequence", id)
	}
	return partition, outboxID, nil
}
