package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// fenceReason is what a partition under rebuild is fenced with.
const fenceReason = "rebuild"

// drainEvery is how often a rebuild looks whether the scribe is done.
const drainEvery = 50 * time.Millisecond

// errNotDrained: the ledger still lacks what the outboxes hold.
var errNotDrained = errors.New("the scribe has not carried what the outboxes hold")

// secondLook is how long an installation that is being made may take between
// writing a partition's epoch to KV and to Redis.
const secondLook = time.Second

// heal looks for partitions that were emptied. With an empty ledger nothing
// can be lost, and they are rebuilt at once; else an operator decides.
func (r *Reconciler) heal(ctx context.Context) error {
	emptied, err := r.emptied(ctx)
	if err != nil || len(emptied) == 0 {
		return err
	}
	later := time.NewTimer(secondLook)
	defer later.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-later.C:
	}
	if emptied, err = r.emptied(ctx); err != nil || len(emptied) == 0 {
		return err
	}
	tail, _, err := r.cfg.Ledger.Tail(ctx)
	if err != nil {
		return err
	}
	if tail.StreamSeq > 0 {
		r.cfg.Log.Error().Ints("partitions", emptied).Msg("ALARM: Redis was emptied; run `tallystick rebuild`")
		return nil
	}
	_, err = r.Rebuild(ctx, emptied)
	return err
}

// emptied lists the partitions whose epoch KV knows and Redis does not.
func (r *Reconciler) emptied(ctx context.Context) ([]int, error) {
	var emptied []int
	for p := range r.cfg.Store.Partitions() {
		known, err := r.cfg.Epochs.Epoch(ctx, p)
		if err != nil {
			return nil, err
		}
		has, err := r.cfg.Store.Epoch(ctx, p)
		if err != nil {
			return nil, err
		}
		if known != "" && has == "" {
			emptied = append(emptied, p)
		}
	}
	return emptied, nil
}

// Rebuild writes partitions anew from the ledger: fence, drain, fold, write,
// prove, unfence. A partition where it fails stays fenced, and the next
// attempt begins from the start.
func (r *Reconciler) Rebuild(ctx context.Context, partitions []int) (events.RebuildAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		if err := r.cfg.Store.Fence(ctx, p, fenceReason); err != nil {
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
		if err := r.restore(ctx, p, found); err != nil {
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
	case budget.KindSettled, budget.KindReleased, budget.KindLateSettled, budget.KindCharged,
		budget.KindCorrected, budget.KindRefunded, budget.KindDisputed:
		if !retained(budget.StateSettled, e.At, now) {
			delete(records, e.Execution)
			return
		}
	}
	records[e.Execution] = e.Record
}

// restore writes one partition, proves that it equals the ledger, and opens it.
func (r *Reconciler) restore(ctx context.Context, p int, f *found) error {
	store := r.cfg.Store
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
	epoch, err := r.cfg.Epochs.CreateEpoch(ctx, p)
	if err != nil {
		return err
	}
	if err := store.SetEpoch(ctx, p, epoch); err != nil {
		return err
	}
	return store.Unfence(ctx, p)
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
