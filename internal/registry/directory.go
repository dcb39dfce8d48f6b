package registry

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// Directory reads and writes the buckets themselves: always fresh, one round
// trip a record.
type Directory struct {
	orgs       bucket[Org]
	pools      bucket[Pool]
	agents     bucket[Agent]
	principals bucket[Principal]
	tokens     bucket[tokenRecord]
	admins     bucket[orgAdmins]
	meta       bucket[epochRecord]

	pipelines      bucket[Pipeline]
	pipelineTokens bucket[pipelineToken] // in the bucket of tokens
}

// OpenDirectory binds to buckets that exist.
func OpenDirectory(ctx context.Context, js jetstream.JetStream) (*Directory, error) {
	d := &Directory{}
	var errs [8]error
	d.orgs, errs[0] = openBucket[Org](ctx, js, events.BucketOrgs)
	d.pools, errs[1] = openBucket[Pool](ctx, js, events.BucketPools)
	d.agents, errs[2] = openBucket[Agent](ctx, js, events.BucketAgents)
	d.tokens, errs[3] = openBucket[tokenRecord](ctx, js, events.BucketTokens)
	d.meta, errs[4] = openBucket[epochRecord](ctx, js, events.BucketMeta)
	d.admins, errs[5] = openBucket[orgAdmins](ctx, js, events.BucketAdmins)
	d.pipelines, errs[6] = openBucket[Pipeline](ctx, js, events.BucketPipelines)
	d.principals, errs[7] = openBucket[Principal](ctx, js, events.BucketPrincipals)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	d.pipelineTokens = bucket[pipelineToken]{d.tokens.kv}
	return d, nil
}

// Org reads an org.
func (d *Directory) Org(ctx context.Context, name string) (Org, error) {
	o, _, err := d.orgs.get(ctx, name)
	return o, err
}

// CreateOrg writes a new org, or answers ErrExists.
func (d *Directory) CreateOrg(ctx context.Context, o Org) error {
	return d.orgs.create(ctx, o.Name, o)
}

// ChangeOrg edits an org by compare-and-set; ErrConflict where others are
// always quicker.
func (d *Directory) ChangeOrg(ctx context.Context, name string, edit func(*Org)) (Org, error) {
	var o Org
	var err error
	for range changesMax {
		var revision uint64
		if o, revision, err = d.orgs.get(ctx, name); err != nil {
			return o, err
		}
		edit(&o)
		if err = d.orgs.update(ctx, name, o, revision); !errors.Is(err, ErrConflict) {
			return o, err
		}
	}
	return o, err
}

// changesMax is how often a change is tried against others of the same record.
const changesMax = 8

// Pool reads a pool with its KV revision.
func (d *Directory) Pool(ctx context.Context, org, name string) (Pool, uint64, error) {
	return d.pools.get(ctx, poolKey(org, name))
}

// CreatePool writes a new pool, or answers ErrExists.
func (d *Directory) CreatePool(ctx context.Context, p Pool) error {
	return d.pools.create(ctx, poolKey(p.Org, p.Name), p)
}

// UpdatePool writes a pool over the KV revision it was read at, or answers
// ErrConflict.
func (d *Directory) UpdatePool(ctx context.Context, p Pool, revision uint64) error {
	return d.pools.update(ctx, poolKey(p.Org, p.Name), p, revision)
}

// Pools lists an org's pools by name; org "" means every org.
func (d *Directory) Pools(ctx context.Context, org string) ([]Pool, error) {
	pattern := jetstream.AllKeys
	if org != "" {
		pattern = org + ".*"
	}
	pools, err := d.pools.list(ctx, pattern)
	slices.SortFunc(pools, func(a, b Pool) int {
		return strings.Compare(a.Org+"\x00"+a.Name, b.Org+"\x00"+b.Name)
	})
	return pools, err
}

// Path reads the pools from the named one to its root, fresh.
func (d *Directory) Path(ctx context.Context, org, pool string) ([]Pool, error) {
	var path []Pool
	for name := pool; name != ""; {
		if len(path) == PoolDepthMax {
			return nil, fmt.Errorf("registry: the path of pool %q in %s is longer than %d", pool, org, PoolDepthMax)
		}
		p, _, err := d.Pool(ctx, org, name)
		if err != nil {
			return nil, err
		}
		path = append(path, p)
		name = p.Parent
	}
	return path, nil
}

// Agent reads an agent with its KV revision.
func (d *Directory) Agent(ctx context.Context, org, id string) (Agent, uint64, error) {
	return d.agents.get(ctx, agentKey(org, id))
}

