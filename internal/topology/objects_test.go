package topology

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// TestUploadsAreForgotten: parts are bounded in age and in bytes, one that is
// put again takes the place of the first, and the reconciler can drop them. It
// cannot drop a file.
func TestUploadsAreForgotten(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	if err := Ensure(brief(t), in.jetStream(t, Setup), 1); err != nil {
		t.Fatal(err)
	}
	stream, err := in.jetStream(t, Setup).Stream(brief(t), "KV_"+events.BucketUploads)
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.MaxAge != time.Hour || c.MaxBytes != 256<<20 || c.Discard != jetstream.DiscardNew || c.MaxMsgsPerSubject != 1 {
		t.Errorf("configured as %+v", c)
	}
	kv, err := in.jetStream(t, Reconciler).KeyValue(brief(t), events.BucketUploads)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"old", "new"} {
		if _, err := kv.Put(brief(t), "acme.ab.2.0", []byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := kv.Get(brief(t), "acme.ab.2.0"); err != nil || string(e.Value()) != "new" {
		t.Errorf("read %v, %v", e, err)
	}
	if err := kv.Delete(brief(t), "acme.ab.2.0"); err != nil {
		t.Error(err)
	}
	if _, err := kv.Get(brief(t), "acme.ab.2.0"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("after it was dropped: %v", err)
	}
	if !refuses(t, in.connect(t, Reconciler, accountBroker), false, dropObjects(events.StoreEvidence)[0]) {
		t.Error("the reconciler may purge evidence")
	}
}
