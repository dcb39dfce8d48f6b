package reconciler

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"tallystick/pkg/budget"
)

// text is everything a fold knows, in an order of its own.
func (f *fold) text() string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for id, l := range f.limits {
		say("limit %v %+v %d %+v", id, l.counters, l.outstanding, l.rules)
	}
	for id, h := range f.live {
		say("live %s %s %v %v", id, h.path.org, h.path.limits[0].id, h.amounts())
	}
	for key, p := range f.paths {
		say("path %q %d %v", key, len(p.limits), p.units)
	}
	for id, r := range f.refused {
		say("refused %s %+v", id, r)
	}
	for org, t := range f.late {
		say("late %s %+v", org, *t)
	}
	for who, limits := range f.principals {
		say("principal %v %v", who, limits)
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d %s %q %d\n", f.after, f.hash, f.positions, f.entries) + strings.Join(lines, "\n")
}

// kindsFolded are the kinds that a fold looks at.
func kindsFolded() []budget.Kind {
	return []budget.Kind{
		budget.KindReserved, budget.KindReserved, budget.KindExtended, budget.KindSettled, budget.KindReleased, budget.KindExpired,
		budget.KindLapsed, budget.KindLateSettled, budget.KindOverrunRefused, budget.KindCharged, budget.KindPolicyChanged, budget.KindAgentRegistered,
	}
}

// drawEntry is an entry as a script might write it.
func drawEntry(t *rapid.T, i int) budget.Entry {
	amount := func(name string) int64 { return rapid.Int64Range(-1<<40, 1<<40).Draw(t, name) }
	e := budget.Entry{
		Partition: rapid.IntRange(0, 3).Draw(t, "partition"), OutboxID: fmt.Sprintf("%d-0", i+1),
		Org: rapid.SampledFrom([]string{"acme", "büro"}).Draw(t, "org"), Kind: rapid.SampledFrom(kindsFolded()).Draw(t, "kind"),
		Execution:  uuid.NewSHA1(uuid.Nil, []byte{byte(rapid.IntRange(0, 7).Draw(t, "execution"))}).String(),
		OnBehalfOf: rapid.SampledFrom([]string{"", "", "team", `"7"`}).Draw(t, "principal"),
	}
	for _, pool := range []string{"leaf", "root"}[rapid.IntRange(0, 1).Draw(t, "depth"):] {
		for _, unit := range []string{"tokens", "usd_microcents"}[rapid.IntRange(0, 1).Draw(t, "units"):] {
			id := budget.LimitID{Pool: pool, Unit: unit, Period: rapid.SampledFrom([]string{"none", "day:2026-12-07"}).Draw(t, "period")}
			e.Moves = append(e.Moves, budget.Move{LimitID: id, Held: amount("held"), Spent: amount("spent"), Withheld: amount("withheld"), Cap: amount("cap")})
		}
	}
	n := amount("detail")
	switch e.Kind {
	case budget.KindPolicyChanged:
		e.Detail = fmt.Appendf(nil, `{"limits":[{"pool":"leaf","unit":"tokens","period":"none","cap":%d,"epsilon":3,"on_overrun":"reject","late_window_ms":7,"state":"open","rev":%d,"opens":1,"closes":2}]}`, n, i)
	case budget.KindOverrunRefused:
		e.Detail = fmt.Appendf(nil, `{"booked":{"tokens":%d},"authorised":{"tokens":5}}`, n)
	case budget.KindExpired:
		e.Detail = fmt.Appendf(nil, `{"charged":{"tokens":%d}}`, n)
	}
	return e
}

func (f *fold) applyAt(i int, e *budget.Entry) {
	f.after, f.hash = uint64(i+1), sha256.Sum256([]byte{byte(i)}) //nolint:gosec // a test's few entries
	f.apply(e)
}

// TestFoldGoesOn: a fold that was kept after any entry and then goes on is the
// fold that never stopped.
func TestFoldGoesOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "entries")
		stop := rapid.IntRange(0, n).Draw(t, "kept after")
		whole, part := newFold(4), newFold(4)
		for i := range n {
			e := drawEntry(t, i)
			whole.applyAt(i, &e)
			if i == stop {
				part = again(t, part)
			}
			part.applyAt(i, &e)
		}
		if stop == n {
			part = again(t, part)
		}
		if a, b := whole.text(), part.text(); a != b {
			t.Fatalf("kept after %d of %d:\n%s\nwhole:\n%s", stop, n, b, a)
		}
	})
}

