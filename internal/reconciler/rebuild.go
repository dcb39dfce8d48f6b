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

// drainEvery is how often a rebuild looks whether the scribe is done.
const drainEvery = 50 * time.Millisecond

// errNotDrained: the ledger still lacks what the outboxes hold.
var errNotDrained = errors.New("the scribe has not carried what the outboxes hold")

// Rebuild writes partitions anew from the ledger: fence, drain, fold, write,
// prove, unfence. A partition where it fails stays fenced, and the next
// attempt begins from the start. One process rebuilds at a time.
func (r *Reconciler) Rebuild(ctx context.Context, partitions []int) (answer events.RebuildAnswer, err error) {
	reasons := map[int]string{}
	for _, p := range partitions {
		reasons[p] = events.RebuildAsked
	}
	err = r.leased(ctx, func(ctx context.Context, token string) error {
		answer, err = r.rebuild(ctx, token, reasons)
		return err
	})
	return answer, err
}

func (r *Reconciler) rebuild(ctx context.Context, token string, reasons map[int]string) (events.RebuildAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	job, err := r.fenceAll(ctx, token, reasons)
	if err != nil {
		return events.RebuildAnswer{}, err
	}
	if err := r.drained(ctx, job.partitions); err != nil {
		return events.RebuildAnswer{}, err
	}
	found, err := r.collect(ctx, job)
	if err != nil {
		return events.RebuildAnswer{}, err
	}
	if found, err = r.undo(ctx, job, found); err != nil {
		return events.RebuildAnswer{}, err
	}
	answer := events.RebuildAnswer{Outcome: events.OutcomeRebuilt, Partitions: job.partitions, Entries: found.entries}
	for org := range found.orgs {
		answer.Orgs = append(answer.Orgs, org)
	}
	slices.Sort(answer.Orgs)
	for _, p := range job.partitions {
		if err := r.restore(ctx, p, job, found); err != nil {
			return events.RebuildAnswer{}, fmt.Errorf("rebuild of partition %d: %w", p, err)
		}
		r.metrics.rebuilt.Inc()
		r.cfg.Log.Info().Int("partition", p).Str("reason", reasons[p]).Msg("partition rebuilt from the ledger")
		r.tellRebuilt(ctx, p, job, found)
	}
	return answer, nil
}

// undo takes back what was done twice, and gathers anew what the ledger says.
func (r *Reconciler) undo(ctx context.Context, job *rebuildJob, f *found) (*found, error) {
	due := map[int][]redisx.Undo{}
	for _, u := range f.branches.due() {
		due[u.Entry.Partition] = append(due[u.Entry.Partition], u)
		job.of(u.Entry.Org).corrected++
	}
	if len(due) == 0 {
		return f, nil
	}
	for p, undos := range due {
		restore := r.cfg.Store.Restore(p, job.fences[p])
		if err := restore.Outbox(ctx, r.anchor(p, f)); err != nil {
			return nil, err
		}
		if err := restore.Undo(ctx, undos); err != nil {
			return nil, err
		}
		r.cfg.Log.Warn().Int("partition", p).Int("entries", len(undos)).Msg("entries were lost and done again; corrected")
	}
	if err := r.drained(ctx, job.partitions); err != nil {
		return nil, err
	}
	return r.collect(ctx, job)
}

func (r *Reconciler) anchor(p int, f *found) redisx.Anchor {
	return redisx.Anchor{Position: r.fold.positions[p], StreamSeq: f.head.StreamSeq, Hash: f.head.Hash.String()}
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

	branches *branches
}

// collect walks the whole ledger for what the fold does not keep.
func (r *Reconciler) collect(ctx context.Context, job *rebuildJob) (*found, error) {
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	f := &found{
		orgs: map[string]bool{}, records: map[int]map[string]string{}, revoked: map[int]map[string]time.Time{},
		agents: map[int][]redisx.Registered{}, now: now, branches: newBranches(),
	}
	job.forget()
	for _, p := range job.partitions {
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
		job.count(&e)
		f.remember(m, &e, now)
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

func (f *found) remember(m ledger.Message, e *budget.Entry, now time.Time) {
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
	if undone, stood := f.branches.corrected(e); undone {
		if stood {
			delete(records, e.Execution)
		}
		return
	}
	if !f.branches.add(m, e) {
		return
	}
	switch e.Kind {
	case budget.KindSettled, budget.KindReleased, budget.KindLateSettled, budget.KindCharged,
		budget.KindCorrected, budget.KindRefunded, budget.KindDisputed:
		if !retained(budget.StateSettled, e.At, now) {
			delete(records, e.Execution)
			f.branches.forget(e.Execution)
			return
		}
	}
	records[e.Execution] = e.Record
}

// restore writes one partition, proves that it equals the ledger, and opens it.
func (r *Reconciler) restore(ctx context.Context, p int, job *rebuildJob, f *found) error {
	store, restore := r.cfg.Store, r.cfg.Store.Restore(p, job.fences[p])
	if err := restore.Wipe(ctx); err != nil {
		return err
	}
	if err := restore.Limits(ctx, r.limitsOf(p)); err != nil {
		return err
	}
	records, err := restore.Records(ctx, f.records[p])
	if err != nil {
		return err
	}
	for org, n := range records {
		job.of(org).records = *n
	}
	if err := restore.Revoked(ctx, f.revoked[p]); err != nil {
		return err
	}
	if err := restore.Agents(ctx, f.agents[p], f.now); err != nil {
		return err
	}
	if err := restore.Outbox(ctx, r.anchor(p, f)); err != nil {
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
	return restore.Open(ctx, epoch)
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
