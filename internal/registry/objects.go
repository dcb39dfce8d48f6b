package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrSize: a stored object is not as long as its own description says.
var ErrSize = errors.New("the object is not whole")

// Object describes what is stored under a name.
type Object struct {
	Name string
	Meta map[string]string
	Size int64
	At   time.Time
}

// Objects is one object store. A name is written once: whoever writes it again
// gets what is there. The store itself checks SHA-256 of what it gives back.
type Objects struct{ store jetstream.ObjectStore }

// OpenObjects binds to an object store that exists.
func OpenObjects(ctx context.Context, js jetstream.JetStream, bucket string) (*Objects, error) {
	store, err := js.ObjectStore(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("registry: object store %s: %w", bucket, err)
	}
	return &Objects{store}, nil
}

// Put stores content under a name, unless something is there: fresh is false
// then, and the description is of what is there. Two writers at the same moment
// may both write, so equal names have to mean equal content.
func (o *Objects) Put(ctx context.Context, name string, meta map[string]string, content []byte) (stored Object, fresh bool, err error) {
	stored, err = o.Stat(ctx, name)
	if !errors.Is(err, ErrNotFound) {
		return stored, false, err
	}
	info, err := o.store.Put(ctx, jetstream.ObjectMeta{Name: name, Metadata: meta}, bytes.NewReader(content))
	if err != nil {
		return Object{}, false, objectFailed("write", name, err)
	}
	return objectOf(info), true, nil
}

// Stat describes what is under a name; ErrNotFound where nothing is.
func (o *Objects) Stat(ctx context.Context, name string) (Object, error) {
	info, err := o.store.GetInfo(ctx, name)
	if err != nil {
		return Object{}, objectFailed("read", name, err)
	}
	return objectOf(info), nil
}

// Get reads a whole object; ErrNotFound where there is none.
func (o *Objects) Get(ctx context.Context, name string) (Object, []byte, error) {
	result, err := o.store.Get(ctx, name)
	if err != nil {
		return Object{}, nil, objectFailed("read", name, err)
	}
	defer result.Close()
	info, err := result.Info()
	if err != nil {
		return Object{}, nil, objectFailed("read", name, err)
	}
	content, err := io.ReadAll(result)
	if err == nil && uint64(len(content)) != info.Size {
		err = ErrSize
	}
	if err != nil {
		return Object{}, nil, objectFailed("read", name, err)
	}
	return objectOf(info), content, nil
}

// List describes every object whose name begins with prefix, by name.
func (o *Objects) List(ctx context.Context, prefix string) ([]Object, error) {
	all, err := o.store.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	if err != nil {
		return nil, objectFailed("list", prefix, err)
	}
	var out []Object
	for _, info := range all {
		if strings.HasPrefix(info.Name, prefix) {
			out = append(out, objectOf(info))
		}
	}
	slices.SortFunc(out, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Remove forgets an object, where the store's rights allow it; none is fine.
func (o *Objects) Remove(ctx context.Context, name string) error {
	err := o.store.Delete(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	return objectFailed("remove", name, err)
}

func objectOf(info *jetstream.ObjectInfo) Object {
	return Object{Name: info.Name, Meta: info.Metadata, Size: int64(info.Size), At: info.ModTime} //nolint:gosec // bounded by what was written
}

func objectFailed(did, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return ErrNotFound
	case errors.Is(err, ErrSize):
		return fmt.Errorf("registry: %s object %q: %w", did, name, err)
	}
	return fmt.Errorf("registry: %s object %q: %w: %w", did, name, ErrUnavailable, err)
}