func again(t *rapid.T, f *fold) *fold {
	packed, err := unseal(seal(f.pack()))
	if err != nil {
		t.Fatal(err)
	}
	out, err := unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sample is a fold with something of everything.
func sample() *fold {
	f := newFold(2)
	id := func(n byte) string { return uuid.NewSHA1(uuid.Nil, []byte{n}).String() }
	moves := func(held, spent, withheld int64) []budget.Move {
		return []budget.Move{
			{LimitID: budget.LimitID{Pool: "leaf", Unit: "tokens", Period: "none"}, Held: held, Spent: spent, Withheld: withheld},
			{LimitID: budget.LimitID{Pool: "leaf", Unit: "calls", Period: "none"}, Held: held / 10, Spent: spent / 10, Withheld: withheld / 10},
			{LimitID: budget.LimitID{Pool: "root", Unit: "tokens", Period: "none"}, Held: held, Spent: spent, Withheld: withheld},
		}
	}
	for i, e := range []budget.Entry{
		{
			Kind:   budget.KindPolicyChanged,
			Moves:  []budget.Move{{LimitID: budget.LimitID{Pool: "leaf", Unit: "tokens", Period: "none"}, Cap: 1000}},
			Detail: json.RawMessage(`{"limits":[{"pool":"leaf","unit":"tokens","period":"none","cap":1000,"epsilon":3,"on_overrun":"reject","late_window_ms":7,"state":"open","rev":1,"opens":1,"closes":2}]}`),
		},
		{Kind: budget.KindReserved, Execution: id(1), Moves: moves(100, 0, 0)},
		{Kind: budget.KindReserved, Execution: id(2), OnBehalfOf: "team", Moves: moves(50, 0, 0)},
		{Kind: budget.KindExtended, Execution: id(2), OnBehalfOf: "team", Moves: moves(20, 0, 0)},
		{Kind: budget.KindOverrunRefused, Execution: id(1), Detail: json.RawMessage(`{"actual":{"tokens":130},"authorised":{"tokens":100}}`)},
		{Kind: budget.KindReserved, Execution: id(3), Moves: moves(10, 0, 0)},
		{Kind: budget.KindExpired, Execution: id(3), Moves: moves(-10, 0, 10), Detail: json.RawMessage(`{}`)},
		{Kind: budget.KindLapsed, Execution: id(3), Moves: moves(0, 0, -10)},
		{Kind: budget.KindLateSettled, Execution: id(3), Moves: moves(0, 10, 0)},
		{Kind: budget.KindReserved, Execution: id(4), Moves: moves(10, 0, 0)},
		{Kind: budget.KindSettled, Execution: id(4), Moves: moves(-10, 10, 0)},
		{Kind: budget.KindCharged, Execution: id(5), Moves: moves(0, 10, 0)},
	} {
		e.Org, e.Partition, e.OutboxID = "acme", i%2, fmt.Sprintf("%d-0", i+1)
		f.applyAt(i, &e)
	}
	return f
}

// TestFoldVersion: what this version makes of some entries. A failure means
// that folds which others have kept are read differently now: raise
// foldVersion, then put the new sum here.
func TestFoldVersion(t *testing.T) {
	t.Parallel()
	const version, want = 1, "21cb058e44a9c20f6ced6d5258ee8fc3df54bbe4ca0354f53c979f9d40c72294"
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(sample().text()))); foldVersion != version || sum != want {
		t.Errorf("version %d: %s, want version %d: %s\n%s", foldVersion, sum, version, want, sample().text())
	}
}

// FuzzKeptFold: a file is refused or gives the fold that was kept.
func FuzzKeptFold(f *testing.F) {
	file := seal(sample().pack())
	want := sample().text()
	f.Add(0, byte(0), len(file))
	f.Add(len(foldMagic), byte(3), len(file))
	f.Add(len(file)/2, byte(1), len(file))
	f.Add(0, byte(0), len(file)-1)
	f.Fuzz(func(t *testing.T, at int, flip byte, size int) {
		broken := slices.Clone(file)
		broken[uint(at)%uint(len(broken))] ^= flip
		broken = broken[:uint(size)%uint(len(broken)+1)]
		packed, err := unseal(broken)
		if err != nil {
			return
		}
		got, err := unpack(packed)
		if err != nil {
			t.Fatalf("passed its sum and cannot be read: %v", err)
		}
		if got.text() != want {
			t.Fatal("another fold")
		}
	})
}

// FuzzUnpack: no bytes do harm, and what they give can be packed again.
func FuzzUnpack(f *testing.F) {
	f.Add(sample().pack())
	f.Add(newFold(16).pack())
	f.Fuzz(func(t *testing.T, packed []byte) {
		got, err := unpack(packed)
		if err != nil {
			return
		}
		same, err := unpack(got.pack())
		if err != nil || same.text() != got.text() {
			t.Fatalf("%v:\n%s", err, got.text())
		}
	})
}

// BenchmarkPack and BenchmarkUnpack: a fold with many live reservations.
func BenchmarkPack(b *testing.B) {
	f := large()
	for b.Loop() {
		f.pack()
	}
}

func BenchmarkUnpack(b *testing.B) {
	file := seal(large().pack())
	b.ReportMetric(float64(len(file)), "bytes")
	for b.Loop() {
		packed, err := unseal(file)
		if err == nil {
			_, err = unpack(packed)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func large() *fold {
	f := newFold(16)
	moves := []budget.Move{{LimitID: budget.LimitID{Pool: "root", Unit: "tokens", Period: "none"}, Held: 1000}}
	for i := range 1_000_000 {
		e := budget.Entry{Kind: budget.KindReserved, Org: "acme", OutboxID: fmt.Sprintf("%d-0", i+1), Execution: uuid.NewString(), Moves: moves}
		f.apply(&e)
	}
	return f
}