// CreateAgent writes a new agent, and the record that leads from its token to
// it.
func (d *Directory) CreateAgent(ctx context.Context, a Agent) error {
	if err := d.agents.create(ctx, agentKey(a.Org, a.ID), a); err != nil {
		return err
	}
	return d.tokens.create(ctx, a.TokenHash, tokenRecord{Org: a.Org, Agent: a.ID})
}

// UpdateAgent writes an agent over the KV revision it was read at, or answers
// ErrConflict. The token is changed by RotateToken alone.
func (d *Directory) UpdateAgent(ctx context.Context, a Agent, revision uint64) error {
	return d.agents.update(ctx, agentKey(a.Org, a.ID), a, revision)
}

// RotateToken gives an agent that was read at the KV revision another token.
// The old one ends with the agent's record, or works until the time given:
// what is left of it in the tokens after a crash leads nowhere.
func (d *Directory) RotateToken(ctx context.Context, a Agent, revision uint64, hash, hint string, oldUntil time.Time) error {
	if err := d.tokens.create(ctx, hash, tokenRecord{Org: a.Org, Agent: a.ID}); err != nil {
		return err
	}
	ended := []string{a.OldTokenHash, a.TokenHash}
	a.OldTokenHash, a.OldTokenUntil = "", time.Time{}
	if !oldUntil.IsZero() {
		a.OldTokenHash, a.OldTokenUntil, ended = a.TokenHash, oldUntil, ended[:1]
	}
	a.TokenHash, a.TokenHint = hash, hint
	if err := d.UpdateAgent(ctx, a, revision); err != nil {
		return err
	}
	for _, old := range ended {
		if old == "" {
			continue
		}
		if err := d.tokens.remove(ctx, old); err != nil {
			return err
		}
	}
	return nil
}

// Agents lists an org's agents in the order of their making.
func (d *Directory) Agents(ctx context.Context, org string) ([]Agent, error) {
	agents, err := d.agents.list(ctx, org+".*")
	slices.SortFunc(agents, func(a, b Agent) int { return strings.Compare(a.ID, b.ID) })
	return agents, err
}

// Token finds whose a token is, by its hash: always fresh, so that a rotated
// token ends at once. ExpiresAt is when the token ends, zero for never; an
// expired agent's token is ErrNotFound, a revoked one's still leads to it.
func (d *Directory) Token(ctx context.Context, hash string) (org, agentID string, expiresAt time.Time, err error) {
	t, _, err := d.tokens.get(ctx, hash)
	if err != nil {
		return "", "", time.Time{}, err
	}
	if t.Agent == "" { // an admin's
		return "", "", time.Time{}, ErrNotFound
	}
	a, _, err := d.Agent(ctx, t.Org, t.Agent)
	if err != nil {
		return "", "", time.Time{}, err
	}
	ends := a.ExpiresAt
	switch {
	case same(a.TokenHash, hash):
	case same(a.OldTokenHash, hash):
		if ends.IsZero() || a.OldTokenUntil.Before(ends) {
			ends = a.OldTokenUntil
		}
	default:
		return "", "", time.Time{}, ErrNotFound
	}
	if !ends.IsZero() && !time.Now().Before(ends) {
		return "", "", time.Time{}, ErrNotFound
	}
	return a.Org, a.ID, ends, nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Epoch is the partition's epoch, "" where none was ever made.
func (d *Directory) Epoch(ctx context.Context, partition int) (string, error) {
	e, _, err := d.meta.get(ctx, epochKey(partition))
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return e.Epoch, err
}

// EnsureEpoch gives the partition's epoch and makes it where there is none.
// Created tells that this call made it: its caller writes it to Redis.
func (d *Directory) EnsureEpoch(ctx context.Context, partition int) (epoch string, created bool, err error) {
	epoch, err = d.Epoch(ctx, partition)
	if err != nil || epoch != "" {
		return epoch, false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", false, fmt.Errorf("registry: epoch: %w", err)
	}
	err = d.meta.create(ctx, epochKey(partition), epochRecord{Epoch: id.String()})
	if errors.Is(err, ErrExists) {
		epoch, err = d.Epoch(ctx, partition)
		return epoch, false, err
	}
	if err != nil {
		return "", false, err
	}
	return id.String(), true, nil
}

// CreateEpoch is EnsureEpoch for whoever does not care who made it.
func (d *Directory) CreateEpoch(ctx context.Context, partition int) (string, error) {
	epoch, _, err := d.EnsureEpoch(ctx, partition)
	return epoch, err
}
