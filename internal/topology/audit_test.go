package topology

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// audited is an installation with everything that setup makes.
func audited(t *testing.T) installation {
	t.Helper()
	in := install(t, false)
	for range 2 { // the second time it is all there
		err := EnsureAll(brief(t), func(_ string, u User) (*nats.Conn, error) {
			return nats.Connect(in.url, nats.UserInfo(u.User, u.Password), nats.CustomInboxPrefix("_INBOX."+Setup))
		}, in.set[Setup], 1)
		if err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// The mirror in AUDIT holds what the scribe writes in BROKER, under the same
// sequences, and nobody in AUDIT can touch the original through it.
func TestMirrorFollowsTheLedger(t *testing.T) {
	t.Parallel()
	in := audited(t)
	scribe := in.jetStream(t, Scribe)
	const entries = 1500
	for i := range entries {
		msg := &nats.Msg{Subject: events.Ledger("acme", "reserved"), Data: fmt.Appendf(nil, "entry %d", i)}
		if _, err := scribe.PublishMsgAsync(msg); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-scribe.PublishAsyncComplete():
	case <-brief(t).Done():
		t.Fatal("the scribe's entries are not acknowledged")
	}
	js, err := jetstream.New(in.connect(t, Reconciler, accountAudit))
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := js.Stream(brief(t), events.StreamMirror)
	if err != nil {
		t.Fatal(err)
	}
	deadline, every := time.After(20*time.Second), time.NewTicker(20*time.Millisecond)
	defer every.Stop()
	for {
		info, err := mirror.Info(brief(t))
		if err != nil {
			t.Fatal(err)
		}
		if info.State.LastSeq == entries {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("the mirror has %d of %d entries: %+v", info.State.LastSeq, entries, info.Mirror)
		case <-every.C:
		}
	}
	got, err := mirror.GetMsg(brief(t), 700)
	if err != nil || string(got.Data) != "entry 699" || got.Subject != events.Ledger("acme", "reserved") {
		t.Fatalf("entry 700 of the mirror is %+v, %v", got, err)
	}
}

func TestAuditKeepsCheckpoints(t *testing.T) {
	t.Parallel()
	in := audited(t)
	js, err := jetstream.New(in.connect(t, Reconciler, accountAudit))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(brief(t), events.BucketCheckpoints)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Create(brief(t), "acme", []byte("a checkpoint")); err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(brief(t), "acme"); err != nil || string(e.Value()) != "a checkpoint" {
		t.Fatalf("read %v, %v", e, err)
	}
}
