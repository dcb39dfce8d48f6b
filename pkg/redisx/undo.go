package redisx

import (
	"context"
	"strconv"
	"strings"

	"tallystick/pkg/budget"
)

// Undo takes back one entry of the ledger that Redis had lost and that was
// done again, or that contradicts what was done before.
type Undo struct {
	Entry    budget.Entry // with its record
	Seq      uint64       // its place in the org's chain
	Hash     string
	Reason   string
	Standing budget.State // what its reservation is without it
}

// undoer is who such an entry says it is by.
const undoer = "reconciler"

// UndoDetail is what the entry tells. Standing is in no operator's correction.
type UndoDetail struct {
	Corrects Corrects       `json:"corrects"`
	Amounts  budget.Amounts `json:"amounts"` // what is added to spent
	Reason   string         `json:"reason"`
	By       string         `json:"by"`
	Standing budget.State   `json:"standing"`
}

// Undo writes corrected for each: lua/undo.lua.
func (r *Restore) Undo(ctx context.Context, undos []Undo) error {
	for i := range undos {
		c := &undoCall{restore: r, undo: &undos[i]}
		r.store.one(ctx, c)
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

type undoCall struct {
	restore *Restore
	undo    *Undo
	err     error
}

func (c *undoCall) failed(err error) { c.err = err }

func (c *undoCall) command() (*script, []string, []any) {
	u, r := c.undo, c.restore
	d := UndoDetail{Reason: u.Reason, By: undoer, Standing: u.Standing, Amounts: budget.Amounts{}}
	d.Corrects = Corrects{Seq: u.Seq, Hash: u.Hash}
	for _, m := range u.Entry.Moves {
		d.Amounts[m.Unit] = -m.Spent
	}
	members := strings.TrimSuffix(strings.TrimPrefix(marshalled(d), "{"), "}")
	return r.store.scripts["undo"], []string{r.keys.revoked, r.keys.outbox},
		[]any{r.fence, u.Entry.Execution, inverse(u.Entry.Moves), members, u.Entry.Record}
}

func (c *undoCall) reply(v []string) (bool, error) {
	switch v[0] {
	case "undone":
		return false, nil
	case "taken_over":
		return false, ErrTakenOver
	}
	return false, unexpected("undo", v)
}

// inverse writes moves as parseMoves reads them, each the other way round.
func inverse(moves []budget.Move) string {
	words := make([]string, len(moves))
	for i, m := range moves {
		for _, term := range [...]struct {
			letter string
			n      int64
		}{{"h", m.Held}, {"s", m.Spent}, {"w", m.Withheld}} {
			if term.n == 0 {
				continue
			}
			digits := strconv.FormatInt(-term.n, 10)
			if term.n < 0 {
				digits = "+" + digits
			}
			words[i] += term.letter + digits
		}
	}
	return strings.Join(words, " ")
}
