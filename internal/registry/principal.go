package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Principal is somebody agents work for who operates none: a person, a team, a
// customer. Only its managers may spend on its behalf.
type Principal struct {
	Org       string    `json:"org"`
	Name      string    `json:"name"`
	Display   string    `json:"display,omitempty"`
	Managers  []string  `json:"managers"` // agents, in byte order
	Rev       int64     `json:"rev"`      // counts its own changes, from 1
	CreatedAt time.Time `json:"created_at"`
}

// Principal reads a principal with its KV revision.
func (d *Directory) Principal(ctx context.Context, org, name string) (Principal, uint64, error) {
	return d.principals.get(ctx, principalKey(org, name))
}

// CreatePrincipal writes a new principal, or answers ErrExists.
func (d *Directory) CreatePrincipal(ctx context.Context, p Principal) error {
	return d.principals.create(ctx, principalKey(p.Org, p.Name), p)
}

// UpdatePrincipal writes a principal over the KV revision it was read at, or
// answers ErrConflict.
func (d *Directory) UpdatePrincipal(ctx context.Context, p Principal, revision uint64) error {
	return d.principals.update(ctx, principalKey(p.Org, p.Name), p, revision)
}

// Principals lists an org's principals by name.
func (d *Directory) Principals(ctx context.Context, org string) ([]Principal, error) {
	all, err := d.principals.list(ctx, org+".*")
	slices.SortFunc(all, func(a, b Principal) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// FollowPrincipals has the cache follow the bucket of principals too, and
// returns when what was in it is there. Without it every [Cache.Manages] reads
// KV; only who serves that needs the right to follow.
func (c *Cache) FollowPrincipals(ctx context.Context) error {
	ready := make(chan struct{})
	c.running.Go(func() { follow(c.work, c.conn, c.dir.principals.kv, ready, c.tookPrincipal) })
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("registry: follow principals: %w: %w", ErrUnavailable, ctx.Err())
	}
}

// Manages reports whether an agent may spend on a principal's behalf. What
// memory allows is allowed: the watch takes a removed manager out of it.
// Everything else is read from KV, once, so that a manager added a moment ago
// may at once, and a principal that is nowhere costs what another's does.
func (c *Cache) Manages(ctx context.Context, org, principal, agent string) (bool, error) {
	c.mu.RLock()
	known := slices.Contains(c.principals[name{org, principal}].record.Managers, agent)
	c.mu.RUnlock()
	if known {
		return true, nil
	}
	p, revision, err := c.dir.Principal(ctx, org, principal)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.Contains(c.putPrincipal(p, revision).Managers, agent), nil
}

// putPrincipal keeps the younger of two records and gives it back.
func (c *Cache) putPrincipal(p Principal, revision uint64) Principal {
	key := name{p.Org, p.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.principals[key]; revision <= old.revision {
		return old.record
	}
	c.principals[key] = versioned[Principal]{p, revision}
	return p
}

func (c *Cache) tookPrincipal(entry jetstream.KeyValueEntry) {
	if p, err := decode[Principal](entry); err == nil {
		c.putPrincipal(p, entry.Revision())
	}
}

// principalKey encodes the name: names are free text, KV keys are not.
func principalKey(org, principal string) string { return poolKey(org, principal) }
