package redisx

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
)

// seg encodes one part of a key as <bytes>:<part>. Segments are concatenated;
// the length keeps "a:b"+"c" apart from "a"+"b:c".
func seg(part string) string { return strconv.Itoa(len(part)) + ":" + part }

// unseg takes one segment off a text. It accepts what seg writes and nothing
// else, so a text has one reading.
func unseg(text string) (part, rest string, ok bool) {
	digits, after, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > len(after) || !strings.HasPrefix(text, strconv.Itoa(n)+":") {
		return "", text, false
	}
	return after[:n], after[n:], true
}

// fieldOf names a limit within its partition: a field of opened and
// outstanding, and the rest of its key after the partition.
func fieldOf(org string, l budget.LimitID) string {
	return seg(org) + seg(l.Pool) + seg(l.Unit) + seg(l.Period)
}

// partitionKeys are the keys of one partition. Every key carries the
// partition's hash tag, so the keys of a script share a cluster slot.
type partitionKeys struct {
	tag                                               string // {p07}
	expiring, lapsing, revoked, epoch, opened, outbox string
	quarantine, scribe, outstanding                   string
	limitPrefix, recordPrefix, livePrefix, slotPrefix string
	treePrefix, childrenPrefix, registrationPrefix    string
}

func newPartitionKeys(partition int) partitionKeys {
	tag := fmt.Sprintf("{p%02d}", partition)
	return partitionKeys{
		tag:          tag,
		expiring:     "expiring:" + tag,
		lapsing:      "lapsing:" + tag,
		revoked:      "revoked:" + tag,
		epoch:        "epoch:" + tag,
		opened:       "opened:" + tag,
		outbox:       "outbox:" + tag,
		quarantine:   "quarantine:" + tag,
		scribe:       "scribe:" + tag,
		outstanding:  "outstanding:" + tag,
		limitPrefix:  "bp:" + tag,
		recordPrefix: "reservation:" + tag,
		livePrefix:   "live:" + tag,
		slotPrefix:   "concurrency:" + tag,

		treePrefix:         "tree:" + tag,
		childrenPrefix:     "children:" + tag,
		registrationPrefix: "registration:" + tag,
	}
}

func (k *partitionKeys) limit(org string, l budget.LimitID) string {
	return k.limitPrefix + fieldOf(org, l)
}
func (k *partitionKeys) record(execution string) string { return k.recordPrefix + seg(execution) }
func (k *partitionKeys) live(org, agent string) string {
	return k.livePrefix + seg(org) + seg(agent)
}

func (k *partitionKeys) slot(org, pool, pattern string) string {
	return k.slotPrefix + seg(org) + seg(pool) + seg(pattern)
}

func (k *partitionKeys) tree(org, root string) string { return k.treePrefix + seg(org) + seg(root) }

func (k *partitionKeys) children(org, parent string) string {
	return k.childrenPrefix + seg(org) + seg(parent)
}

func (k *partitionKeys) registration(execution string) string {
	return k.registrationPrefix + seg(execution)
}

// partitionOf spreads orgs over partitions; the number is fixed at install.
func partitionOf(org string, partitions int) int {
	return int(crc32.ChecksumIEEE([]byte(org)) % uint32(partitions))
}

// ExecutionID is the id of what an agent does under one idempotency key: a
// UUIDv8 cut from a hash, so that a retry lands on the same record.
func ExecutionID(org, agent, verb, key string) string {
	sum := sha256.Sum256([]byte(seg(org) + seg(agent) + seg(verb) + seg(key)))
	var id uuid.UUID
	copy(id[:], sum[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// keyID names an attempt to resolve or extend a reservation: keys are scoped
// per caller and verb.
func keyID(caller, verb, key string) string {
	sum := sha256.Sum256([]byte(seg(caller) + seg(verb) + seg(key)))
	return fmt.Sprintf("%x", sum[:16])
}

// limitsLine lists limits as the record stores them; no name may hold a
// control character, so tab separates safely.
func limitsLine(path []budget.Limit) string {
	var b strings.Builder
	for i, l := range path {
		if i > 0 {
			b.WriteByte('\t')
		}
		b.WriteString(l.Pool)
		b.WriteByte('\t')
		b.WriteString(l.Unit)
		b.WriteByte('\t')
		b.WriteString(l.Period)
	}
	return b.String()
}

func slotsLine(slots []budget.Slot) string {
	parts := make([]string, 0, 2*len(slots))
	for _, s := range slots {
		parts = append(parts, s.Pool, s.Pattern)
	}
	return strings.Join(parts, "\t")
}

// plain reports whether a name can stand in a record line.
func plain(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }) < 0
}
