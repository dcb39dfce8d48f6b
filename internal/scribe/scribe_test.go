package scribe_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"tallystick/internal/ledger"
	"tallystick/internal/scribe"
)

func TestCarriesEveryEntryOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, 2500)
	stop := w.run(t, w.scribe(t))
	eventually(t, "2501 entries on the ledger", func() bool { return w.tail(t) == 2501 })
	w.reserve(t, 10)
	eventually(t, "10 more", func() bool { return w.tail(t) == 2511 })
	must(t, stop())
	w.verified(t, 2511)
	anchors, err := w.store.Anchors(t.Context())
	must(t, err)
	if a := anchors[w.store.Partition(org)]; a.StreamSeq != 2511 {
		t.Errorf("anchor in redis: %+v", a)
	}
	text, err := os.ReadFile(w.anchor)
	must(t, err)
	tail, _, err := w.ledger.Tail(t.Context())
	must(t, err)
	if want := fmt.Sprintf("2511 %s\n", tail.Hash); string(text) != want {
		t.Errorf("anchor file %q, want %q", text, want)
	}
}

func TestTwoScribesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.run(t, w.scribe(t)), w.run(t, w.scribe(t))
	for range 20 {
		w.reserve(t, 150)
	}
	eventually(t, "3001 entries", func() bool { return w.tail(t) == 3001 })
	must(t, first())
	w.reserve(t, 100)
	eventually(t, "the other goes on", func() bool { return w.tail(t) == 3101 })
	must(t, second())
	w.verified(t, 3101)
}

// TestCrashBetweenAppendAndTrim: the batch is on the ledger, Redis does not
// know it yet.
func TestCrashBetweenAppendAndTrim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reserve(t, 300)
	p := w.store.Partition(org)
	page, err := w.store.OutboxRead(t.Context(), p, "", 1000)
	must(t, err)
	a, err := w.ledger.Resume(t.Context(), w.store.Partitions())
	must(t, err)
	must(t, a.Append(t.Context(), page.Entries[:200]))
	stop := w.run(t, w.scribe(t))
	eventually(t, "all 301", func() bool { return w.tail(t) == 301 })
	must(t, stop())
	w.verified(t, 301)
}

func TestTailBehindTheAnchorHalts(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"file", "redis"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			stop := w.run(t, w.scribe(t))
			w.reserve(t, 20)
			eventually(t, "21 entries", func() bool { return w.tail(t) == 21 })
			must(t, stop())
			must(t, w.js.DeleteStream(t.Context(), "LEDGER"))
			w.makeLedger(t)
			w.forget(t, 5)
			if where == "file" {
				must(t, w.client.Del(t.Context(), fmt.Sprintf("scribe:{p%02d}", w.store.Partition(org))).Err())
			} else {
				must(t, os.Remove(w.anchor))
			}
			s := w.scribe(t)
			stop = w.run(t, s)
			eventually(t, "halted", func() bool { return errors.Is(s.Ready(), ledger.ErrBehind) })
			if err := stop(); !errors.Is(err, ledger.ErrBehind) {
				t.Errorf("run ended with %v", err)
			}
			if w.tail(t) != 0 {
				t.Error("something was written")
			}
		})
	}
}

// TestRedisLostWrites: the last entries are gone from Redis, as after the
// promotion of a replica that lacked them.
func TestRedisLostWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.scribe(t)
	w.run(t, s)
	w.reserve(t, 20)
	eventually(t, "21 entries", func() bool { return w.tail(t) == 21 })
	p := w.store.Partition(org)
	eventually(t, "the anchor is in redis", func() bool {
		anchors, err := w.store.Anchors(t.Context())
		return err == nil && anchors[p].StreamSeq == 21
	})
	must(t, w.client.Del(t.Context(), fmt.Sprintf("outbox:{p%02d}", p)).Err())
	eventually(t, "the partition is fenced", func() bool {
		reason, err := w.store.Fenced(t.Context(), p)
		return err == nil && reason == "lost"
	})
	other := (p + 1) % w.store.Partitions()
	if reason, err := w.store.Fenced(t.Context(), other); err != nil || reason != "" {
		t.Errorf("another partition is fenced too: %q, %v", reason, err)
	}
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--appendonly", "yes")
	s := w.scribe(t)
	w.run(t, s)
	w.reserve(t, 20)
	eventually(t, "21 entries", func() bool { return w.tail(t) == 21 })
	w.redis.Kill()
	eventually(t, "not ready", func() bool { return s.Ready() != nil })
	w.redis.Restart(t)
	must(t, w.store.Load(t.Context()))
	w.reserve(t, 20)
	eventually(t, "41 entries", func() bool { return w.tail(t) == 41 })
	w.verified(t, 41)
}

func TestUnreadableEntryIsSetAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(t, w.scribe(t))
	p := w.store.Partition(org)
	must(t, w.client.Do(t.Context(), "XADD", fmt.Sprintf("outbox:{p%02d}", p), "*", "e", "nonsense").Err())
	w.reserve(t, 5)
	eventually(t, "6 entries", func() bool { return w.tail(t) == 6 })
	set, err := w.store.Quarantined(t.Context(), p)
	if err != nil || len(set) != 1 {
		t.Errorf("quarantine: %v, %v", set, err)
	}
}

// BenchmarkScribe carries what is waiting in the outbox, the ledger synced
// always.
func BenchmarkScribe(b *testing.B) {
	w := newWorld(b)
	w.reserve(b, b.N)
	b.ResetTimer()
	start := time.Now()
	s, err := scribe.New(scribe.Config{Store: w.store, Ledger: w.ledger, AnchorPath: w.anchor})
	must(b, err)
	stop := w.run(b, s)
	eventually(b, "all on the ledger", func() bool { return w.tail(b) >= uint64(b.N+1) })
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "entries/s")
	b.StopTimer()
	must(b, stop())
}
