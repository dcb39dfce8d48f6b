package reconciler

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// step is one entry of a ledger made by hand, about one execution and limit.
type step struct {
	kind                  budget.Kind
	held, spent, withheld int64
	age                   time.Duration // when, before the rebuild
}

// byHand makes the entries, and a correction for each sequence in corrects.
func byHand(now time.Time, steps []step, corrects map[int]budget.State) (out []budget.Entry) {
	for _, s := range steps {
		out = append(out, budget.Entry{
			Org: "o", Execution: "x", Kind: s.kind, At: now.Add(-s.age), Record: string(s.kind),
			Moves: []budget.Move{{LimitID: budget.LimitID{Pool: "p", Unit: "u"}, Held: s.held, Spent: s.spent, Withheld: s.withheld}},
		})
	}
	for seq, standing := range corrects {
		d := redisx.UndoDetail{By: "reconciler", Standing: standing}
		d.Corrects.Hash = hashOf(seq).String()
		detail, _ := json.Marshal(d)
		out = append(out, budget.Entry{Org: "o", Execution: "x", Kind: budget.KindCorrected, At: now, Record: "undone", Detail: detail})
	}
	return out
}

func hashOf(seq int) ledger.Hash { return ledger.Hash{byte(seq)} }

// TestUndo: what is undone of a ledger, and whose record a rebuild restores.
func TestUndo(t *testing.T) {
	t.Parallel()
	const old = 2 * budget.ResolvedKept
	reserved, settled := step{kind: budget.KindReserved, held: 9}, step{kind: budget.KindSettled, held: -9, spent: 4}
	released, charged := step{kind: budget.KindReleased, held: -9}, step{kind: budget.KindCharged, spent: 4}
	expired := step{kind: budget.KindExpired, held: -9, withheld: 9}
	lapsed, late := step{kind: budget.KindLapsed, withheld: -9}, step{kind: budget.KindLateSettled, withheld: -9, spent: 4}
	extended := step{kind: budget.KindExtended, held: 2}
	refused := step{kind: budget.KindOverrunRefused}
	aged := func(s step) step { s.age = old; return s }
	settledMore := step{kind: budget.KindSettled, held: -11, spent: 4}
	for name, c := range map[string]struct {
		steps    []step
		corrects map[int]budget.State
		undone   []uint64
		record   budget.Kind // "" for none
	}{
		"a life":                        {[]step{reserved, extended, refused, settledMore}, nil, nil, budget.KindSettled},
		"a late settle":                 {[]step{reserved, expired, late}, nil, nil, budget.KindLateSettled},
		"a lapse":                       {[]step{reserved, expired, lapsed}, nil, nil, budget.KindLapsed},
		"reserved twice":                {[]step{reserved, reserved}, nil, []uint64{1}, budget.KindReserved},
		"three times":                   {[]step{reserved, reserved, reserved}, nil, []uint64{1, 2}, budget.KindReserved},
		"the same, corrected":           {[]step{reserved, reserved}, map[int]budget.State{1: budget.StateHeld}, nil, budget.KindReserved},
		"reserved twice with extend":    {[]step{reserved, extended, reserved}, nil, []uint64{2, 1}, budget.KindReserved},
		"settled twice":                 {[]step{reserved, settled, settled}, nil, []uint64{3}, budget.KindSettled},
		"settled, then released":        {[]step{reserved, settled, released}, nil, []uint64{3}, budget.KindSettled},
		"charged twice":                 {[]step{charged, charged}, nil, []uint64{2}, budget.KindCharged},
		"expired, lost, settled":        {[]step{reserved, expired, settled}, nil, []uint64{2}, budget.KindSettled},
		"lapsed, lost, settled late":    {[]step{reserved, expired, lapsed, late}, nil, []uint64{3}, budget.KindLateSettled},
		"extend lost, settled":          {[]step{reserved, extended, settled}, nil, []uint64{2}, budget.KindSettled},
		"late settle lost, lapsed":      {[]step{reserved, expired, late, lapsed}, nil, []uint64{4}, budget.KindLateSettled},
		"reserved after its settle":     {[]step{reserved, settled, reserved}, nil, []uint64{3}, budget.KindSettled},
		"the same, corrected long ago":  {[]step{aged(reserved), aged(settled), aged(reserved)}, map[int]budget.State{3: budget.StateSettled}, nil, ""},
		"and settled again, not so old": {[]step{aged(reserved), aged(settled), reserved, settled}, map[int]budget.State{3: budget.StateSettled, 4: budget.StateSettled}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1_800_000_000, 0)
			f := &found{records: map[int]map[string]string{0: {}}, branches: newBranches()}
			for i, e := range byHand(now, c.steps, c.corrects) {
				f.remember(ledger.Message{Seq: uint64(i + 1), Hash: hashOf(i + 1)}, &e, now)
			}
			var undone []uint64
			for _, u := range f.branches.due() {
				undone = append(undone, u.Seq)
			}
			if !slices.Equal(undone, c.undone) {
				t.Errorf("undone %v, want %v", undone, c.undone)
			}
			if got := f.records[0]["x"]; got != string(c.record) {
				t.Errorf("record of %q, want %q", got, c.record)
			}
		})
	}
}

// The counters of a corrected ledger are those of a life without the loss.
func TestFoldCountsOnce(t *testing.T) {
	t.Parallel()
	f := newFold(1)
	const execution = "0196b7a0-0000-8000-8000-000000000001"
	move := func(n int64) []budget.Move {
		return []budget.Move{{LimitID: budget.LimitID{Pool: "p", Unit: "u"}, Held: n}}
	}
	for i, e := range []budget.Entry{
		{Kind: budget.KindReserved, Moves: move(9)},
		{Kind: budget.KindReserved, Moves: move(9)},
		{Kind: budget.KindCorrected, Moves: move(-9), Detail: json.RawMessage(`{"standing":"held"}`)},
	} {
		e.Org, e.Execution, e.OutboxID = "o", execution, fmt.Sprintf("%d-0", i+1)
		f.apply(&e)
	}
	l := f.limit(budget.Counter{Org: "o", LimitID: budget.LimitID{Pool: "p", Unit: "u"}})
	if l.outstanding != 1 || l.counters.Held != 9 {
		t.Errorf("outstanding %d, held %d", l.outstanding, l.counters.Held)
	}
}
