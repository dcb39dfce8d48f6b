package registry

import (
	"context"
	"errors"
	"time"
)

// leaseRecord is who may do what only one process may do at a time.
type leaseRecord struct {
	Holder string    `json:"holder"` // "" where it was given back
	Until  time.Time `json:"until"`
}

// TakeLease takes or keeps a lease until a time. It is false where another
// holder has it at now; both times are Redis's. An ended lease is taken over.
func (d *Directory) TakeLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error) {
	leases, mine := bucket[leaseRecord]{d.meta.kv}, leaseRecord{Holder: holder, Until: until}
	key := leaseKey(name)
	old, revision, err := leases.get(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound):
		err = leases.create(ctx, key, mine)
	case err != nil:
		return false, err
	case old.Holder != "" && old.Holder != holder && now.Before(old.Until):
		return false, nil
	default:
		err = leases.update(ctx, key, mine, revision)
	}
	if errors.Is(err, ErrExists) || errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// EndLease gives a lease back that the holder has.
func (d *Directory) EndLease(ctx context.Context, name, holder string) error {
	leases := bucket[leaseRecord]{d.meta.kv}
	old, revision, err := leases.get(ctx, leaseKey(name))
	if err != nil || old.Holder != holder {
		return err
	}
	return leases.update(ctx, leaseKey(name), leaseRecord{}, revision)
}

func leaseKey(name string) string { return "lease." + name }
