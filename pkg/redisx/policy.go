package redisx

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"tallystick/pkg/budget"
)

// PolicyArgs are the limits of one pool at one revision.
type PolicyArgs struct {
	Org, Pool string
	Rev       int64
	Limits    []PolicyLimit
	By, Why   string // who made this revision
}

// PolicyLimit is one limit's cap and rules. State is open, frozen or closed;
// Opens and Closes are milliseconds, 0 for never.
type PolicyLimit struct {
	Unit, Period               string
	Cap, Epsilon, LateWindowMS int64
	OnOverrun, State           string
	Opens, Closes              int64
}

// PolicyResult tells whether anything changed. RedisRev above the revision
// asked means that KV is behind Redis: nothing was applied.
type PolicyResult struct {
	Applied  bool
	RedisRev int64
}

// policyDetail is the entry's detail: all a rebuild needs of the rules.
type policyDetail struct {
	Rev    int64         `json:"rev"`
	Limits []policyEntry `json:"limits"`
	By     string        `json:"by,omitempty"`
	Why    string        `json:"why,omitempty"`
}

type policyEntry struct {
	Pool       string `json:"pool"`
	Unit       string `json:"unit"`
	Period     string `json:"period"`
	Cap        int64  `json:"cap"`
	Epsilon    int64  `json:"epsilon"`
	OnOverrun  string `json:"on_overrun"`
	LateWindow int64  `json:"late_window_ms"`
	State      string `json:"state"`
	Rev        int64  `json:"rev"`
	Opens      int64  `json:"opens,omitempty"`
	Closes     int64  `json:"closes,omitempty"`
}

// ApplyPolicy creates or changes a pool's limits: lua/policy.lua. It is
// idempotent by revision.
func (s *Store) ApplyPolicy(ctx context.Context, a PolicyArgs) (PolicyResult, error) {
	for _, l := range a.Limits {
		if !plain(a.Org + a.Pool + l.Unit + l.Period) {
			return PolicyResult{}, fmt.Errorf("redisx: a name with control characters: %q %q", a.Pool, l.Unit)
		}
	}
	c := &policyCall{store: s, args: a}
	s.one(ctx, c)
	return c.result, c.err
}

type policyCall struct {
	store  *Store
	args   PolicyArgs
	result PolicyResult
	err    error
}

func (c *policyCall) failed(err error) { c.err = err }

func (c *policyCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Org)
	path, detail := policyEntries(a.Pool, a.Rev, a.Limits)
	detail.By, detail.Why = a.By, a.Why
	keys := []string{k.revoked, k.epoch, k.opened, k.outbox}
	args := []any{a.Rev, subjectLine(a.Org, "", limitsLine(path)), marshalled(detail)}
	for i, l := range a.Limits {
		id := path[i].LimitID
		keys = append(keys, k.limit(a.Org, id))
		args = append(args, fieldOf(a.Org, id), l.Cap, l.Epsilon, l.OnOverrun, l.LateWindowMS, l.State, l.Opens, l.Closes)
	}
	return c.store.scripts["policy"], keys, args
}

// policyEntries are a pool's limits at one revision: by name, and as the
// entry tells their rules.
func policyEntries(pool string, rev int64, limits []PolicyLimit) ([]budget.Limit, policyDetail) {
	path, detail := make([]budget.Limit, 0, len(limits)), policyDetail{Rev: rev}
	for _, l := range limits {
		path = append(path, budget.Limit{LimitID: budget.LimitID{Pool: pool, Unit: l.Unit, Period: l.Period}, Rev: rev})
		detail.Limits = append(detail.Limits, policyEntry{
			pool, l.Unit, l.Period, l.Cap, l.Epsilon, l.OnOverrun, l.LateWindowMS, l.State, rev, l.Opens, l.Closes,
		})
	}
	return path, detail
}

func (c *policyCall) reply(v []string) (bool, error) {
	if len(v) < 2 {
		return false, unexpected("policy", v)
	}
	rev, err := strconv.ParseInt(v[1], 10, 64)
	c.result = PolicyResult{Applied: v[0] == "applied", RedisRev: rev}
	return false, err
}

// subjectLine stands in an entry where no record does: org, agent, limits.
func subjectLine(org, agent, limits string) string {
	line := "-\t" + org + "\t" + agent
	if limits != "" {
		line += "\t" + limits
	}
	return line
}

func marshalled(v any) string {
	out, err := json.Marshal(v)
	if err != nil { // plain structs of strings and integers
		return "{}"
	}
	return string(out)
}
