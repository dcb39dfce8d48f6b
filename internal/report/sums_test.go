package report_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"tallystick/internal/report"
	"tallystick/pkg/budget"
)

// flows adds up rows in the figures that tie.
func flows(rows []report.Row) map[string]report.Sums {
	out := map[string]report.Sums{}
	for _, row := range rows {
		for _, s := range row.Units {
			o := out[s.Unit]
			o.Unit = s.Unit
			add(&o, s)
			out[s.Unit] = o
		}
	}
	maps.DeleteFunc(out, func(unit string, s report.Sums) bool { return s == report.Sums{Unit: unit} })
	return out
}

func add(o *report.Sums, s report.Sums) {
	o.Entries += s.Entries
	o.Reserved += s.Reserved
	o.Spent += s.Spent
	o.Returned += s.Returned
	o.Held += s.Held
	o.Withheld += s.Withheld
	o.Overruns += s.Overruns
	o.Overrun += s.Overrun
	o.Refusals += s.Refusals
	o.OverrunRefused += s.OverrunRefused
	o.LateSettles += s.LateSettles
	o.LateSettled += s.LateSettled
	o.Expiries += s.Expiries
	o.Expired += s.Expired
	o.Lapses += s.Lapses
	o.Lapsed += s.Lapsed
	o.Corrections += s.Corrections
	o.Corrected += s.Corrected
	o.Refunded += s.Refunded
	o.Disputed += s.Disputed
	o.Adjusted += s.Adjusted
	o.CapChanges += s.CapChanges
}

// ties checks that every dimension but pools adds up to the totals, and the
// days' spending and the limits to the same.
func ties(t interface{ Errorf(string, ...any) }, r *report.Report, fold budget.Fold) {
	totals := flows([]report.Row{{Units: r.Totals}})
	for _, d := range report.Dimensions() {
		if d == report.ByPool {
			continue
		}
		if diff := cmp.Diff(totals, flows(r.Rows[d])); diff != "" {
			t.Errorf("by %s (-totals +rows):\n%s", d, diff)
		}
	}
	for _, u := range r.Series.Org {
		spent, held, withheld := int64(0), u.OpenHeld, u.OpenWithheld
		for _, p := range u.Points {
			spent, held, withheld = spent+p.Spent, p.Held, p.Withheld
		}
		if o := totals[u.Unit]; spent != o.Spent || held != o.Held || withheld != o.Withheld {
			t.Errorf("series of %s ends at %d spent, %d held, %d withheld; totals %+v", u.Unit, spent, held, withheld, o)
		}
	}
	if len(r.Limits) != len(fold) {
		t.Errorf("%d limits, the fold has %d", len(r.Limits), len(fold))
	}
	pools := map[[2]string]budget.Counters{}
	for _, l := range r.Limits {
		c := fold[budget.Counter{Org: "acme", LimitID: budget.LimitID{Pool: l.Pool, Unit: l.Unit, Period: l.Period}}]
		if got := (budget.Counters{Cap: l.Cap, Adj: l.Adj, Held: l.Held, Spent: l.Spent, Withheld: l.Withheld}); got != c {
			t.Errorf("limit %s %s: %+v, the fold has %+v", l.Pool, l.Unit, got, c)
		}
		pools[[2]string{l.Pool, l.Unit}] = c
	}
	for _, row := range r.Rows[report.ByPool] {
		for _, s := range row.Units {
			if c := pools[[2]string{row.Key, s.Unit}]; s.Held != c.Held || s.Withheld != c.Withheld {
				t.Errorf("pool %s: %+v, the fold has %+v", row.Key, s, c)
			}
		}
	}
}

// TestSumsTie: whatever happened and wherever the range is, every dimension
// adds up to the totals, and limits are the fold of the moves.
func TestSumsTie(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := begin.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "from")) * time.Hour)
		to := from.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "hours")) * time.Hour)
		a, err := report.New("acme", span(from, to))
		if err != nil {
			t.Fatal(err)
		}
		fold := budget.Fold{}
		s := newStory(rapid.Uint64().Draw(t, "seed"), func(e *budget.Entry, at report.AsOf) {
			a.Add(e, at)
			if e.At.Before(to) {
				fold.Apply(*e)
			}
		})
		s.roomFor = rapid.IntRange(1, 60).Draw(t, "room")
		s.found("crawler")
		s.goOn(uint64(rapid.IntRange(0, 300).Draw(t, "entries")), 20*time.Minute)
		ties(t, a.Report(), fold)
	})
}

