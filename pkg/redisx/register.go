package redisx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/budget"
)

// ErrRevoked: the parent of a new agent, or an ancestor, has ended.
var ErrRevoked = errors.New("revoked")

// AgentLimit is a limit on agents that a registration would break.
type AgentLimit struct {
	Field string         // children, tree or budget.caps
	Limit budget.LimitID // of budget.caps: what the grant is more than remains of
}

func (e *AgentLimit) Error() string { return "limit on " + e.Field + " reached" }

// RegisterArgs is a new agent, as the registrar has issued it.
type RegisterArgs struct {
	Registration
	// Execution is under which key it is asked for; empty: a repeat makes
	// another agent.
	Execution string
	// Made are the limits of the pool that is granted, Path those of the
	// parent's path in its units.
	Made                 []PolicyLimit
	Path                 []budget.Limit
	ChildrenMax, TreeMax int64
}

// Registration is what is kept of a new agent, for its entry and for a repeat
// under the same key. Times are milliseconds, 0 for none.
type Registration struct {
	Org         string         `json:"-"`
	Agent       string         `json:"-"`
	Name        string         `json:"name"`
	Parent      string         `json:"parent,omitempty"`
	Ancestors   []string       `json:"ancestors,omitempty"` // parent first, root last
	Root        string         `json:"root"`
	Depth       int            `json:"depth"`
	Pool        string         `json:"pool"`
	PoolParent  string         `json:"pool_parent,omitempty"` // where Pool was made for the agent
	Granted     budget.Amounts `json:"granted,omitempty"`     // its caps
	Purpose     string         `json:"purpose,omitempty"`
	CreatedAtMS int64          `json:"created_at_ms"`
	ExpiresAtMS int64          `json:"expires_at_ms,omitempty"`
	Fingerprint string         `json:"fingerprint,omitempty"`
	By          string         `json:"by,omitempty"`
	Why         string         `json:"why,omitempty"`
}

func (r Registration) root() string {
	if len(r.Ancestors) == 0 {
		return r.Agent
	}
	return r.Ancestors[len(r.Ancestors)-1]
}

// Register makes an agent: lua/register.lua. Where the key was used before it
// gives the first registration, and replayed.
//
// Errors: ErrRevoked, *AgentLimit, ErrKeyReused, ErrStalePolicy, ErrUnavailable.
func (s *Store) Register(ctx context.Context, a RegisterArgs) (r Registration, replayed bool, err error) {
	if !plain(a.Org + a.Pool) {
		return r, false, fmt.Errorf("redisx: a name with control characters: %q", a.Pool)
	}
	c := &registerCall{store: s, args: a, result: a.Registration}
	s.one(ctx, c)
	return c.result, c.replayed, c.err
}

type registerCall struct {
	store    *Store
	args     RegisterArgs
	result   Registration
	replayed bool
	err      error
}

func (c *registerCall) failed(err error) { c.err = err }

func (c *registerCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Org)
	tree, children := k.tree(a.Org, a.root()), k.tree(a.Org, a.root())
	if a.Parent != "" {
		children = k.children(a.Org, a.Parent)
	}
	execution, ends, detail := "-", "+inf", marshalled(a.Registration)
	if a.Execution != "" {
		execution = a.Execution
	}
	if a.ExpiresAtMS > 0 {
		ends = strconv.FormatInt(a.ExpiresAtMS, 10)
	}
	made, policy := policyEntries(a.Pool, 1, a.Made)
	keys := []string{k.revoked, k.epoch, k.opened, k.outbox, k.registration(execution), tree, children}
	args := []any{
		a.Agent, a.Fingerprint + "\n" + a.Agent + "\n" + detail, subjectLine(a.Org, a.Agent, ""), detail, ends, a.ChildrenMax, a.TreeMax,
		execution, len(a.Ancestors), len(made), len(a.Path), subjectLine(a.Org, "", limitsLine(made)), marshalled(policy),
	}
	for _, ancestor := range a.Ancestors {
		args = append(args, ancestor)
	}
	for i, l := range a.Made {
		id := made[i].LimitID
		keys, args = append(keys, k.limit(a.Org, id)), append(args, fieldOf(a.Org, id), l.Cap, l.Epsilon, l.OnOverrun, l.LateWindowMS)
	}
	for _, l := range a.Path {
		granted := ""
		if n, ok := a.Granted[l.Unit]; ok {
			granted = strconv.FormatInt(n, 10)
		}
		keys, args = append(keys, k.limit(a.Org, l.LimitID)), append(args, granted, l.Rev)
	}
	return c.store.scripts["register"], keys, args
}

