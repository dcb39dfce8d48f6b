package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// fenceReason is what a partition under rebuild is fenced with.
const fenceReason = "rebuild"

// lostReason is what lua/trim.lua fences with.
const lostReason = "lost"

// errTakenOver: another process has fenced the partition meanwhile.
var errTakenOver = errors.New("another process has taken the rebuild over")

// drainEvery is how often a rebuild looks whether the scribe is done.
const drainEvery = 50 * time.Millisecond

// errNotDrained: the ledger still lacks what the outboxes hold.
var errNotDrained = errors.New("the scribe has not carried what the outboxes hold")

// secondLook is how long an installation that is being made may take between
// writing a partition's epoch to KV and to Redis.
const secondLook = time.Second

// heal rebuilds, by itself, partitions that were emptied, that the scribe
// fenced because they know less than the ledger, or whose rebuild broke off.
// Another reason's fence is an operator's and stays.
func (r *Reconciler) heal(ctx context.Context) error {
	broken, err := r.broken(ctx)
	if err != nil || len(broken) == 0 {
		return err
	}
	later := time.NewTimer(secondLook)
	defer later.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-later.C:
	}
	return r.leased(ctx, func(ctx context.Context, token string) error {
		// Whoever had the lease before may have done it all.
		if broken, err = r.broken(ctx); err != nil || len(broken) == 0 {
			return err
		}
		r.cfg.Log.Error().Ints("partitions", broken).Msg("ALARM: Redis lost writes; it is rebuilt from the ledger")
		_, err = r.rebuild(ctx, token, broken)
		return err
	})
}

// broken lists the partitions that heal rebuilds.
func (r *Reconciler) broken(ctx context.Context) ([]int, error) {
	var broken []int
	for p := range r.cfg.Store.Partitions() {
		reason, err := r.cfg.Store.Fenced(ctx, p)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			if reason == lostReason || strings.HasPrefix(reason, fenceReason) {
				broken = append(broken, p)
			}
			continue
		}
		has, err := r.cfg.Store.Epoch(ctx, p)
		if err != nil {
			return nil, err
		}
		if has != "" {
			continue
		}
		known, err := r.cfg.Epochs.Epoch(ctx, p)
		if err != nil {
			return nil, err
		}
		if known != "" {
			broken = append(broken, p)
		}
	}
	return broken, nil
}

// Rebuild writes partitions anew from the ledger: fence, drain, fold, write,
// prove, unfence. A partition where it fails stays fenced, and the next
// attempt begins from the start. One process rebuilds at a time.
func (r *Reconciler) Rebuild(ctx context.Context, partitions []int) (answer events.RebuildAnswer, err error) {
	err = r.leased(ctx, func(ctx context.Context, token string) error {
		answer, err = r.rebuild(ctx, token, partitions)
		return err
	})
	return answer, err
}

func (r *Reconciler) rebuild(ctx context.Context, token string, partitions []int) (events.RebuildAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fence := fenceReason + " " + token
	for _, p := range partitions {
		if err := r.cfg.Store.Fence(ctx, p, fence); err != nil {
			return events.RebuildAnswer{}, err
		}
	}
	if err := r.drained(ctx, partitions); err != nil {
		return events.RebuildAnswer{}, err
	}
	found, err := r.collect(ctx, partitions)
	if err != nil {
		return events.RebuildAnswer{}, err
	}
	answer := events.RebuildAnswer{Outcome: events.OutcomeRebuilt, Partitions: partitions, Entries: found.entries}
	for org := range found.orgs {
		answer.Orgs = append(answer.Orgs, org)
	}
	slices.Sort(answer.Orgs)
	for _, p := range partitions {
		if err := r.restore(ctx, p, fence, found); err != nil {
			return events.RebuildAnswer{}, fmt.Errorf("rebuild of partition %d: %w", p, err)
		}
		r.metrics.rebuilt.Inc()
		r.cfg.Log.Info().Int("partition", p).Msg("partition rebuilt from the ledger")
	}
	return answer, nil
}