// TestAnyEntriesTie: entries no script would write tie as well.
func TestAnyEntriesTie(t *testing.T) {
	t.Parallel()
	kinds := []budget.Kind{
		budget.KindReserved, budget.KindSettled, budget.KindReleased, budget.KindExpired, budget.KindLapsed, budget.KindLateSettled,
		budget.KindCharged, budget.KindExtended, budget.KindPolicyChanged, "corrected", "refunded", "disputed", "reset", "unknown",
	}
	figure := rapid.Int64Range(-1000, 1000)
	move := rapid.Custom(func(t *rapid.T) budget.Move {
		return budget.Move{
			LimitID: budget.LimitID{Pool: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "pool"), Unit: rapid.SampledFrom([]string{tokens, usd}).Draw(t, "unit"), Period: budget.PeriodNone},
			Held:    figure.Draw(t, "held"), Spent: figure.Draw(t, "spent"), Withheld: figure.Draw(t, "withheld"), Cap: figure.Draw(t, "cap"), Adj: figure.Draw(t, "adj"),
		}
	})
	entry := rapid.Custom(func(t *rapid.T) budget.Entry {
		moves := rapid.SliceOfNDistinct(move, 0, 5, func(m budget.Move) budget.LimitID { return m.LimitID }).Draw(t, "moves")
		return budget.Entry{
			Org: "acme", Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Moves: moves, Agent: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "agent"),
			Execution: uuid.UUID{0: byte(rapid.IntRange(0, 5).Draw(t, "execution"))}.String(), OnBehalfOf: rapid.SampledFrom([]string{"", "p"}).Draw(t, "principal"),
			At: begin.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "hour")) * time.Hour),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, err := report.New("acme", span(begin.Add(12*time.Hour), begin.Add(48*time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		fold := budget.Fold{}
		for i, e := range rapid.SliceOfN(entry, 0, 40).Draw(t, "entries") {
			a.Add(&e, report.AsOf{Seq: uint64(i + 1), Hash: "x"}) //nolint:gosec // small
			if e.At.Before(begin.Add(48 * time.Hour)) {
				fold.Apply(e)
			}
		}
		ties(t, a.Report(), fold)
	})
}

// a tree of two levels of which only the upper one has a late window.
func twoLevels(leaf, top budget.Move) []budget.Move {
	leaf.LimitID = budget.LimitID{Pool: "leaf", Unit: tokens, Period: budget.PeriodNone}
	top.LimitID = budget.LimitID{Pool: "top", Unit: tokens, Period: budget.PeriodNone}
	return []budget.Move{leaf, top}
}

