package registry_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/registry"
	"tallystick/pkg/events"
)

func TestUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_" + events.BucketUploads, Subjects: []string{"$KV." + events.BucketUploads + ".>"}, MaxMsgsPerSubject: 1,
		MaxBytes: 4096, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
	})
	must(t, err)
	u, err := registry.OpenUploads(t.Context(), w.js)
	must(t, err)
	file := registry.Upload{Org: "acme", Hash: "ab", Parts: 3}
	other := registry.Upload{Org: "rival", Hash: "ab", Parts: 3}
	must(t, u.Put(t.Context(), file, 0, []byte("old")))
	must(t, u.Put(t.Context(), file, 0, []byte("first")))
	must(t, u.Put(t.Context(), file, 1, make([]byte, 2000)))
	must(t, u.Put(t.Context(), other, 0, []byte("theirs")))
	if data, err := u.Get(t.Context(), file, 0); err != nil || string(data) != "first" {
		t.Errorf("part 0: %q, %v", data, err)
	}
	if _, err := u.Get(t.Context(), registry.Upload{Org: "acme", Hash: "ab", Parts: 2}, 0); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("of an upload in two parts: %v", err)
	}
	if err := u.Put(t.Context(), other, 1, make([]byte, 3000)); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("a full bucket: %v", err)
	}
	must(t, u.Forget(t.Context(), file))
	for part := range 3 {
		if _, err := u.Get(t.Context(), file, part); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("part %d was forgotten: %v", part, err)
		}
	}
	must(t, u.Put(t.Context(), other, 1, make([]byte, 3000)))
	if data, err := u.Get(t.Context(), other, 0); err != nil || string(data) != "theirs" {
		t.Errorf("another's part: %q, %v", data, err)
	}
}
