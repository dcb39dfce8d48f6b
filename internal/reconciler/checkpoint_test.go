package reconciler_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tallystick/internal/checkpoint"
	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/registry"
	"tallystick/internal/testkit"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// office is a world with a bucket for checkpoints on a server of its own, as
// if it were another account, and a key.
type office struct {
	*world
	kept registry.Checkpoints
	kv   jetstream.KeyValue
	keys checkpoint.Keys
	path string
	dir  string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{world: newWorld(t), path: filepath.Join(t.TempDir(), checkpoint.KeyFile), dir: t.TempDir()}
	js := testkit.NATS(t).JetStream(t)
	var err error
	o.kv, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: events.BucketCheckpoints})
	must(t, err)
	o.kept, err = registry.OpenCheckpoints(t.Context(), js)
	must(t, err)
	must(t, checkpoint.Ensure(o.path))
	o.keys = checkpoint.NewKeys(o.path)
	o.carry(t)
	return o
}

func (o *office) notary(t *testing.T) *reconciler.Reconciler {
	t.Helper()
	r, err := reconciler.New(reconciler.Config{
		Store: o.store, Ledger: o.ledger, Events: ledger.NewEvents(o.js), Epochs: o.epochs, Log: zerolog.Nop(),
		OutstandingEvery: 10 * time.Millisecond, CompareEvery: time.Minute,
		Signer: o.keys, Checkpoints: o.kept, CheckpointDir: o.dir, CheckpointEvery: 20 * time.Millisecond,
	})
	must(t, err)
	return r
}

func signNow(t *testing.T, r *reconciler.Reconciler) (events.LedgerCheckpointAnswer, error) {
	t.Helper()
	body, err := r.Verbs()[events.AdminCheckpoint](t.Context(), worker.AdminRequest{Body: []byte(`{"org":"` + org + `","now":true}`)})
	if err != nil {
		return events.LedgerCheckpointAnswer{}, err
	}
	return events.ParseLedgerCheckpointAnswer(body)
}

func (o *office) arrived(t *testing.T, n uint64) {
	t.Helper()
	eventually(t, "the scribe carries", func() bool {
		m, _, err := o.ledger.OrgTail(t.Context(), org)
		return err == nil && m.Seq >= n
	})
}

// TestCheckpoints: signed by itself where there is something new, kept, written
// to a file, verified, also after a rotation and by a process that begins anew.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.arrived(t, 2)
	stop := background(t, o.notary(t).Run)
	var text string
	eventually(t, "a checkpoint is signed", func() bool {
		text, _, _ = o.kept.Newest(t.Context(), org)
		return text != ""
	})
	stop()
	first, err := o.keys.Open(text)
	must(t, err)
	if first.Org != org || first.Count != 2 {
		t.Errorf("checkpoint: %+v", first)
	}
	file, err := os.ReadFile(filepath.Join(o.dir, org+".checkpoint"))
	if err != nil || string(file) != text {
		t.Errorf("exported: %q, %v", file, err)
	}
	if _, err := checkpoint.Rotate(o.path); err != nil {
		t.Fatal(err)
	}
	o.reserve(t, "a", 10)
	o.arrived(t, 3)
	second, err := signNow(t, o.notary(t))
	must(t, err)
	if second.Count != 3 || strings.Contains(second.Checkpoint, strings.Fields(text)[7]) {
		t.Errorf("after the rotation: %+v", second)
	}
	for _, each := range []string{text, second.Checkpoint} {
		if _, err := o.keys.Open(each); err != nil {
			t.Errorf("after the rotation: %v", err)
		}
	}
	must(t, os.Chmod(o.path, 0o640)) //nolint:gosec // what is refused
	if _, err := o.keys.Sign(first); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
}

