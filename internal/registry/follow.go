package registry

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// rewatchAfter is the pause before a watch that ended is made again.
const rewatchAfter = 500 * time.Millisecond

// follow hands every record of a bucket to take, now and after each change,
// until ctx ends; ready is closed when the first ones are in. After a
// reconnect it watches anew: by itself a watch whose server was away notices
// only when heartbeats are missing, ten seconds and more later.
func follow(ctx context.Context, nc *nats.Conn, kv jetstream.KeyValue, ready chan<- struct{}, take func(jetstream.KeyValueEntry)) {
	reconnected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(reconnected)
	complete := func() {
		if ready != nil {
			close(ready)
			ready = nil
		}
	}
	for ctx.Err() == nil {
		if watch(ctx, kv, reconnected, take, complete) {
			continue
		}
		pause := time.NewTimer(rewatchAfter)
		select {
		case <-ctx.Done():
		case <-reconnected:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// watch returns when the bucket must be watched anew: at once after a
// reconnect, after a pause where the watch failed.
func watch(ctx context.Context, kv jetstream.KeyValue, reconnected <-chan nats.Status, take func(jetstream.KeyValueEntry), complete func()) (atOnce bool) {
	// No deletes: nothing is ever deleted from these buckets.
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return false
	}
	defer endWatch(w)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-reconnected:
			return true
		case entry, open := <-w.Updates():
			switch {
			case !open:
				return false
			case entry == nil:
				complete()
			default:
				take(entry)
			}
		}
	}
}
