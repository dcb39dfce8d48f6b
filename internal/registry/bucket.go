package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// bucket is a KV bucket whose values are JSON records of one type.
type bucket[T any] struct{ kv jetstream.KeyValue }

func openBucket[T any](ctx context.Context, js jetstream.JetStream, name string) (bucket[T], error) {
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return bucket[T]{}, fmt.Errorf("registry: bucket %s: %w", name, err)
	}
	return bucket[T]{kv}, nil
}

// get reads a record with its KV revision.
func (b bucket[T]) get(ctx context.Context, key string) (record T, revision uint64, err error) {
	entry, err := b.kv.Get(ctx, key)
	if err != nil {
		return record, 0, b.failed("read", key, err)
	}
	record, err = decode[T](entry)
	return record, entry.Revision(), err
}

// create writes a record that must not exist.
func (b bucket[T]) create(ctx context.Context, key string, record T) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("registry: encode %s: %w", key, err)
	}
	_, err = b.kv.Create(ctx, key, value)
	return b.failed("create", key, err)
}

// update writes a record over the revision it was read at.
func (b bucket[T]) update(ctx context.Context, key string, record T, revision uint64) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("registry: encode %s: %w", key, err)
	}
	_, err = b.kv.Update(ctx, key, value, revision)
	return b.failed("update", key, err)
}

func (b bucket[T]) remove(ctx context.Context, key string) error {
	return b.failed("delete", key, b.kv.Purge(ctx, key))
}

// list reads every record that matches the pattern, fresh.
func (b bucket[T]) list(ctx context.Context, pattern string) ([]T, error) {
	w, err := b.kv.Watch(ctx, pattern, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, b.failed("list", pattern, err)
	}
	defer endWatch(w)
	var out []T
	for {
		select {
		case entry, open := <-w.Updates():
			if !open {
				return nil, fmt.Errorf("registry: list %s: %w: the watch ended", pattern, ErrUnavailable)
			}
			if entry == nil {
				return out, nil
			}
			record, err := decode[T](entry)
			if err != nil {
				return nil, err
			}
			out = append(out, record)
		case <-ctx.Done():
			return nil, fmt.Errorf("registry: list %s: %w: %w", pattern, ErrUnavailable, ctx.Err())
		}
	}
}

// endWatch stops a watch and waits for its last update: an update that nobody
// takes would block the subscription's goroutine for ever.
func endWatch(w jetstream.KeyWatcher) {
	_ = w.Stop() // it fails where the subscription has ended already
	for range w.Updates() {
	}
}

func decode[T any](entry jetstream.KeyValueEntry) (record T, err error) {
	if err := json.Unmarshal(entry.Value(), &record); err != nil {
		return record, fmt.Errorf("registry: record %s of %s: %w", entry.Key(), entry.Bucket(), err)
	}
	return record, nil
}

// failed classifies an error of KV: all but the expected ones mean that the
// bucket is out of reach and the outcome unknown.
func (b bucket[T]) failed(what, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return ErrNotFound
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return ErrConflict
	case errors.Is(err, jetstream.ErrKeyExists):
		return ErrExists
	}
	return fmt.Errorf("registry: %s %s in %s: %w: %w", what, key, b.kv.Bucket(), ErrUnavailable, err)
}
