package registry

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"tallystick/pkg/budget"
)

// Errors of reading and writing records.
var (
	ErrNotFound = errors.New("registry: not found")
	ErrExists   = errors.New("registry: exists already")
	// ErrConflict: somebody else changed the record since it was read.
	ErrConflict = errors.New("registry: changed meanwhile")
	// ErrUnavailable: KV is out of reach; a write may or may not have landed.
	ErrUnavailable = budget.ErrUnavailable
)

// PoolDepthMax bounds the pools on a path, root included.
const PoolDepthMax = 8

// Limits on agents where an org sets none.
const (
	DepthMaxDefault    int64 = 5
	ChildrenMaxDefault int64 = 100
	TreeMaxDefault     int64 = 1000
)

// Org is a tenant with its limits on agents; nil is the default.
type Org struct {
	Name      string    `json:"name"`
	Display   string    `json:"display,omitempty"`
	CreatedAt time.Time `json:"created_at"`

	DepthMax    *int64 `json:"depth_max,omitempty"`    // greatest depth of an agent
	ChildrenMax *int64 `json:"children_max,omitempty"` // living children of one agent
	TreeMax     *int64 `json:"tree_max,omitempty"`     // living agents of one tree

	// Pipelines: somebody may read the org's decisions, so they are kept.
	Pipelines bool `json:"pipelines,omitempty"`
}

// AgentLimits gives the limits that hold.
func (o Org) AgentLimits() (depth, children, tree int64) {
	or := func(set *int64, otherwise int64) int64 {
		if set == nil {
			return otherwise
		}
		return *set
	}
	return or(o.DepthMax, DepthMaxDefault), or(o.ChildrenMax, ChildrenMaxDefault), or(o.TreeMax, TreeMaxDefault)
}

// Limit is one limit of a pool; Cap nil is no cap.
type Limit struct {
	Unit         string `json:"unit"`
	Period       string `json:"period"`
	Cap          *int64 `json:"cap"`
	Epsilon      int64  `json:"epsilon"`
	OnOverrun    string `json:"on_overrun"`
	LateWindowMS int64  `json:"late_window_ms"`
}

// Slot bounds how many reservations may hold a matching target at once.
type Slot struct {
	Pattern string `json:"pattern"`
	Max     int64  `json:"max"`
}

// Pool is a pool at one revision. Rev counts the pool's own changes, from 1;
// it is not the revision of the KV record.
type Pool struct {
	Org    string  `json:"org"`
	Name   string  `json:"name"`
	Parent string  `json:"parent,omitempty"`
	Rev    int64   `json:"rev"`
	Frozen bool    `json:"frozen,omitempty"`
	Closed bool    `json:"closed,omitempty"` // for good
	Limits []Limit `json:"limits"`           // by unit, then period, in byte order
	Slots  []Slot  `json:"slots,omitempty"`

	// By and Why are who made this revision: whoever brings it to Redis, and
	// however late, the ledger names its author.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// Agent is an identity. Everything but the pool, the token and the revocation
// is set once.
type Agent struct {
	Org       string    `json:"org"`
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Pool      string    `json:"pool"`
	Purpose   string    `json:"purpose,omitempty"`
	Parent    string    `json:"parent,omitempty"`
	Root      string    `json:"root"`
	Depth     int       `json:"depth"`
	Ancestors []string  `json:"ancestors,omitempty"` // parent first, root last
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`

	// TokenHash says which token is the agent's; any other has ended, even
	// where its record is still there.
	TokenHash string `json:"token_hash"`
	TokenHint string `json:"token_hint"`
	// OldTokenHash is the token before the last rotation, which works until
	// OldTokenUntil.
	OldTokenHash  string    `json:"old_token_hash,omitempty"`
	OldTokenUntil time.Time `json:"old_token_until,omitzero"`
}

// tokenRecord leads from a token to its agent, or to its admin.
type tokenRecord struct {
	Org   string `json:"org"`
	Agent string `json:"agent,omitempty"`
	Admin string `json:"admin,omitempty"`
}

// Pipeline is an identity that may read its org's decisions.
type Pipeline struct {
	Org       string    `json:"org"`
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
	TokenHash string    `json:"token_hash"`
	TokenHint string    `json:"token_hint"`
}

// pipelineToken leads from a token to its pipeline identity. Its key differs
// from an agent's, so that neither is ever taken for the other.
type pipelineToken struct {
	Org      string `json:"org"`
	Pipeline string `json:"pipeline"`
}

// epochRecord is what a partition's epoch is called.
type epochRecord struct {
	Epoch string `json:"epoch"`
}

// poolKey encodes the name: names are free text, KV keys are not.
func poolKey(org, pool string) string {
	return org + "." + base64.RawURLEncoding.EncodeToString([]byte(pool))
}

func agentKey(org, agent string) string { return org + "." + agent }

func pipelineKey(org, id string) string { return org + "." + id }

func pipelineTokenKey(hash string) string { return "pipeline." + hash }

func epochKey(partition int) string { return fmt.Sprintf("epoch.p%02d", partition) }
