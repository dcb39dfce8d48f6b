package reconciler

import (
	"slices"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// branches finds what Redis did twice because it had lost the first time: a
// Redis that comes back with less goes on from an older state until it is
// fenced, and the ledger then has two continuations of one reservation.
//
//   - A resolution by its caller stands, and what comes after it is undone.
//   - Else what Redis went on from stands: what it had lost is undone.
//
// What it decides of an entry depends on what is before it alone, so that a
// second rebuild decides the same and finds it done.
type branches struct {
	chains map[string]*chain // by execution
	undos  []redisx.Undo
	undone map[string]bool // hashes that a correction names already
}

// chain is what stands of an execution: entries from its reserve to its
// resolution.
type chain struct {
	links    []link
	resolved budget.State // "" until it is
	by       string       // hash of the resolution
}

type link struct {
	state budget.State // after it
	entry budget.Entry
	seq   uint64
	hash  string
}

const (
	reasonReserve    = "reserve lost and repeated"
	reasonLost       = "lost, and what followed goes without it"
	reasonResolution = "after the resolution that stands"
)

func newBranches() *branches {
	return &branches{chains: map[string]*chain{}, undone: map[string]bool{}}
}

// add takes an entry about an execution; it reports whether its record stands.
func (b *branches) add(m ledger.Message, e *budget.Entry) bool {
	state, ok := stateAfter(e)
	if !ok {
		return true
	}
	l := link{state: state, entry: *e, seq: m.Seq, hash: m.Hash.String()}
	l.entry.Detail, l.entry.Labels = nil, nil // there may be millions
	c := b.chains[e.Execution]
	switch {
	case c == nil:
		c = &chain{}
		b.chains[e.Execution] = c
	case c.resolved != "":
		b.undo(l, reasonResolution, c.resolved)
		return false
	case e.Kind == budget.KindReserved, e.Kind == budget.KindCharged:
		b.rewind(c, 0, reasonReserve, state)
	default:
		b.rewind(c, c.before(e), reasonLost, state)
	}
	c.links = append(c.links, l)
	if state == budget.StateSettled || state == budget.StateReleased {
		c.resolved, c.by, c.links = state, l.hash, nil
	}
	return true
}

// rewind undoes all links but the first n.
func (b *branches) rewind(c *chain, n int, reason string, standing budget.State) {
	for _, l := range slices.Backward(c.links[n:]) {
		b.undo(l, reason, standing)
	}
	c.links = c.links[:n]
}

func (b *branches) undo(l link, reason string, standing budget.State) {
	moving := func(m budget.Move) bool { return m.Held != 0 || m.Spent != 0 || m.Withheld != 0 }
	if !slices.ContainsFunc(l.entry.Moves, moving) {
		return // a later deadline: nothing to take back
	}
	b.undos = append(b.undos, redisx.Undo{Entry: l.entry, Seq: l.seq, Hash: l.hash, Reason: reason, Standing: standing})
}

// corrected notes what an earlier rebuild has undone; it is false for all
// other entries. It reports too whether what was undone stands here: what it
// came after is too old to be remembered, and so is this.
func (b *branches) corrected(e *budget.Entry) (undone, stood bool) {
	d, ok := undoOf(e)
	if !ok {
		return false, false
	}
	b.undone[d.Corrects.Hash] = true
	c := b.chains[e.Execution]
	stood = c != nil && (c.by == d.Corrects.Hash || slices.ContainsFunc(c.links, func(l link) bool { return l.hash == d.Corrects.Hash }))
	if stood {
		b.forget(e.Execution)
	}
	return true, stood
}

// forget drops what is no longer remembered.
func (b *branches) forget(execution string) { delete(b.chains, execution) }

// due lists what is not undone yet.
func (b *branches) due() []redisx.Undo {
	return slices.DeleteFunc(b.undos, func(u redisx.Undo) bool { return b.undone[u.Hash] })
}

// stateAfter is what an entry leaves its execution in; false where it leaves
// it as it is.
func stateAfter(e *budget.Entry) (budget.State, bool) {
	switch e.Kind {
	case budget.KindReserved, budget.KindExtended:
		return budget.StateHeld, true
	case budget.KindExpired:
		return budget.StateExpired, true
	case budget.KindLapsed:
		return budget.StateLapsed, true
	case budget.KindSettled, budget.KindLateSettled, budget.KindCharged:
		return budget.StateSettled, true
	case budget.KindReleased:
		return budget.StateReleased, true
	}
	return "", false
}

// before is how many links were there for whoever made an entry: the last of
// them is in the state that the entry's moves take from, and they hold what a
// resolution takes back.
func (c *chain) before(e *budget.Entry) int {
	n := len(c.links)
	for n > 1 && !follows(c.links[n-1].state, e) {
		n--
	}
	if e.Kind == budget.KindExtended {
		return c.beforeExtend(n, e)
	}
	for short := takes(e); n > 1 && short != 0 && c.held(n) != short && c.links[n-1].entry.Kind == budget.KindExtended; {
		n--
	}
	return n
}

// beforeExtend goes by the record, which says what is held after the extend.
func (c *chain) beforeExtend(n int, e *budget.Entry) int {
	if n < 2 {
		return n
	}
	r, err := redisx.ParseRecord(e.Record)
	if err != nil || len(e.Moves) == 0 {
		return n
	}
	want := r.Amounts[e.Moves[0].Unit] - e.Moves[0].Held
	for n > 1 && c.held(n) != want && c.links[n-1].entry.Kind == budget.KindExtended {
		n--
	}
	return n
}

// held is what the first n links hold on the first limit.
func (c *chain) held(n int) (sum int64) {
	for _, l := range c.links[:n] {
		if len(l.entry.Moves) > 0 {
			sum += l.entry.Moves[0].Held
		}
	}
	return sum
}

// takes is what an entry takes back from the first limit's held.
func takes(e *budget.Entry) int64 {
	if len(e.Moves) == 0 {
		return 0
	}
	return max(0, -e.Moves[0].Held)
}

// follows reports whether an entry can be made in a state.
func follows(state budget.State, e *budget.Entry) bool {
	held, withheld := false, false
	for _, m := range e.Moves {
		held, withheld = held || m.Held < 0, withheld || m.Withheld < 0
	}
	switch {
	case e.Kind == budget.KindExtended || held:
		return state == budget.StateHeld
	case withheld:
		return state == budget.StateExpired
	}
	return true
}
