package redisx

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"tallystick/pkg/budget"
)

// CorrectArgs is what an operator says of an entry that stands. Agent, and
// principal and labels in Extra, are those of that entry.
type CorrectArgs struct {
	budget.CorrectCall
	Told  CorrectTold
	Extra Extra
}

// CorrectTold is what the entry tells of it.
type CorrectTold struct {
	Corrects Corrects
	Amounts  budget.Amounts // as they were given
	Reason   string
	By, Why  string
	Evidence Evidence
}

// Corrects names the entry that is corrected, within its org.
type Corrects struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// Evidence is a stored file; the zero Evidence is none.
type Evidence struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

func (t CorrectTold) members() string {
	evidence := ""
	if t.Evidence.ID != "" {
		evidence = marshalled(t.Evidence)
	}
	return request("corrects", marshalled(t.Corrects), "amounts", amountsJSON(t.Amounts), "reason", quote(t.Reason),
		"by", quote(t.By), "why", quoteOrNone(t.Why), "evidence", evidence)
}

// Correct writes corrected, refunded or disputed, once for each key:
// lua/correct.lua. Errors: budget.ErrKeyReused, *budget.RangeError,
// budget.ErrUnavailable.
func (s *Store) Correct(ctx context.Context, a CorrectArgs) (budget.Correction, error) {
	c := &correctCall{store: s, args: a}
	s.one(ctx, c)
	return c.done, c.err
}

type correctCall struct {
	store *Store
	args  CorrectArgs
	done  budget.Correction
	err   error
}

func (c *correctCall) failed(err error) { c.err = err }

func (c *correctCall) command() (*script, []string, []any) {
	a, k := &c.args, c.store.keysOf(c.args.Agent.Org)
	path := make([]budget.Limit, len(a.Limits))
	keys := []string{k.record(a.Execution), k.revoked, k.epoch, k.outbox}
	args := []any{a.Execution, "", string(a.Kind), a.Told.members()}
	for i, id := range a.Limits {
		path[i].LimitID = id
		keys = append(keys, k.limit(a.Agent.Org, id))
		n := a.Amounts[id.Unit]
		args = append(args, signOf(n), strings.TrimPrefix(strconv.FormatInt(n, 10), "-"))
	}
	args[1] = holdBody(a.Fingerprint, a.Agent, "", a.Amounts, limitsLine(path), "", a.Extra)
	return c.store.scripts["correct"], keys, args
}

func signOf(n int64) string {
	if n < 0 {
		return "-"
	}
	return "+"
}

func (c *correctCall) reply(v []string) (again bool, err error) {
	switch v[0] {
	case "known":
		c.done, err = c.known(v[1])
		return false, err
	case "range":
		i, err := strconv.Atoi(v[1])
		if err != nil || i < 1 || i > len(c.args.Limits) {
			return false, unexpected("correct", v)
		}
		spent, err := strconv.ParseInt(v[2], 10, 64)
		if err != nil {
			return false, unexpected("correct", v)
		}
		return false, &budget.RangeError{Limit: c.args.Limits[i-1], Spent: spent}
	case "corrected":
		c.done, err = correction(c.args.Kind, v[1], c.args.Limits)
		return false, err
	}
	return false, unexpected("correct", v)
}

// known is the first answer again.
func (c *correctCall) known(text string) (budget.Correction, error) {
	r, err := ParseRecord(text)
	if err != nil {
		return budget.Correction{}, err
	}
	if r.Fingerprint != c.args.Fingerprint {
		return budget.Correction{}, budget.ErrKeyReused
	}
	if len(r.Resolution) != 3 || r.Resolution[0] != "correct" {
		return budget.Correction{}, fmt.Errorf("%w: resolution %q", errRecord, r.Resolution)
	}
	done, err := correction(budget.Kind(r.Resolution[1]), r.Resolution[2], r.Limits)
	done.Replayed = true
	return done, err
}

func correction(kind budget.Kind, told string, limits []budget.LimitID) (budget.Correction, error) {
	moves, err := parseMoves(told, limits)
	c := budget.Correction{Kind: kind, Moves: moves}
	for _, m := range moves {
		c.PoolMissing = c.PoolMissing || m.Missing
	}
	return c, err
}
