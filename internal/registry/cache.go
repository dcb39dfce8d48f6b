package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// name is a record's name within an org.
type name struct{ org, name string }

// versioned is a record at a KV revision: a watch and a reload may overtake
// each other, and the younger record stays.
type versioned[T any] struct {
	record   T
	revision uint64
}

// Cache holds pools, agents and marks of orgs in memory and follows their
// buckets. A miss
// falls through to KV.
type Cache struct {
	dir     *Directory
	conn    *nats.Conn
	work    context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu         sync.RWMutex
	pools      map[name]versioned[Pool]
	agents     map[name]versioned[Agent]
	principals map[name]versioned[Principal]
	paths      map[name][]Pool
	keeps      map[string]versioned[bool] // orgs whose decisions are kept
	generation uint64                     // of pools: a path built across a change is not kept
}

// Open starts following the buckets and returns when what was in them is
// there. Close the Cache when it is used no more.
func Open(ctx context.Context, js jetstream.JetStream) (*Cache, error) {
	dir, err := OpenDirectory(ctx, js)
	if err != nil {
		return nil, err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &Cache{
		dir: dir, conn: js.Conn(), work: work, cancel: cancel,
		pools: map[name]versioned[Pool]{}, agents: map[name]versioned[Agent]{}, paths: map[name][]Pool{},
		principals: map[name]versioned[Principal]{}, keeps: map[string]versioned[bool]{},
	}
	pools, agents, orgs := make(chan struct{}), make(chan struct{}), make(chan struct{})
	c.running.Go(func() { follow(work, c.conn, dir.pools.kv, pools, c.tookPool) })
	c.running.Go(func() { follow(work, c.conn, dir.agents.kv, agents, c.tookAgent) })
	c.running.Go(func() { follow(work, c.conn, dir.orgs.kv, orgs, c.tookOrg) })
	for _, ready := range []chan struct{}{pools, agents, orgs} {
		select {
		case <-ready:
		case <-ctx.Done():
			c.Close()
			return nil, fmt.Errorf("registry: open: %w: %w", ErrUnavailable, ctx.Err())
		}
	}
	return c, nil
}

// Close stops following and waits for it.
func (c *Cache) Close() {
	c.cancel()
	c.running.Wait()
}

// Agent finds an agent.
func (c *Cache) Agent(ctx context.Context, org, id string) (Agent, error) {
	c.mu.RLock()
	v, ok := c.agents[name{org, id}]
	c.mu.RUnlock()
	if ok {
		return v.record, nil
	}
	a, revision, err := c.dir.Agent(ctx, org, id)
	if err != nil {
		return Agent{}, err
	}
	c.putAgent(a, revision)
	return a, nil
}

// Path gives the pools from the named one to its root. All callers share it:
// it must not be changed.
func (c *Cache) Path(ctx context.Context, org, pool string) ([]Pool, error) {
	key := name{org, pool}
	c.mu.RLock()
	path, ok := c.paths[key]
	generation := c.generation
	c.mu.RUnlock()
	if ok {
		return path, nil
	}
	for next := pool; next != ""; {
		if len(path) == PoolDepthMax {
			return nil, fmt.Errorf("registry: the path of pool %q in %s is longer than %d", pool, org, PoolDepthMax)
		}
		p, err := c.pool(ctx, org, next)
		if err != nil {
			return nil, err
		}
		path, next = append(path, p), p.Parent
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation == generation {
		c.paths[key] = path
	}
	return path, nil
}

func (c *Cache) pool(ctx context.Context, org, pool string) (Pool, error) {
	c.mu.RLock()
	v, ok := c.pools[name{org, pool}]
	c.mu.RUnlock()
	if ok {
		return v.record, nil
	}
	p, revision, err := c.dir.Pool(ctx, org, pool)
	if err != nil {
		return Pool{}, err
	}
	return c.putPool(p, revision), nil
}

// Reload reads a pool's whole path from KV, for a caller that Redis told that
// its picture is old.
func (c *Cache) Reload(ctx context.Context, org, pool string) error {
	next := pool
	for range PoolDepthMax {
		p, revision, err := c.dir.Pool(ctx, org, next)
		if err != nil {
			return err
		}
		if next = c.putPool(p, revision).Parent; next == "" {
			return nil
		}
	}
	return fmt.Errorf("registry: the path of pool %q in %s is longer than %d", pool, org, PoolDepthMax)
}

// KeepsDecisions reports whether somebody may read an org's decisions later. It
// never asks: an org that is not known yet has no pipeline that anybody was
// told of.
func (c *Cache) KeepsDecisions(org string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.keeps[org].record
}

// Token is [Directory.Token]: never from memory.
func (c *Cache) Token(ctx context.Context, hash string) (org, agentID string, expiresAt time.Time, err error) {
	return c.dir.Token(ctx, hash)
}

// AdminRole is [Directory.AdminRole]: never from memory.
func (c *Cache) AdminRole(ctx context.Context, org, id string) (string, error) {
	return c.dir.AdminRole(ctx, org, id)
}

// Directory is the fresh view beneath the cache.
func (c *Cache) Directory() *Directory { return c.dir }

func (c *Cache) putAgent(a Agent, revision uint64) {
	key := name{a.Org, a.ID}
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision > c.agents[key].revision {
		c.agents[key] = versioned[Agent]{a, revision}
	}
}

// putPool keeps the younger of two records and gives it back. A record that is
// new drops no path: none can have been built without it.
func (c *Cache) putPool(p Pool, revision uint64) Pool {
	key := name{p.Org, p.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.pools[key]
	if revision <= old.revision {
		return old.record
	}
	c.pools[key] = versioned[Pool]{p, revision}
	if old.revision == 0 {
		return p
	}
	c.generation++
	for k, path := range c.paths {
		if k.org == p.Org && slices.ContainsFunc(path, func(on Pool) bool { return on.Name == p.Name }) {
			delete(c.paths, k)
		}
	}
	return p
}

// tookAgent takes an update of the watch. Records that are not readable are
// left to the reader, whose miss falls through to KV and fails there by name.
func (c *Cache) tookAgent(entry jetstream.KeyValueEntry) {
	if a, err := decode[Agent](entry); err == nil {
		c.putAgent(a, entry.Revision())
	}
}

func (c *Cache) tookOrg(entry jetstream.KeyValueEntry) {
	o, err := decode[Org](entry)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry.Revision() > c.keeps[o.Name].revision {
		c.keeps[o.Name] = versioned[bool]{o.Pipelines, entry.Revision()}
	}
}

func (c *Cache) tookPool(entry jetstream.KeyValueEntry) {
	if p, err := decode[Pool](entry); err == nil {
		c.putPool(p, entry.Revision())
	}
}
