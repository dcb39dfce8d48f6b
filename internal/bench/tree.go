package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
	"tallystick/pkg/client"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

const (
	groupTrees  = "trees"
	treeRounds  = 6
	treeCallers = 32 // agents registered at once
	treeOrg     = "forest"
	treeLarge   = 10 // times as many agents stand in the large tree
)

// depths are the paths that are compared: pools, and an agent as deep.
func depths() []int { return []int{1, 3, 5, 8} }

// trees measures what a reserve costs below several pools and ancestors, with
// a slot, and in a large tree; then registering and revoking through the door.
func (b *run) trees(ctx context.Context) error {
	plain := map[int]float64{}
	for _, depth := range depths() {
		for _, slot := range []bool{false, true} {
			cost, err := b.atDepth(ctx, depth, slot)
			if err != nil {
				return err
			}
			if slot {
				b.scaled = append(b.scaled, Finding{fmt.Sprintf("reserve at depth %d with slots against none, Redis CPU", depth), ratio(cost, plain[depth]), "×", ""})
			} else {
				plain[depth] = cost
			}
		}
	}
	b.scaled = append(b.scaled, Finding{"reserve at depth 5 against depth 1, Redis CPU", ratio(plain[5], plain[1]), "×", "≤ 2.5"})
	large, err := b.inLargeTree(ctx)
	if err != nil {
		return err
	}
	b.scaled = append(b.scaled, Finding{
		fmt.Sprintf("reserve in a tree of %d agents against one of 5, Redis CPU", treeLarge*b.cfg.Tree), ratio(large, plain[5]), "×", "≈ 1",
	})
	if err := b.redis.reset(ctx); err != nil {
		return err
	}
	return b.on(ctx, groupTrees, b.treeSystem)
}

// path makes pools one below the other, with an agent as deep, each pool with
// a slot policy's worth of slots where asked.
func (b *run) path(ctx context.Context, depth int, slot bool) (limits []budget.Limit, slots []budget.Slot, agent budget.Agent, err error) {
	agent = budget.Agent{Org: b.redis.agent.Org, ID: b.redis.agent.ID}
	for i := range depth {
		l := budget.Limit{LimitID: budget.LimitID{Pool: fmt.Sprintf("level-%d-%d", depth, i), Unit: benchUnit, Period: budget.PeriodNone}, Rev: 1}
		_, err = b.redis.store.ApplyPolicy(ctx, redisx.PolicyArgs{Org: agent.Org, Pool: l.Pool, Rev: 1, Limits: []redisx.PolicyLimit{{
			Unit: l.Unit, Period: l.Period, Cap: unlimited, OnOverrun: "reject", State: "open", LateWindowMS: time.Hour.Milliseconds(),
		}}})
		if err != nil {
			return nil, nil, agent, err
		}
		limits = append(limits, l)
		if i > 0 {
			agent.Ancestors = append(agent.Ancestors, uuid.NewString())
		}
		if slot {
			slots = append(slots, budget.Slot{Pool: l.Pool, Pattern: "*", Max: unlimited})
		}
	}
	return limits, slots, agent, nil
}

// atDepth is the Redis CPU of one reserve, in µs.
func (b *run) atDepth(ctx context.Context, depth int, slot bool) (float64, error) {
	var windows []window
	for range 2 * b.cfg.Windows {
		if err := b.redis.reset(ctx); err != nil {
			return 0, err
		}
		limits, slots, agent, err := b.path(ctx, depth, slot)
		if err != nil {
			return 0, err
		}
		w, err := b.deepBurst(ctx, limits, slots, agent)
		if err != nil {
			return 0, err
		}
		windows = append(windows, w)
	}
	name := fmt.Sprintf("reserve, pipelined, depth %d", depth)
	if slot {
		name += ", a slot on each pool"
	}
	return b.addBurst(name, windows), nil
}

func (b *run) addBurst(name string, windows []window) float64 {
	r := rowOf(groupTrees, name, 0, windows)
	r.Note = fmt.Sprintf("p50 and p99 are of one pipeline of %d", scaleBatch)
	b.add(r)
	return r.StoreUS
}

func (b *run) deepBurst(ctx context.Context, limits []budget.Limit, slots []budget.Slot, agent budget.Agent) (window, error) {
	return b.measured(ctx, scaleBurst, scaleBatch, func() error {
		batch := b.redis.store.Batch()
		sent := make([]*redisx.Pending, scaleBatch)
		for i := range sent {
			a := b.redis.reserve(b.redis.nextKey(), budget.TTLDefault)
			a.Path, a.Agent = limits, agent
			if len(slots) > 0 {
				a.Slots, a.Target = slots, "openai/gpt-5"
			}
			sent[i] = batch.Reserve(a)
		}
		batch.Run(ctx)
		for _, p := range sent {
			if p.Err != nil || p.Decision.Outcome != budget.Allowed {
				return fmt.Errorf("a reserve was %s: %w", p.Decision.Outcome, p.Err)
			}
		}
		return nil
	})
}

