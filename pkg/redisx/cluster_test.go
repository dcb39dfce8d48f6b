package redisx

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/internal/testkit"
	"tallystick/pkg/budget"
)

// fleet is a fresh org in each partition of one cluster, behind one Store that
// reads the real time.
type fleet struct {
	*testing.T
	client *redis.ClusterClient
	store  *Store
	orgs   []string // by partition
	limits []budget.Limit
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, client: testkit.Cluster(t)}
	store, err := New(Config{Client: f.client})
	if err != nil {
		t.Fatal(err)
	}
	f.store, f.orgs, f.limits = store, make([]string, store.Partitions()), make([]budget.Limit, store.Partitions())
	if err := store.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for p := range f.orgs {
		f.orgs[p] = freshOrg(store, p)
		if err := store.SetEpoch(t.Context(), p, "e1"); err != nil {
			t.Fatal(err)
		}
		f.limits[p] = fleetLimit(t, store, f.orgs[p])
	}
	return f
}

func fleetLimit(t *testing.T, store *Store, org string) budget.Limit {
	t.Helper()
	res, err := store.ApplyPolicy(t.Context(), PolicyArgs{Org: org, Pool: "p", Rev: 1, Limits: []PolicyLimit{{
		Unit: "tokens", Period: budget.PeriodNone, Cap: 100, OnOverrun: "reject", State: "open",
	}}})
	if err != nil || !res.Applied {
		t.Fatalf("policy of %s: %+v, %v", org, res, err)
	}
	return budget.Limit{LimitID: budget.LimitID{Pool: "p", Unit: "tokens", Period: budget.PeriodNone}, Rev: 1}
}

// reserveArgs are those of one reserve of ten in a partition.
func (f *fleet) reserveArgs(partition int, key string) ReserveArgs {
	org := f.orgs[partition]
	return ReserveArgs{
		Agent: budget.Agent{Org: org, ID: "a"}, Execution: ExecutionID(org, "a", "reserve", key), Fingerprint: "f",
		Amounts: budget.Amounts{"tokens": 10}, TTL: time.Minute, Path: f.limits[partition : partition+1], Extra: Extra{Key: key},
	}
}

// reserveAll reserves in every partition by one batch: one pipeline to three
// nodes.
func (f *fleet) reserveAll(key string) {
	f.Helper()
	batch := f.store.Batch()
	sent := make([]*Pending, len(f.orgs))
	for p := range f.orgs {
		sent[p] = batch.Reserve(f.reserveArgs(p, key))
	}
	batch.Run(f.Context())
	for p, got := range sent {
		if got.Err != nil || got.Decision.Outcome != budget.Allowed {
			f.Fatalf("partition %d: %+v, %v", p, got.Decision, got.Err)
		}
	}
}

// placed is, per node, the partitions of which it has the limit of the fleet.
func (f *fleet) placed() map[string][]int {
	f.Helper()
	var mu sync.Mutex
	out := map[string][]int{}
	err := f.client.ForEachMaster(f.Context(), func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, "bp:*").Result()
		mu.Lock()
		defer mu.Unlock()
		node := c.Options().Addr
		out[node] = nil
		for p, org := range f.orgs {
			if slices.Contains(keys, f.store.partitions[p].limit(org, f.limits[p].LimitID)) {
				out[node] = append(out[node], p)
			}
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// TestClusterSpreads: the partitions lie on all three nodes, each on one, and
// one batch reaches them all, also after a node has lost its script cache.
func TestClusterSpreads(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.reserveAll("one")
	placed := f.placed()
	total := 0
	for node, partitions := range placed {
		if total += len(partitions); len(partitions) == 0 {
			t.Errorf("%s has no partition", node)
		}
	}
	if len(placed) != 3 || total != len(f.orgs) {
		t.Errorf("partitions by node: %v", placed)
	}
	node, err := f.client.MasterForKey(t.Context(), f.store.partitions[0].epoch)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	f.reserveAll("two")
	for p, org := range f.orgs {
		rows, err := f.store.Balances(t.Context(), org, []budget.LimitID{f.limits[p].LimitID})
		if err != nil || rows[0].Held != 20 {
			t.Errorf("partition %d: %+v, %v", p, rows, err)
		}
	}
}

// TestClusterReads: what workers read of all partitions at once comes from all
// nodes.
func TestClusterReads(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ctx := t.Context()
	before, err := f.store.OutboxLast(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.reserveAll("one")
	page, err := f.store.OutboxWait(ctx, before, 1000, time.Second)
	if err != nil || len(page.Corrupt) != 0 {
		t.Fatal(page.Corrupt, err)
	}
	reserved := map[string]bool{}
	for _, e := range page.Entries {
		reserved[e.Org] = reserved[e.Org] || string(e.Kind) == "reserved"
	}
	last, err := f.store.OutboxLast(ctx)
	if err != nil {
		t.Fatal(err)
	}
	anchors, err := f.store.Anchors(ctx)
	if err != nil || len(anchors) != len(f.orgs) {
		t.Fatal(anchors, err)
	}
	for p, org := range f.orgs {
		if !reserved[org] || !idLess(before[p], last[p]) {
			t.Errorf("partition %d: entries %v, outbox %s then %s", p, reserved[org], before[p], last[p])
		}
		live, err := f.store.Live(ctx, org, "a")
		if err != nil || !slices.Equal(live, []string{f.reserveArgs(p, "one").Execution}) {
			t.Errorf("partition %d: live %v, %v", p, live, err)
		}
	}
	if _, _, err := f.store.Due(ctx, 10); err != nil {
		t.Error(err)
	}
}
