package reconciler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// rebuildJob is one rebuild of some partitions, and what is told of it.
type rebuildJob struct {
	token      string
	partitions []int
	reasons    map[int]string
	fences     map[int]string
	began      time.Time

	anchors []redisx.Anchor         // what Redis knew of the ledger before
	last    []string                // the last outbox id it had given out
	known   map[int]map[string]bool // outbox ids behind the anchor that it still had
	orgs    map[string]*orgRebuild
}

// orgRebuild is what a rebuild found and did of one org.
type orgRebuild struct {
	lost                events.RebuildLoss
	corrected           int64
	records             redisx.Restored
	agents, revocations int64
}

func (j *rebuildJob) of(org string) *orgRebuild {
	o := j.orgs[org]
	if o == nil {
		o = &orgRebuild{}
		j.orgs[org] = o
	}
	return o
}

// fenceAll fences the partitions and notes what Redis knew until then.
func (r *Reconciler) fenceAll(ctx context.Context, token string, reasons map[int]string) (*rebuildJob, error) {
	j := &rebuildJob{
		token: token, partitions: slices.Sorted(maps.Keys(reasons)), reasons: reasons,
		fences: map[int]string{}, known: map[int]map[string]bool{}, orgs: map[string]*orgRebuild{},
	}
	var err error
	if j.began, err = r.cfg.Store.Now(ctx); err != nil {
		return nil, err
	}
	// The anchor first: a scribe may move it until the fence is there.
	if j.anchors, err = r.cfg.Store.Anchors(ctx); err != nil {
		return nil, err
	}
	for _, p := range j.partitions {
		j.fences[p] = fenceReason + " " + token + " " + reasons[p]
		if err := r.cfg.Store.Fence(ctx, p, j.fences[p]); err != nil {
			return nil, err
		}
	}
	if j.last, err = r.cfg.Store.OutboxLast(ctx); err != nil {
		return nil, err
	}
	for _, p := range j.partitions {
		if j.known[p], err = r.stillKnown(ctx, p, j.anchors[p].Position); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// stillKnown lists the ids of a fenced partition's outbox after one.
func (r *Reconciler) stillKnown(ctx context.Context, p int, after string) (map[string]bool, error) {
	known := map[string]bool{}
	for {
		page, err := r.cfg.Store.OutboxRead(ctx, p, after, readMax)
		if err != nil || len(page.Entries)+len(page.Corrupt) == 0 {
			return known, err
		}
		for _, e := range page.Entries {
			known[e.OutboxID] = true
			after = later(after, e.OutboxID)
		}
		for _, e := range page.Corrupt {
			after = later(after, e.OutboxID)
		}
	}
}

// forget begins a count anew: the ledger is read once more after corrections.
func (j *rebuildJob) forget() {
	for _, o := range j.orgs {
		o.lost, o.agents, o.revocations = events.RebuildLoss{}, 0, 0
	}
}

// count counts an entry of the ledger for the event.
func (j *rebuildJob) count(e *budget.Entry) {
	o := j.of(e.Org)
	switch e.Kind {
	case budget.KindAgentRegistered:
		o.agents++
	case budget.KindAgentRevoked:
		o.revocations++
	}
	// What was written since the fence are this rebuild's own corrections.
	p := e.Partition
	if ledger.CompareIDs(e.OutboxID, j.anchors[p].Position) <= 0 || j.known[p][e.OutboxID] || e.Kind == budget.KindCorrected && !e.At.Before(j.began) {
		return
	}
	if o.lost.Kinds == nil {
		o.lost.Kinds = map[string]int64{}
	}
	o.lost.Entries++
	o.lost.Kinds[string(e.Kind)]++
}

// tellRebuilt publishes one event for each org of a partition.
func (r *Reconciler) tellRebuilt(ctx context.Context, p int, j *rebuildJob, f *found) {
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		now = j.began
	}
	limits := map[string]int64{}
	for _, l := range r.limitsOf(p) {
		limits[l.Org]++
	}
	for org := range f.orgs {
		if r.cfg.Store.Partition(org) != p {
			continue
		}
		o := j.of(org)
		err := r.cfg.Events.Publish(ctx, events.PartitionRebuilt{
			EventHead: events.NewEventHead(events.EventPartitionRebuilt, fmt.Sprintf("rebuilt-%s-%s", org, j.token), org, now),
			Partition: p, Reason: j.reasons[p], LedgerPosition: r.fold.positions[p], RedisPosition: j.last[p],
			Lost: o.lost, Corrected: o.corrected, DurationMS: now.Sub(j.began).Milliseconds(),
			Restored: events.RebuildRestored{
				Limits: limits[org], Reservations: int64(o.records.Held), Records: int64(o.records.Records),
				Agents: o.agents, Revocations: o.revocations, Slots: int64(o.records.Slots),
			},
		})
		if err != nil { // the rebuild is done; it must not begin again for this
			r.cfg.Log.Error().Err(err).Str("org", org).Msg("the event of a rebuild is not published")
		}
	}
}
