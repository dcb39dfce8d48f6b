package redisx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"tallystick/internal/testkit"
	"tallystick/pkg/budget"
)

// upkeep is one partition that no other test uses, with one hold.
type upkeep struct {
	*testing.T
	store     *Store
	client    redis.UniversalClient
	partition int
	org       string
	limit     budget.Limit
	execution string
}

func newUpkeep(t *testing.T, client redis.UniversalClient, partition int) *upkeep {
	t.Helper()
	store, err := New(Config{Client: client, Partitions: 99})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.SetEpoch(t.Context(), partition, "e1"); err != nil {
		t.Fatal(err)
	}
	u := &upkeep{T: t, store: store, client: client, partition: partition, org: freshOrg(store, partition)}
	u.limit = fleetLimit(t, store, u.org)
	f := &fleet{T: t, store: store, orgs: []string{u.org}, limits: []budget.Limit{u.limit}}
	f.reserveAll("k")
	u.execution = f.reserveArgs(0, "k").Execution
	u.outstanding()
	return u
}

// outstanding tells Redis of the hold, as the scribe does.
func (u *upkeep) outstanding() {
	u.Helper()
	counter := budget.Counter{Org: u.org, LimitID: u.limit.LimitID}
	if err := u.store.SetOutstanding(u.Context(), u.partition, map[budget.Counter]int64{counter: 1}); err != nil {
		u.Fatal(err)
	}
}

// TestUpkeep: a cut, a trim and a rebuild of one partition, on a plain server
// and on each node of a cluster; its neighbour stays as it is.
func TestUpkeep(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{"plain": testkit.OwnRedis(t).Client(t), "cluster": testkit.Cluster(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, partition := range []int{96, 97, 98} { // on a cluster, each on another node
				u := newUpkeep(t, client, partition)
				before := u.dump()
				last := u.trimmed()
				record := u.wiped()
				u.restored(record, last)
				if after := u.dump(); after != before {
					t.Errorf("partition %d\n%s, before\n%s", partition, after, before)
				}
			}
		})
	}
}

// dump is all keys of the partition that a rebuild writes, with their values.
func (u *upkeep) dump() string {
	u.Helper()
	b := &bench{TB: u.T, client: u.client}
	lines := []string{}
	for _, key := range b.scan("*:" + u.store.partitions[u.partition].tag + "*") {
		ctx, value := u.Context(), ""
		switch kind := u.client.Type(ctx, key).Val(); kind {
		case "hash":
			value = fmt.Sprint(u.client.HGetAll(ctx, key).Val())
		case "string":
			value = u.client.Get(ctx, key).Val()
		case "set":
			value = fmt.Sprint(u.client.SMembers(ctx, key).Val())
		case "zset":
			value = fmt.Sprint(u.client.ZRangeWithScores(ctx, key, 0, -1).Val())
		default:
			continue // the outbox stays
		}
		if !strings.HasPrefix(key, "scribe:") {
			lines = append(lines, key+" "+value)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// trimmed cuts and trims the partition; it gives the end of its outbox.
func (u *upkeep) trimmed() string {
	u.Helper()
	cut, err := u.store.Snapshot(u.Context(), u.partition, []budget.Counter{{Org: u.org, LimitID: u.limit.LimitID}})
	if err != nil || cut.Rows[0].Cap != 100 || cut.Rows[0].Held != 10 {
		u.Fatalf("cut: %+v, %v", cut, err)
	}
	page, err := u.store.OutboxRead(u.Context(), u.partition, "", 10)
	if err != nil || len(page.Entries) != 2 || page.Entries[1].OutboxID != cut.Cut {
		u.Fatalf("outbox: %+v, %v, cut at %s", page, err, cut.Cut)
	}
	trim := &Trim{Partition: u.partition, Position: cut.Cut, StreamSeq: 2, Hash: strings.Repeat("0", 64), Floor: cut.Cut}
	u.store.TrimOutboxes(u.Context(), []*Trim{trim})
	if trim.Err != nil || trim.Outcome != TrimDone {
		u.Fatalf("trim: %s, %v", trim.Outcome, trim.Err)
	}
	anchors, err := u.store.Anchors(u.Context())
	if err != nil || anchors[u.partition] != (Anchor{Position: cut.Cut, StreamSeq: 2, Hash: trim.Hash}) {
		u.Fatalf("anchors: %+v, %v", anchors, err)
	}
	return cut.Cut
}

// wiped fences and wipes the partition; it gives the hold's record.
func (u *upkeep) wiped() string {
	u.Helper()
	k := &u.store.partitions[u.partition]
	record, err := u.client.Get(u.Context(), k.record(u.execution)).Result()
	if err != nil {
		u.Fatal(err)
	}
	restore := u.store.Restore(u.partition, "rebuild")
	if err := restore.Wipe(u.Context()); !errors.Is(err, ErrTakenOver) {
		u.Fatalf("a partition was wiped without a fence: %v", err)
	}
	// A limit of another partition, on another node of a cluster, whose pool
	// is named like keys of this one.
	neighbour := u.store.partitions[u.partition-1].limit("o", budget.LimitID{Pool: "bp:" + k.tag})
	if err := u.client.Set(u.Context(), neighbour, "stays", 0).Err(); err != nil {
		u.Fatal(err)
	}
	for _, err := range []error{u.store.Fence(u.Context(), u.partition, "rebuild"), restore.Wipe(u.Context())} {
		if err != nil {
			u.Fatal(err)
		}
	}
	if u.client.Del(u.Context(), neighbour).Val() != 1 {
		u.Error("a key of another partition was wiped")
	}
	if left := u.dump(); left != k.revoked+" map[fence:rebuild]" {
		u.Errorf("left:\n%s", left)
	}
	return record
}

// restored writes the partition anew.
func (u *upkeep) restored(record, last string) {
	u.Helper()
	ctx, p := u.Context(), u.partition
	restore := u.store.Restore(p, "rebuild")
	n, err := restore.Records(ctx, map[string]string{u.execution: record})
	if err != nil || n[u.org] == nil || *n[u.org] != (Restored{Records: 1, Held: 1}) {
		u.Fatalf("records: %+v, %v", n, err)
	}
	u.outstanding()
	for _, err := range []error{
		restore.Limits(ctx, []LimitState{{
			Counter: budget.Counter{Org: u.org, LimitID: u.limit.LimitID}, Counters: budget.Counters{Cap: 100, Held: 10}, Rev: 1, OnOverrun: "reject", State: "open",
		}}),
		restore.Outbox(ctx, Anchor{Position: last, StreamSeq: 2, Hash: "0"}),
		restore.Open(ctx, "e1"),
	} {
		if err != nil {
			u.Fatal(err)
		}
	}
}