// inLargeTree is atDepth 5 where many agents stand in the same tree, a tenth
// of them with an end of their own in revoked:{p}.
func (b *run) inLargeTree(ctx context.Context) (float64, error) {
	var windows []window
	for range 2 * b.cfg.Windows {
		if err := b.redis.reset(ctx); err != nil {
			return 0, err
		}
		limits, _, agent, err := b.path(ctx, 5, false)
		if err != nil {
			return 0, err
		}
		now, err := b.redis.store.Now(ctx)
		if err != nil {
			return 0, err
		}
		agents := make([]redisx.Registered, treeLarge*b.cfg.Tree)
		for i := range agents {
			agents[i].Registration = redisx.Registration{Org: agent.Org, Agent: uuid.NewString(), Parent: agent.Ancestors[0], Ancestors: agent.Ancestors}
			if i%treeLarge == 0 {
				agents[i].ExpiresAtMS = now.Add(time.Hour).UnixMilli()
			}
		}
		if err := b.redis.restoreAgents(ctx, agents, now); err != nil {
			return 0, err
		}
		w, err := b.deepBurst(ctx, limits, nil, agent)
		if err != nil {
			return 0, err
		}
		windows = append(windows, w)
	}
	return b.addBurst(fmt.Sprintf("the same, depth 5, in a tree of %d agents", treeLarge*b.cfg.Tree), windows), nil
}

// treeSystem registers a tree through the door and revokes it.
func (b *run) treeSystem(ctx context.Context, s *system) error {
	root, err := s.newTree(ctx, int64(b.cfg.Tree)+1)
	if err != nil {
		return err
	}
	defer root.Close()
	w, err := b.registerMany(ctx, s, root)
	if err != nil {
		return err
	}
	r := rowOf(groupTrees, "register, direct door", treeCallers, []window{w})
	r.Note = fmt.Sprintf("%d children of one agent: script, two records in KV, each fsynced", b.cfg.Tree)
	b.add(r)
	begun := time.Now()
	body, err := s.operator.Do(ctx, events.AdminAgentRevoke, "", map[string]any{"org": treeOrg, "agent": root.Agent()})
	if err != nil {
		return err
	}
	took := time.Since(begun)
	var answer events.RevokeAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if answer.Agents != b.cfg.Tree+1 {
		return fmt.Errorf("%d agents were revoked, not %d", answer.Agents, b.cfg.Tree+1)
	}
	b.scaled = append(b.scaled, Finding{fmt.Sprintf("revoke of a tree of %d, until the answer", answer.Agents), float64(took.Milliseconds()), "ms", ""})
	return b.notFound(ctx, s)
}

// newTree makes an org that allows a tree of n agents, and its root.
func (s *system) newTree(ctx context.Context, n int64) (*client.Client, error) {
	var root struct{ Agent, Token string }
	for _, step := range []struct {
		verb string
		body map[string]any
		into any
	}{
		{events.AdminOrgCreate, map[string]any{"org": treeOrg}, nil},
		{events.AdminOrgSet, map[string]any{"org": treeOrg, "children_max": n, "tree_max": n}, nil},
		{events.AdminPoolCreate, map[string]any{"org": treeOrg, "pool": benchPool, "limits": []map[string]any{{"unit": benchUnit, "cap": unlimited}}}, nil},
		{events.AdminAgentRegister, map[string]any{"org": treeOrg, "name": "root", "pool": benchPool}, &root},
	} {
		body, err := s.operator.Do(ctx, step.verb, "", step.body)
		if err == nil && step.into != nil {
			err = json.Unmarshal(body, step.into)
		}
		if err != nil {
			return nil, err
		}
	}
	return client.Connect(ctx, client.Config{URL: s.address.NATSURL, Token: root.Token, Org: treeOrg, Agent: root.Agent})
}

func (b *run) registerMany(ctx context.Context, s *system, root *client.Client) (window, error) {
	store, err := redisCPU(ctx, s.redis)
	if err != nil {
		return window{}, err
	}
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, treeCallers)
	own, begun := ownCPU(), time.Now()
	for i := range errs {
		all.Go(func() {
			for next.Add(1) <= int64(b.cfg.Tree) && errs[i] == nil {
				_, errs[i] = root.Do(ctx, client.Request{Verb: events.VerbRegister, Key: uuid.NewString(), Body: []byte(`{"name":"n"}`)})
			}
		})
	}
	all.Wait()
	w := window{count: b.cfg.Tree, took: time.Since(begun), own: ownCPU() - own}
	if err := errors.Join(errs...); err != nil {
		return w, err
	}
	after, err := redisCPU(ctx, s.redis)
	w.store = after - store
	return w, err
}