// drained waits until the ledger has everything that the fenced partitions'
// outboxes hold, and folds it.
func (r *Reconciler) drained(ctx context.Context, partitions []int) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.DrainTimeout)
	defer cancel()
	every := time.NewTicker(drainEvery)
	defer every.Stop()
	for {
		done, err := r.drainedNow(ctx, partitions)
		if done {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w: is the scribe running?", budget.ErrUnavailable, errNotDrained)
		}
		if err != nil {
			return err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
}

func (r *Reconciler) drainedNow(ctx context.Context, partitions []int) (bool, error) {
	if err := r.catchUp(ctx); err != nil {
		return false, err
	}
	last, err := r.cfg.Store.OutboxLast(ctx)
	if err != nil {
		return false, err
	}
	behind := func(p int) bool { return ledger.CompareIDs(r.fold.positions[p], last[p]) < 0 }
	return !slices.ContainsFunc(partitions, behind), nil
}

// found is what a walk over the ledger gathers for a rebuild.
type found struct {
	entries int64
	orgs    map[string]bool
	records map[int]map[string]string    // by partition: execution, record
	revoked map[int]map[string]time.Time // by partition: agent, end
	agents  map[int][]redisx.Registered
	head    ledger.Head
	now     time.Time
}

// collect walks the whole ledger for what the fold does not keep.
func (r *Reconciler) collect(ctx context.Context, partitions []int) (*found, error) {
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	f := &found{
		orgs: map[string]bool{}, records: map[int]map[string]string{}, revoked: map[int]map[string]time.Time{},
		agents: map[int][]redisx.Registered{}, now: now,
	}
	for _, p := range partitions {
		f.records[p], f.revoked[p] = map[string]string{}, map[string]time.Time{}
	}
	err = r.cfg.Ledger.Walk(ctx, "", 0, func(m ledger.Message) error {
		if m.StreamSeq > r.fold.after {
			return nil // another partition's: these are fenced
		}
		f.head = ledger.Head{StreamSeq: m.StreamSeq, Hash: m.Hash}
		e, err := ledger.Decode(m.Body)
		if err != nil {
			return nil // counted and reported when it was folded
		}
		if f.records[e.Partition] == nil {
			return nil
		}
		f.entries++
		f.orgs[e.Org] = true
		f.remember(&e, now)
		return nil
	})
	for p, agents := range f.agents {
		for i := range agents {
			agents[i].Ended = f.ended(p, agents[i].Registration)
		}
	}
	return f, err
}

// ended: an agent is revoked, or one of its ancestors is.
func (f *found) ended(p int, a redisx.Registration) bool {
	_, gone := f.revoked[p][a.Agent]
	return gone || slices.ContainsFunc(a.Ancestors, func(id string) bool { _, gone := f.revoked[p][id]; return gone })
}

func (f *found) remember(e *budget.Entry, now time.Time) {
	switch e.Kind {
	case budget.KindAgentRevoked:
		f.revoked[e.Partition][e.Agent] = e.At
		return
	case budget.KindAgentRegistered:
		if a, err := redisx.RegistrationOf(*e); err == nil {
			f.agents[e.Partition] = append(f.agents[e.Partition], redisx.Registered{Registration: a, At: e.At, Execution: e.Execution})
		}
		return
	}
	if e.Execution == "" || e.Record == "" {
		return
	}
	records := f.records[e.Partition]
	switch e.Kind {
	case budget.KindSettled, budget.KindReleased, budget.KindLateSettled, budget.KindCharged:
		if !retained(budget.StateSettled, e.At, now) {
			delete(records, e.Execution)
			return
		}
	}
	records[e.Execution] = e.Record
}

// restore writes one partition, proves that it equals the ledger, and opens it.
func (r *Reconciler) restore(ctx context.Context, p int, fence string, f *found) error {
	store := r.cfg.Store
	if err := r.holds(ctx, p, fence); err != nil {
		return err
	}
	if err := store.Wipe(ctx, p); err != nil {
		return err
	}
	if err := store.RestoreLimits(ctx, p, r.limitsOf(p)); err != nil {
		return err
	}
	if _, err := store.RestoreRecords(ctx, p, f.records[p]); err != nil {
		return err
	}
	if err := store.RestoreRevoked(ctx, p, f.revoked[p]); err != nil {
		return err
	}
	if err := store.RestoreAgents(ctx, p, f.agents[p], f.now); err != nil {
		return err
	}
	anchor := redisx.Anchor{Position: r.fold.positions[p], StreamSeq: f.head.StreamSeq, Hash: f.head.Hash.String()}
	if err := store.AdvanceOutbox(ctx, p, anchor); err != nil {
		return err
	}
	for _, l := range r.fold.limits {
		if store.Partition(l.id.Org) == p {
			r.fold.mark(l)
		}
	}
	if err := r.writeOutstanding(ctx); err != nil {
		return err
	}
	c, err := r.compare(ctx, p, "")
	if err != nil {
		return err
	}
	for _, w := range c.rows {
		if d := w.drift(); len(d) > 0 {
			return fmt.Errorf("counters differ from the ledger after the rebuild: %+v", d[0])
		}
	}
	if err := r.holds(ctx, p, fence); err != nil {
		return err
	}
	epoch, err := r.cfg.Epochs.CreateEpoch(ctx, p)
	if err != nil {
		return err
	}
	if err := store.SetEpoch(ctx, p, epoch); err != nil {
		return err
	}
	return store.Unfence(ctx, p)
}

// holds checks that the fence is still this rebuild's own.
func (r *Reconciler) holds(ctx context.Context, p int, fence string) error {
	reason, err := r.cfg.Store.Fenced(ctx, p)
	if err == nil && reason != fence {
		err = errTakenOver
	}
	return err
}

// limitsOf is what a partition's limits are by the ledger. A limit that never
// had a policy has no rules to live by; it stays what it was: not there.
func (r *Reconciler) limitsOf(p int) []redisx.LimitState {
	var out []redisx.LimitState
	for id, l := range r.fold.limits {
		if l.rules == nil || r.cfg.Store.Partition(id.Org) != p {
			continue
		}
		out = append(out, redisx.LimitState{
			Counter: id, Counters: l.counters, Rev: l.restoredRev(), Opens: l.rules.Opens, Closes: l.rules.Closes,
			Epsilon: l.rules.Epsilon, LateWindowMS: l.rules.LateWindowMS, OnOverrun: l.rules.OnOverrun, State: l.rules.State,
		})
	}
	return out
}