func (c *registerCall) reply(v []string) (bool, error) {
	switch v[0] {
	case "registered":
		return false, nil
	case "known":
		return false, c.known(v[1])
	case "revoked":
		return false, ErrRevoked
	case "stale":
		return false, budget.ErrStalePolicy
	case "missing":
		return false, fmt.Errorf("%w: a limit of the parent's path is missing", budget.ErrUnavailable)
	case "children", "tree":
		return false, &AgentLimit{Field: v[0]}
	case "grant":
		i, err := strconv.Atoi(v[1])
		if err != nil || i < 1 || i > len(c.args.Path) {
			return false, unexpected("register", v)
		}
		return false, &AgentLimit{Field: "budget.caps", Limit: c.args.Path[i-1].LimitID}
	}
	return false, unexpected("register", v)
}

func (c *registerCall) known(text string) error {
	lines := strings.SplitN(text, "\n", 3)
	if len(lines) != 3 {
		return fmt.Errorf("redisx: registration %q", text)
	}
	if lines[0] != c.args.Fingerprint {
		return budget.ErrKeyReused
	}
	r := Registration{Org: c.args.Org, Agent: lines[1]}
	if err := json.Unmarshal([]byte(lines[2]), &r); err != nil {
		return fmt.Errorf("redisx: registration: %w", err)
	}
	c.result, c.replayed = r, true
	return nil
}

// RegistrationOf reads the detail of an agent_registered entry.
func RegistrationOf(e budget.Entry) (Registration, error) {
	r := Registration{Org: e.Org, Agent: e.Agent}
	if err := json.Unmarshal(e.Detail, &r); err != nil {
		return r, fmt.Errorf("redisx: registration of %s: %w", e.Agent, err)
	}
	return r, nil
}

// Agents writes what lua/register.lua has written of agents, into a
// fenced partition: their ends, and who counts against a limit. Revoked ones
// are left out of the latter. Executions maps an agent to the key's execution.
func (r *Restore) Agents(ctx context.Context, agents []Registered, now time.Time) error {
	k := r.keys
	return r.inChunks(ctx, len(agents), func(pipe redis.Pipeliner, i int) {
		a := agents[i]
		ends := math.Inf(1)
		if a.ExpiresAtMS > 0 {
			ends = float64(a.ExpiresAtMS)
			pipe.HSetNX(ctx, k.revoked, a.Agent, strconv.FormatInt(a.ExpiresAtMS, 10))
		}
		if !a.Ended && ends > float64(now.UnixMilli()) {
			pipe.ZAdd(ctx, k.tree(a.Org, a.root()), redis.Z{Score: ends, Member: a.Agent})
			if a.Parent != "" {
				pipe.ZAdd(ctx, k.children(a.Org, a.Parent), redis.Z{Score: ends, Member: a.Agent})
			}
		}
		if kept := a.At.Add(budget.ResolvedKept).Sub(now); a.Execution != "" && kept > 0 {
			pipe.Set(ctx, k.registration(a.Execution), a.Fingerprint+"\n"+a.Agent+"\n"+marshalled(a.Registration), kept)
		}
	})
}

// Registered is an agent as the ledger knows it.
type Registered struct {
	Registration
	At        time.Time
	Execution string
	Ended     bool // itself or an ancestor is revoked
}
