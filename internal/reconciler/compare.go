package reconciler

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// cut is a consistent reading of some limits of one partition.
type cut struct {
	limits []budget.Counter
	redisx.Snapshot
}

// comparison is one partition, compared.
type comparison struct {
	partition int
	at        string // the last cut's outbox id
	rows      []row
	pending   map[string]*tally // per org: in the outbox, not on the ledger
	set       map[string]*tally // per org: quarantined
}

// row is one limit, compared.
type row struct {
	id               budget.Counter
	expected, actual budget.Counters
	missing          bool
	corrupt          string // the counter that holds no integer; "" where all do
}

// compare takes cuts of a partition and works out what they should show. org
// "" means every org of the partition. The caller holds mu.
func (r *Reconciler) compare(ctx context.Context, partition int, org string) (comparison, error) {
	c := comparison{partition: partition, pending: map[string]*tally{}, set: map[string]*tally{}}
	if err := r.catchUp(ctx); err != nil {
		return c, err
	}
	base := r.fold.positions[partition]
	cuts, err := r.cuts(ctx, partition, org)
	if err != nil {
		return c, err
	}
	for _, k := range cuts {
		c.at = k.Cut
	}
	delta, fresh, err := r.since(ctx, &c, base)
	// What the ledger gave meanwhile is folded whatever happens, after the rows.
	defer func() {
		for i := range fresh {
			r.fold.apply(&fresh[i])
		}
	}()
	if err != nil {
		return c, err
	}
	for _, k := range cuts {
		c.rows = append(c.rows, r.fold.expect(k, delta)...)
	}
	r.metrics.compared.Inc()
	return c, r.quarantined(ctx, &c)
}

// cuts reads the limits that the ledger or Redis knows of.
func (r *Reconciler) cuts(ctx context.Context, partition int, org string) ([]cut, error) {
	opened, err := r.cfg.Store.Opened(ctx, partition)
	if err != nil {
		return nil, err
	}
	var ids []budget.Counter
	for id, l := range r.fold.limits {
		_, open := opened[id]
		if r.cfg.Store.Partition(id.Org) == partition && (open || l.rules != nil) {
			ids = append(ids, id)
		}
	}
	for id := range opened {
		if r.fold.limits[id] == nil {
			ids = append(ids, id)
		}
	}
	if org != "" {
		ids = slices.DeleteFunc(ids, func(id budget.Counter) bool { return id.Org != org })
	}
	slices.SortFunc(ids, compareIDs)
	var out []cut
	for chunk := range slices.Chunk(ids, redisx.SnapshotMax) {
		s, err := r.cfg.Store.Snapshot(ctx, partition, chunk)
		if err != nil {
			return nil, err
		}
		out = append(out, cut{chunk, s})
	}
	if len(out) == 0 { // the id of the cut is reported all the same
		s, err := r.cfg.Store.Snapshot(ctx, partition, nil)
		return []cut{{nil, s}}, err
	}
	return out, nil
}

func compareIDs(a, b budget.Counter) int {
	return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Period, b.Period))
}

// since gathers what happened in a partition between the fold's end and the
// last cut, from the outbox and from the ledger, each entry once. The outbox
// comes first: what a trim takes from it in between is on the ledger by then.
func (r *Reconciler) since(ctx context.Context, c *comparison, base string) (delta, fresh []budget.Entry, err error) {
	waiting := map[string]bool{}
	for after := base; ledger.CompareIDs(after, c.at) < 0; {
		page, err := r.cfg.Store.OutboxRead(ctx, c.partition, after, readMax)
		if err != nil {
			return nil, nil, err
		}
		if len(page.Entries)+len(page.Corrupt) == 0 {
			break
		}
		for _, e := range page.Entries {
			after = later(after, e.OutboxID)
			waiting[e.OutboxID] = true
			delta = append(delta, e)
		}
		for _, e := range page.Corrupt {
			after = later(after, e.OutboxID)
		}
	}
	err = r.advance(ctx, func(e *budget.Entry) { fresh = append(fresh, *e) })
	for i := range fresh {
		e := &fresh[i]
		if e.Partition == c.partition {
			if !waiting[e.OutboxID] {
				delta = append(delta, *e)
			}
			delete(waiting, e.OutboxID)
		}
	}
	for i := range delta {
		e := &delta[i]
		if waiting[e.OutboxID] && ledger.CompareIDs(e.OutboxID, c.at) <= 0 {
			tallyOf(c.pending, e.Org).add(moved(e, largest))
		}
	}
	return delta, fresh, err
}

func later(a, b string) string {
	if ledger.CompareIDs(a, b) < 0 {
		return b
	}
	return a
}

// largest is the most that a move changed a counter other than the cap.
func largest(m budget.Move) int64 {
	return max(m.Held, -m.Held, m.Spent, -m.Spent, m.Withheld, -m.Withheld)
}

// expect works out what a cut should show: what the fold had, and what
// happened from there to the cut.
func (f *fold) expect(k cut, delta []budget.Entry) []row {
	rows := make([]row, len(k.limits))
	index := make(map[budget.Counter]int, len(k.limits))
	for i, id := range k.limits {
		rows[i] = row{id: id, actual: k.Rows[i].Counters, missing: k.Rows[i].Missing, corrupt: k.Rows[i].Corrupt}
		if l := f.limits[id]; l != nil {
			rows[i].expected = l.counters
		}
		index[id] = i
	}
	for i := range delta {
		e := &delta[i]
		if ledger.CompareIDs(e.OutboxID, k.Cut) > 0 {
			continue
		}
		for _, m := range e.Moves {
			if j, ok := index[budget.Counter{Org: e.Org, LimitID: m.LimitID}]; ok {
				rows[j].expected = rows[j].expected.Plus(m)
			}
		}
	}
	return rows
}

// quarantined counts what the partition has set aside. An org is known of an
// execution that the ledger says is outstanding.
func (r *Reconciler) quarantined(ctx context.Context, c *comparison) error {
	set, err := r.cfg.Store.Quarantined(ctx, c.partition)
	if err != nil {
		return err
	}
	for execution := range set {
		id, err := uuid.Parse(execution)
		if err != nil {
			continue
		}
		if h, ok := r.fold.live[id]; ok {
			tallyOf(c.set, h.path.org).add(h.amounts())
		}
	}
	return nil
}