// TestTwoSign: whatever the order, what is published only grows and is one
// chain's.
func TestTwoSign(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	watch, err := o.kv.Watch(t.Context(), org)
	must(t, err)
	background(t, o.notary(t).Run)
	background(t, o.notary(t).Run)
	for i := range 20 {
		o.reserve(t, string(rune('a'+i)), 1)
		o.arrived(t, uint64(i+3)) //nolint:gosec // small
	}
	eventually(t, "the last entry is vouched for", func() bool {
		text, _, _ := o.kept.Newest(t.Context(), org)
		c, err := checkpoint.Parse(text)
		return err == nil && c.Count == 22
	})
	hashes := map[uint64]ledger.Hash{}
	must(t, o.ledger.Walk(t.Context(), org, 0, func(m ledger.Message) error {
		hashes[m.Seq] = m.Hash
		return nil
	}))
	var last uint64
	for last < 22 {
		update := <-watch.Updates()
		if update == nil {
			continue
		}
		c, err := o.keys.Open(string(update.Value()))
		must(t, err)
		if c.Count <= last || hashes[c.Count] != c.Head {
			t.Errorf("published after %d: %+v", last, c)
		}
		last = c.Count
	}
	must(t, watch.Stop())
}

// TestContradictionIsNeverSigned: a published checkpoint that says more, other
// or is signed by a stranger stays as it is.
func TestContradictionIsNeverSigned(t *testing.T) {
	t.Parallel()
	stranger := filepath.Join(t.TempDir(), checkpoint.KeyFile)
	must(t, checkpoint.Ensure(stranger))
	for name, publish := range map[string]func(o *office, c checkpoint.Checkpoint) (string, error){
		"more":     func(o *office, c checkpoint.Checkpoint) (string, error) { c.Count += 5; return o.keys.Sign(c) },
		"other":    func(o *office, c checkpoint.Checkpoint) (string, error) { c.Head[0] ^= 1; return o.keys.Sign(c) },
		"stranger": func(_ *office, c checkpoint.Checkpoint) (string, error) { return checkpoint.NewKeys(stranger).Sign(c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.arrived(t, 2)
			m, _, err := o.ledger.OrgTail(t.Context(), org)
			must(t, err)
			text, err := publish(o, checkpoint.Checkpoint{Org: org, Count: m.Seq, Head: m.Hash, At: time.Now()})
			must(t, err)
			must(t, o.kept.Put(t.Context(), org, text, 0))
			r := o.notary(t)
			for range 2 {
				a, err := signNow(t, r)
				var refused *events.Error
				if !errors.As(err, &refused) || refused.Code != events.CodeUnavailable {
					t.Errorf("signed: %+v, %v", a, err)
				}
			}
			if now, _, err := o.kept.Newest(t.Context(), org); err != nil || now != text {
				t.Errorf("published now: %q, %v", now, err)
			}
		})
	}
}

// TestAcceptedLossExplains: behind a loss that an operator accepted after the
// checkpoint, a shorter chain is signed; behind an older one it is not.
func TestAcceptedLossExplains(t *testing.T) {
	t.Parallel()
	for name, ago := range map[string]time.Duration{"before": time.Hour, "after": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.arrived(t, 2)
			lost := checkpoint.Checkpoint{Org: org, Count: 9, At: time.Now()}
			text, err := o.keys.Sign(lost)
			must(t, err)
			must(t, o.kept.Put(t.Context(), org, text, 0))
			other := newWorld(t)
			a, err := other.ledger.Resume(t.Context(), other.store.Partitions())
			must(t, err)
			must(t, a.Append(t.Context(), []budget.Entry{{Org: org, OutboxID: "1-0", Kind: budget.KindGap, At: lost.At.Add(-ago)}}))
			o.ledger = other.ledger
			_, err = signNow(t, o.notary(t))
			if (err == nil) != (name == "after") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestHeadsAreTold by the event ledger_head.
func TestHeadsAreTold(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.arrived(t, 2)
	var once sync.Once
	got := make(chan jetstream.Msg, 1)
	c, err := o.js.CreateConsumer(t.Context(), events.StreamEvents, jetstream.ConsumerConfig{FilterSubject: events.Event(org, events.EventLedgerHead)})
	must(t, err)
	follow, err := c.Consume(func(m jetstream.Msg) { once.Do(func() { got <- m }) })
	must(t, err)
	defer follow.Stop()
	background(t, o.notary(t).Run)
	select {
	case m := <-got:
		v, err := events.ParseEvent(m.Data())
		head, ok := v.(events.LedgerHead)
		tail, _, _ := o.ledger.OrgTail(t.Context(), org)
		if err != nil || !ok || head.Seq != 2 || head.Hash != tail.Hash.String() || head.OutboxLag != 0 {
			t.Errorf("head: %+v, %v", v, err)
		}
	case <-time.After(20 * time.Second):
		t.Error("no head was told")
	}
}
