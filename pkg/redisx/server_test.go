package redisx

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"tallystick/internal/testkit"
	"tallystick/pkg/budget"
)

// bench is a fresh org with pools on one server; its clock stands still until
// the test moves it.
type bench struct {
	testing.TB
	store  *Store
	client redis.UniversalClient
	clock  string
	nowMS  int64
	org    string
	agent  budget.Agent
	rev    int64
	serial int
	// executions are all this bench ever used.
	executions []string
}

func newBench(t testing.TB) *bench { return newBenchOn(t, testkit.Redis(t)) }

func newBenchOn(t testing.TB, client redis.UniversalClient) *bench {
	t.Helper()
	id := strings.ReplaceAll(uuid.NewString(), "-", "")
	b := &bench{TB: t, client: client, org: "o" + id[:20], nowMS: 1_800_000_000_000}
	b.agent = budget.Agent{Org: b.org, ID: uuid.NewString()}
	// The clock's key carries the partition's tag, for the cluster's sake.
	b.clock = fmt.Sprintf("clock:{p%02d}%s", partitionOf(b.org, PartitionsDefault), id)
	store, err := New(Config{Client: client, Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.store = store
	ctx := t.Context()
	b.advance(0)
	if err := store.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if err := store.SetEpoch(ctx, store.Partition(b.org), "e1"); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) advance(d time.Duration) {
	b.Helper()
	b.nowMS += d.Milliseconds()
	if err := b.client.Set(b.Context(), b.clock, fmt.Sprint(b.nowMS*1000), 0).Err(); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) key() string { b.serial++; return fmt.Sprintf("k%d", b.serial) }

// pool creates or changes a pool with one limit.
func (b *bench) pool(name string, limit PolicyLimit) budget.Limit {
	b.Helper()
	b.rev++
	limit.Period = budget.PeriodNone
	if limit.Unit == "" {
		limit.Unit = "usd_microcents"
	}
	if limit.OnOverrun == "" {
		limit.OnOverrun = "reject"
	}
	if limit.State == "" {
		limit.State = "open"
	}
	res, err := b.store.ApplyPolicy(b.Context(), PolicyArgs{Org: b.org, Pool: name, Rev: b.rev, Limits: []PolicyLimit{limit}})
	if err != nil || !res.Applied {
		b.Fatalf("policy: %+v, %v", res, err)
	}
	return budget.Limit{LimitID: budget.LimitID{Pool: name, Unit: limit.Unit, Period: limit.Period}, Rev: b.rev}
}

func (b *bench) reserveArgs(key string, amount int64, path ...budget.Limit) ReserveArgs {
	amounts := budget.Amounts{}
	for _, l := range path {
		amounts[l.Unit] = amount
	}
	execution := ExecutionID(b.org, b.agent.ID, "reserve", key)
	b.executions = append(b.executions, execution)
	return ReserveArgs{
		Agent: b.agent, Execution: execution, Fingerprint: fmt.Sprintf("%032x", amount),
		Amounts: amounts, TTL: time.Minute, Path: path, Extra: Extra{Key: key},
	}
}

func (b *bench) reserve(a ReserveArgs) (budget.Decision, error) {
	batch := b.store.Batch()
	p := batch.Reserve(a)
	batch.Run(b.Context())
	return p.Decision, p.Err
}

// hold reserves and must succeed.
func (b *bench) hold(amount int64, path ...budget.Limit) ReserveArgs {
	b.Helper()
	a := b.reserveArgs(b.key(), amount, path...)
	d, err := b.reserve(a)
	if err != nil || d.Outcome != budget.Allowed {
		b.Fatalf("hold: %+v, %v", d, err)
	}
	return a
}

func (b *bench) settle(a SettleArgs) (budget.Decision, error) {
	batch := b.store.Batch()
	p := batch.Settle(a)
	batch.Run(b.Context())
	return p.Decision, p.Err
}

func (b *bench) settleArgs(held ReserveArgs, actual int64) SettleArgs {
	amounts := budget.Amounts{}
	for unit := range held.Amounts {
		amounts[unit] = actual
	}
	return SettleArgs{
		Caller: b.agent, Execution: held.Execution, Key: b.key(), Fingerprint: fmt.Sprintf("%032x", actual+1), Actual: amounts,
		Status: "unknown", Final: true, Guess: held.Path,
	}
}

func (b *bench) release(a ReleaseArgs) (budget.Decision, error) {
	batch := b.store.Batch()
	p := batch.Release(a)
	batch.Run(b.Context())
	return p.Decision, p.Err
}

func (b *bench) extend(a ExtendArgs) (budget.Decision, error) {
	batch := b.store.Batch()
	p := batch.Extend(a)
	batch.Run(b.Context())
	return p.Decision, p.Err
}

func (b *bench) charge(a ChargeArgs) (budget.Decision, error) {
	batch := b.store.Batch()
	p := batch.Charge(a)
	batch.Run(b.Context())
	return p.Decision, p.Err
}

// expire expires one execution as the reaper does.
func (b *bench) expire(execution string) string {
	b.Helper()
	partition := b.store.Partition(b.org)
	read := b.store.Batch()
	rec := read.RecordIn(partition, execution)
	read.Run(b.Context())
	batch := b.store.Batch()
	p := batch.Expire(partition, Overdue{execution, b.store.keysOf(b.org).live(b.org, b.agent.ID)}, rec.Record)
	batch.Run(b.Context())
	if p.Err != nil {
		b.Fatalf("expire: %v", p.Err)
	}
	return p.Outcome
}

func (b *bench) counters(l budget.Limit) budget.Counters {
	b.Helper()
	rows, err := b.store.Balances(b.Context(), b.org, []budget.LimitID{l.LimitID})
	if err != nil {
		b.Fatal(err)
	}
	return rows[0].Counters
}

// entries are this org's entries in the outbox, oldest first.
func (b *bench) entries() []budget.Entry {
	b.Helper()
	partition := b.store.Partition(b.org)
	msgs, err := b.client.XRange(b.Context(), b.store.partitions[partition].outbox, "-", "+").Result()
	if err != nil {
		b.Fatal(err)
	}
	var out []budget.Entry
	for _, m := range msgs {
		e, err := ParseEntry(partition, m.ID, m.Values["e"].(string))
		if err != nil {
			b.Fatal(err)
		}
		if e.Org == b.org {
			out = append(out, e)
		}
	}
	return out
}

// lawful fails unless the counters are what the entries add up to.
func (b *bench) lawful(limits ...budget.Limit) {
	b.Helper()
	fold := budget.Fold{}
	for _, e := range b.entries() {
		fold.Apply(e)
	}
	for _, l := range limits {
		if got, want := b.counters(l), fold[budget.Counter{Org: b.org, LimitID: l.LimitID}]; got != want {
			b.Fatalf("counters of %s are %+v, the entries say %+v", l.Pool, got, want)
		}
	}
}

func (b *bench) chargeArgs(key string, amount int64, incurred bool, path ...budget.Limit) ChargeArgs {
	a := b.reserveArgs(key, amount, path...)
	execution := ExecutionID(b.org, b.agent.ID, "charge", key)
	b.executions = append(b.executions, execution)
	return ChargeArgs{
		Agent: b.agent, Execution: execution, Fingerprint: a.Fingerprint, Amounts: a.Amounts, Path: path,
		Incurred: incurred, Extra: a.Extra,
	}
}

// slotted asks for a slot of the first pool; none where most is 0.
func (b *bench) slotted(a ReserveArgs, most int64) ReserveArgs {
	if most > 0 {
		a.Target, a.Slots = "openai/gpt-5", []budget.Slot{{Pool: a.Path[0].Pool, Pattern: "openai/*", Max: most}}
	}
	return a
}

func (b *bench) revoke(a budget.Agent) {
	b.Helper()
	if err := b.store.Revoke(b.Context(), RevokeArgs{Agent: a, By: Operator}); err != nil {
		b.Fatal(err)
	}
}

// drop deletes a limit's hash, as a fault would.
func (b *bench) drop(l budget.Limit) {
	b.Helper()
	if err := b.client.Del(b.Context(), b.store.keysOf(b.org).limit(b.org, l.LimitID)).Err(); err != nil {
		b.Fatal(err)
	}
}

// fence is not parallel to other tests of the partition, so the bench moves to
// a partition nobody else uses; the returned function takes the fence away.
func (b *bench) fence() func() {
	b.Helper()
	k := b.store.keysOf(b.org)
	own := "revoked:" + k.tag + b.org
	b.store.partitions[b.store.Partition(b.org)].revoked = own
	if err := b.client.HSet(b.Context(), own, "fence", "test").Err(); err != nil {
		b.Fatal(err)
	}
	return func() { b.client.Del(b.Context(), own) }
}

// freshOrg is an org of a partition that no test has used.
func freshOrg(store *Store, partition int) string {
	for {
		if org := "o" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20]; store.Partition(org) == partition {
			return org
		}
	}
}
