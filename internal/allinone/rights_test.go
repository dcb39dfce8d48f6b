package allinone

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/app"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

func itoa(n int) string { return strconv.Itoa(n) }

// bank is a Redis that each worker enters as its own user.
type bank struct {
	t   *testing.T
	url string
	set topology.Set
	ctx context.Context
}

func (b *bank) as(worker string) *redisx.Store {
	b.t.Helper()
	u := b.set[worker].Redis
	opt, err := app.RedisOptions(b.url, u.User, u.Password)
	if err != nil {
		b.t.Fatal(err)
	}
	client := redis.NewClient(opt)
	b.t.Cleanup(func() { _ = client.Close() })
	if err := app.CheckRedis(b.ctx, client); err != nil {
		b.t.Fatalf("%s: %v", worker, err)
	}
	s, err := redisx.New(redisx.Config{Client: client, Partitions: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := s.Load(b.ctx); err != nil {
		b.t.Fatalf("%s: %v", worker, err)
	}
	return s
}

// permitted fails where Redis forbade something: the table lacks a command or
// a key.
func (b *bank) permitted(what string, errs ...error) {
	b.t.Helper()
	for _, err := range errs {
		if err == nil {
			continue
		}
		if text := err.Error(); strings.Contains(text, "NOPERM") || strings.Contains(text, "can't run this command") ||
			strings.Contains(text, "ACL") || errors.Is(err, budget.ErrUnavailable) {
			b.t.Errorf("%s: %v", what, err)
		}
	}
}

const tokensUnit = "tokens"

func (b *bank) open() (budget.Agent, []budget.Limit, []budget.Slot) {
	registrar := b.as(topology.Registrar)
	agent := budget.Agent{Org: "acme", ID: "0198f000-0000-7000-8000-000000000001"}
	id := budget.LimitID{Pool: "main", Unit: tokensUnit, Period: "none"}
	b.permitted("epoch", registrar.SetEpoch(b.ctx, 0, "e"))
	_, err := registrar.ApplyPolicy(b.ctx, redisx.PolicyArgs{Org: agent.Org, Pool: id.Pool, Rev: 1, Limits: []redisx.PolicyLimit{
		{Unit: id.Unit, Period: id.Period, Cap: 1000, OnOverrun: "reject", State: "open", LateWindowMS: 1000},
	}})
	b.permitted("policy", err, errOf(registrar.Register(b.ctx, redisx.RegisterArgs{
		Registration: redisx.Registration{Org: agent.Org, Agent: agent.ID, Name: "n", Pool: "main", Root: agent.ID, ExpiresAtMS: 4102444800000}, TreeMax: 10,
	})))
	return agent, []budget.Limit{{LimitID: id, Rev: 1}}, []budget.Slot{{Pool: "main", Pattern: "*", Max: 10}}
}

// Every worker may do its work in Redis, with the rights of users.acl.
func TestRedisRightsSuffice(t *testing.T) {
	t.Parallel()
	r := redisIn(t, shortDir(t))
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := &bank{t: t, url: r.URL, set: r.cfg.Set, ctx: within(t)}
	agent, path, slots := b.open()
	reserver, settler, registrar := b.as(topology.Reserver), b.as(topology.Settler), b.as(topology.Registrar)
	reserve := func(execution string, ttl time.Duration) {
		batch := reserver.Batch()
		p := batch.Reserve(redisx.ReserveArgs{
			Agent: agent, Execution: execution, Fingerprint: "f", Amounts: budget.Amounts{tokensUnit: 10}, TTL: ttl, Path: path, Slots: slots, Target: "t",
		})
		batch.Run(b.ctx)
		b.permitted("reserve", p.Err)
		if p.Err == nil && p.Decision.Outcome != budget.Allowed {
			t.Fatalf("reserve %s: %+v", execution, p.Decision.Denial)
		}
	}
	for _, e := range []string{"settled", "refused", "released", "revoked"} {
		reserve(e, time.Minute)
	}
	reserve("expired", time.Second)

	batch := reserver.Batch()
	extended := batch.Extend(redisx.ExtendArgs{Caller: agent, Execution: "settled", Key: "x", Fingerprint: "f", TTL: 2 * time.Minute, Add: budget.Amounts{tokensUnit: 1}, Guess: path})
	charged := batch.Charge(redisx.ChargeArgs{Agent: agent, Execution: "charge", Fingerprint: "f", Amounts: budget.Amounts{tokensUnit: 1}, Path: path})
	balance := batch.Balance(agent.Org, []budget.LimitID{path[0].LimitID})
	record := batch.Record(agent.Org, "settled")
	batch.Run(b.ctx)
	_, err := reserver.Live(b.ctx, agent.Org, agent.ID)
	b.permitted("reserver", extended.Err, charged.Err, balance.Err, record.Err, err)

	batch = settler.Batch()
	settled := batch.Settle(redisx.SettleArgs{Caller: agent, Execution: "settled", Key: "s", Fingerprint: "f", Actual: budget.Amounts{tokensUnit: 1}, Status: "success", Final: true, Guess: path})
	refused := batch.Settle(redisx.SettleArgs{Caller: agent, Execution: "refused", Key: "s", Fingerprint: "f", Actual: budget.Amounts{tokensUnit: 500}, Status: "success", Final: true, Guess: path})
	released := batch.Release(redisx.ReleaseArgs{Caller: agent, Execution: "released", Key: "r", Fingerprint: "f", Guess: path})
	tombstone := batch.Release(redisx.ReleaseArgs{Caller: agent, Execution: "never", Key: "r", Fingerprint: "f", ByKey: true})
	batch.Run(b.ctx)
	b.permitted("settler", settled.Err, refused.Err, released.Err, tombstone.Err)

	b.permitted("revoke", registrar.Revoke(b.ctx, redisx.RevokeArgs{Agent: agent, By: "operator"}))
	b.permitted("administer", registrar.Administer(b.ctx, redisx.AdministerArgs{Org: agent.Org, Action: "admin_add", By: "operator", Subject: "x"}))
	batch = registrar.Batch()
	released = batch.Release(redisx.ReleaseArgs{Caller: agent, Operator: true, Execution: "revoked", Key: "r", Fingerprint: "f"})
	batch.Run(b.ctx)
	_, balancesErr := registrar.Balances(b.ctx, agent.Org, []budget.LimitID{path[0].LimitID})
	_, liveErr := registrar.Live(b.ctx, agent.Org, agent.ID)
	_, revokedErr := registrar.Revoked(b.ctx, 0)
	b.permitted("registrar", released.Err, balancesErr, liveErr, revokedErr)
	b.reap()
	b.carry()
	b.rebuild(path[0].LimitID, agent.Org)
}

// reap waits for the one short reservation and expires it.
func (b *bank) reap() {
	b.t.Helper()
	reaper := b.as(topology.Reaper)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		due, _, err := reaper.Due(b.ctx, 10)
		b.permitted("due", err)
		if err != nil || len(due[0]) > 0 {
			break
		}
		<-poll.C
	}
	batch := reaper.Batch()
	record := batch.Record("acme", "expired")
	batch.Run(b.ctx)
	b.permitted("record", record.Err)
	batch = reaper.Batch()
	expired, corrupt := batch.Expire(0, redisx.Overdue{Execution: "expired"}, record.Record), batch.Expire(0, redisx.Overdue{Execution: "no such"}, redisx.Record{})
	batch.Run(b.ctx)
	b.permitted("reaper", expired.Err, corrupt.Err, reaper.SetAside(b.ctx, 0, redisx.Overdue{Execution: "x"}, "test"))
	if expired.Outcome != "expired" {
		b.t.Errorf("expire: %s", expired.Outcome)
	}
}

// carry reads and trims the outbox as the scribe does.
func (b *bank) carry() {
	b.t.Helper()
	scribe := b.as(topology.Scribe)
	page, err := scribe.OutboxRead(b.ctx, 0, "", 1000)
	_, waitErr := scribe.OutboxWait(b.ctx, []string{""}, 10, time.Millisecond)
	last, lastErr := scribe.OutboxLast(b.ctx)
	_, anchorsErr := scribe.Anchors(b.ctx)
	_, fencedErr := scribe.Fenced(b.ctx, 0)
	_, epochErr := scribe.Epoch(b.ctx, 0)
	b.permitted("scribe reads", err, waitErr, lastErr, anchorsErr, fencedErr, epochErr)
	if len(page.Entries) < 8 || len(page.Corrupt) > 0 {
		b.t.Errorf("%d entries, %d corrupt", len(page.Entries), len(page.Corrupt))
	}
	trim := &redisx.Trim{Position: last[0], StreamSeq: uint64(len(page.Entries)), Hash: strings.Repeat("0", 64), Floor: last[0]}
	scribe.TrimOutboxes(b.ctx, []*redisx.Trim{trim})
	b.permitted("trim", trim.Err, scribe.QuarantineEntry(b.ctx, 0, "1-1"))
	if trim.Outcome != redisx.TrimDone {
		b.t.Errorf("trim: %s", trim.Outcome)
	}
}

// rebuild writes a partition anew, as the reconciler does.
func (b *bank) rebuild(id budget.LimitID, org string) {
	b.t.Helper()
	s := b.as(topology.Reconciler)
	counter := budget.Counter{Org: org, LimitID: id}
	_, snapshotErr := s.Snapshot(b.ctx, 0, []budget.Counter{counter})
	_, openedErr := s.Opened(b.ctx, 0)
	_, quarantineErr := s.Quarantined(b.ctx, 0)
	_, revokedErr := s.Revoked(b.ctx, 0)
	last, lastErr := s.OutboxLast(b.ctx)
	b.permitted("reconciler reads", snapshotErr, openedErr, quarantineErr, revokedErr, lastErr,
		s.SetOutstanding(b.ctx, 0, map[budget.Counter]int64{counter: 1}))
	batch := s.Batch()
	record := batch.Record(org, "refused")
	batch.Run(b.ctx)
	fenceErr := s.Fence(b.ctx, 0, "rebuild")
	restore := s.Restore(0, "rebuild")
	_, restoreErr := restore.Records(b.ctx, map[string]string{"broken": "x"})
	b.permitted("rebuild", record.Err, fenceErr, restore.Wipe(b.ctx),
		restore.Limits(b.ctx, []redisx.LimitState{{Counter: counter, Rev: 1, State: "open", OnOverrun: "reject"}}), restoreErr,
		restore.Revoked(b.ctx, map[string]time.Time{"a": time.Now()}),
		restore.Outbox(b.ctx, redisx.Anchor{Position: last[0], StreamSeq: 1, Hash: "0"}),
		restore.Undo(b.ctx, []redisx.Undo{{Reason: "test"}}),
		restore.Open(b.ctx, "e"),
		s.Administer(b.ctx, redisx.AdministerArgs{Org: org, Action: "rebuild", By: "operator", Subject: org}))
}

// No worker may do what is not its work.
func TestRedisRightsEnd(t *testing.T) {
	t.Parallel()
	r, err := StartRedis(within(t), RedisConfig{Dir: shortDir(t), Set: freshSet(t), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, worker := range topology.Workers() {
		u := r.cfg.Set[worker].Redis
		opt, err := app.RedisOptions(r.URL, u.User, u.Password)
		if err != nil {
			t.Fatal(err)
		}
		c := redis.NewClient(opt)
		for _, command := range [][]any{
			{"FLUSHALL"},
			{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"},
			{"SHUTDOWN"},
			{"ACL", "LIST"},
			{"KEYS", "*"},
			{"EVAL", "return 1", "0"},
			{"SCRIPT", "FLUSH"},
			{"GET", "elsewhere"},
			{"REPLICAOF", "NO", "ONE"},
		} {
			if err := c.Do(within(t), command...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				t.Errorf("%s: %v: %v", worker, command, err)
			}
		}
		_ = c.Close()
	}
}

func errOf(_ redisx.Registration, _ bool, err error) error { return err }
