package registry_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/registry"
)

func TestObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "things"})
	must(t, err)
	o, err := registry.OpenObjects(t.Context(), w.js, "things")
	must(t, err)

	if _, _, err := o.Get(t.Context(), "acme/none"); !errors.Is(err, registry.ErrNotFound) {
		t.Fatalf("an object that is not there: %v", err)
	}
	if all, err := o.List(t.Context(), ""); err != nil || len(all) != 0 {
		t.Fatalf("an empty store lists %v, %v", all, err)
	}
	big := make([]byte, 700_000) // several chunks
	_, _ = rand.Read(big)
	meta := map[string]string{"format": "csv"}
	if _, fresh, err := o.Put(t.Context(), "acme/a", meta, big); err != nil || !fresh {
		t.Fatalf("first put: %v, %v", fresh, err)
	}
	if _, fresh, err := o.Put(t.Context(), "acme/a", nil, []byte("other")); err != nil || fresh {
		t.Fatalf("second put under the same name: %v, %v", fresh, err)
	}
	_, _, err = o.Put(t.Context(), "rival/b", nil, []byte("b"))
	must(t, err)
	got, content, err := o.Get(t.Context(), "acme/a")
	must(t, err)
	if !bytes.Equal(content, big) || got.Meta["format"] != "csv" || got.Size != int64(len(big)) || got.At.IsZero() {
		t.Fatalf("got %+v with %d bytes", got, len(content))
	}
	all, err := o.List(t.Context(), "acme/")
	must(t, err)
	if len(all) != 1 || all[0].Name != "acme/a" {
		t.Fatalf("listed %+v", all)
	}
	must(t, o.Remove(t.Context(), "acme/a"))
	must(t, o.Remove(t.Context(), "acme/a"))
	if _, err := o.Stat(t.Context(), "acme/a"); !errors.Is(err, registry.ErrNotFound) {
		t.Fatalf("after its removal: %v", err)
	}
}
