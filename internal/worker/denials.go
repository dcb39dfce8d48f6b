package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// denialsMax bounds how many agents and reasons one minute remembers; what is
// above it is counted in the metrics only.
const denialsMax = 10_000

// denials counts what an agent was denied, per reason and minute. A denial is
// no ledger entry by default: it moves nothing. The count is told as an event.
type denials struct {
	mu    sync.Mutex
	since time.Time
	count map[denied]int64
}

type denied struct {
	org, agent string
	reason     events.Reason
}

func newDenials(now time.Time) *denials {
	return &denials{since: now.Truncate(time.Minute), count: map[denied]int64{}}
}

func (d *denials) add(org, agent string, reason events.Reason) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := denied{org, agent, reason}
	if _, known := d.count[key]; known || len(d.count) < denialsMax {
		d.count[key]++
	}
}

// take empties the count and begins a new minute.
func (d *denials) take(now time.Time) (since time.Time, count map[denied]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, count = d.since, d.count
	d.since, d.count = now.Truncate(time.Minute), map[denied]int64{}
	return since, count
}

// tellDenials publishes each minute's count, and the last at the end.
func (w *Worker) tellDenials(ctx context.Context) {
	minute := time.NewTicker(w.cfg.DenialsEvery)
	defer minute.Stop()
	for {
		select {
		case <-ctx.Done():
			w.publishDenials(context.WithoutCancel(ctx))
			return
		case <-minute.C:
			w.publishDenials(ctx)
		}
	}
}

func (w *Worker) publishDenials(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.PublishTimeout)
	defer cancel()
	now := w.cfg.Now()
	since, count := w.denials.take(now)
	for d, n := range count {
		id := fmt.Sprintf("denials-%s-%s-%s-%d-%s", w.instance, d.agent, d.reason, since.Unix(), w.cfg.Name)
		event := events.Denials{
			EventHead: events.NewEventHead(events.EventDenials, id, d.org, now), Agent: d.agent, Reason: d.reason,
			Minute: events.FormatTime(since), Count: n,
		}
		if _, err := w.cfg.JetStream.Publish(ctx, events.Event(d.org, events.EventDenials), event.Append(nil), jetstream.WithMsgID(id)); err != nil {
			w.cfg.Log.Warn().Err(err).Msg("a count of denials was not told")
			return
		}
	}
}