// TestWhatCounts tells what each kind adds to which figure.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	both := func(m budget.Move) []budget.Move { return twoLevels(m, m) }
	held := budget.Entry{Kind: budget.KindReserved, Moves: both(budget.Move{Held: 100})}
	for name, c := range map[string]struct {
		entries []budget.Entry
		want    report.Sums
	}{
		"settled below": {
			[]budget.Entry{held, {Kind: budget.KindSettled, Moves: both(budget.Move{Held: -100, Spent: 70})}},
			report.Sums{Entries: 2, Reserved: 100, Spent: 70, Returned: 30},
		},
		"settled above": {
			[]budget.Entry{held, {Kind: budget.KindSettled, Moves: both(budget.Move{Held: -100, Spent: 105})}},
			report.Sums{Entries: 2, Reserved: 100, Spent: 105, Overruns: 1, Overrun: 5},
		},
		"extended, released": {
			[]budget.Entry{held, {Kind: budget.KindExtended, Moves: both(budget.Move{Held: 50})}, {Kind: budget.KindReleased, Moves: both(budget.Move{Held: -150})}},
			report.Sums{Entries: 3, Reserved: 150, Returned: 150},
		},
		"refused": {
			[]budget.Entry{held, {Kind: budget.KindOverrunRefused, Detail: []byte(`{"booked":{"tokens":180},"authorised":{"tokens":100}}`)}},
			report.Sums{Entries: 2, Reserved: 100, Held: 100, Refusals: 1, OverrunRefused: 80},
		},
		"withheld on one level only, lapsed, settled late": {
			[]budget.Entry{
				held,
				{Kind: budget.KindExpired, Moves: twoLevels(budget.Move{Held: -100}, budget.Move{Held: -100, Withheld: 100})},
				{Kind: budget.KindLapsed, Moves: twoLevels(budget.Move{Held: 0}, budget.Move{Withheld: -100})},
				{Kind: budget.KindLateSettled, Moves: both(budget.Move{Spent: 90})},
			},
			report.Sums{Entries: 4, Reserved: 100, Spent: 90, Returned: 100, Expiries: 1, Expired: 100, Lapses: 1, Lapsed: 100, LateSettles: 1, LateSettled: 90},
		},
		"settled late in time": {
			[]budget.Entry{
				held,
				{Kind: budget.KindExpired, Moves: both(budget.Move{Held: -100, Withheld: 100})},
				{Kind: budget.KindLateSettled, Moves: both(budget.Move{Withheld: -100, Spent: 120})},
			},
			report.Sums{Entries: 3, Reserved: 100, Spent: 120, Overruns: 1, Overrun: 20, Expiries: 1, Expired: 100, LateSettles: 1, LateSettled: 120},
		},
		"corrections": {
			[]budget.Entry{
				{Kind: budget.KindCharged, Moves: both(budget.Move{Spent: 100})},
				{Kind: "corrected", Moves: both(budget.Move{Spent: -10})},
				{Kind: "refunded", Moves: both(budget.Move{Spent: -20})},
				{Kind: "disputed", Moves: both(budget.Move{Spent: -5})},
				{Kind: "disputed", Detail: []byte(`{"amounts":{"tokens":40}}`)},
				{Kind: "corrected", Moves: twoLevels(budget.Move{Spent: 7}, budget.Move{Spent: -7})},
			},
			report.Sums{Entries: 6, Spent: 65, Corrections: 5, Corrected: -10, Refunded: -20, Disputed: -45},
		},
		"caps": {
			[]budget.Entry{{Kind: budget.KindPolicyChanged, Moves: both(budget.Move{Cap: 500})[:1]}, {Kind: budget.KindPolicyChanged, Moves: both(budget.Move{Cap: -100})[:1]}},
			report.Sums{Entries: 2, CapChanges: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aggregator(t, span(begin, begin.Add(time.Hour)))
			for i, e := range c.entries {
				e.Org, e.At, e.Execution = "acme", begin, uuid.UUID{1}.String()
				a.Add(&e, report.AsOf{Seq: uint64(i + 1)}) //nolint:gosec // small
			}
			c.want.Unit = tokens
			if diff := cmp.Diff([]report.Sums{c.want}, a.Report().Totals); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhoseItIs: what a settle does not say its reservation did, and a late
// settle of one that is forgotten counts under what it says itself.
func TestWhoseItIs(t *testing.T) {
	t.Parallel()
	a := aggregator(t, span(begin, begin.Add(time.Hour)))
	both := func(m budget.Move) []budget.Move { return twoLevels(m, m) }
	execution := uuid.UUID{1}.String()
	for i, e := range []budget.Entry{
		{Kind: budget.KindReserved, Agent: "holder", OnBehalfOf: "team", Detail: []byte(`{"target":"openai"}`), Moves: both(budget.Move{Held: 9})},
		{Kind: budget.KindOverrunRefused, Agent: "holder", Detail: []byte(`{"actual":{"tokens":19},"authorised":{"tokens":9}}`)},
		{Kind: budget.KindSettled, Agent: "settler", Moves: both(budget.Move{Held: -9, Spent: 8})},
		{Kind: budget.KindLateSettled, Agent: "holder", OnBehalfOf: "team", Moves: both(budget.Move{Spent: 5})},
	} {
		e.Org, e.At, e.Execution = "acme", begin, execution
		a.Add(&e, report.AsOf{Seq: uint64(i + 1)}) //nolint:gosec // small
	}
	if a.Outstanding() != 0 {
		t.Errorf("%d reservations are remembered", a.Outstanding())
	}
	r := a.Report()
	for _, c := range []struct {
		dimension, key string
		spent, refused int64
	}{
		{report.ByAgent, "holder", 13, 10},
		{report.ByPrincipal, "team", 13, 10},
		{report.ByTarget, "openai", 8, 10},
		{report.ByTarget, "", 5, 0},
		{report.ByPool, "leaf", 13, 10},
		{report.ByPool, "top", 13, 10},
		{report.ByDay, "2026-10-01", 13, 10},
	} {
		row, ok := r.Find(c.dimension, c.key)
		if !ok || len(row.Units) != 1 || row.Units[0].Spent != c.spent || row.Units[0].OverrunRefused != c.refused {
			t.Errorf("%s %q: %+v", c.dimension, c.key, row)
		}
	}
	if _, ok := r.Find(report.ByAgent, "settler"); ok {
		t.Error("the settler spent nothing of its own")
	}
	if len(r.Series.Limits) != 1 || r.Series.Limits[0].Pool != "top" {
		t.Errorf("the topmost limits are %+v", r.Series.Limits)
	}
}
