package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
)

// typical is an entry as a reserve writes it.
func typical() budget.Entry {
	e := entry(0, "1764550000123-7", "acme", 250000)
	e.Detail = []byte(`{"amounts":{"tokens":250000},"created_at":"2026-12-01T00:00:00.123Z","expires_at":"2026-12-01T00:10:00.123Z","fingerprint":"0123456789abcdef0123456789abcdef"}`)
	e.Record = "1 held 1764550000123 1764550600123 0\n0123456789abcdef0123456789abcdef\nacme\t0196b7a0-0000-7000-8000-000000000001\t\t\ntokens=250000\nresearch\ttokens\tnone\n\n{\"key\":\"k-1\",\"ttl\":600000}\n\n"
	return e
}

func BenchmarkEncode(b *testing.B) {
	e := typical()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = ledger.Encode(buf[:0], &e)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecode(b *testing.B) {
	e := typical()
	body := ledger.Encode(nil, &e)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ledger.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(body)))
}

func BenchmarkMoves(b *testing.B) {
	e := typical()
	body := ledger.Encode(nil, &e)
	names := ledger.Names{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := names.Moves(body); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(body)))
}

func TestMovesAgreesWithDecode(t *testing.T) {
	t.Parallel()
	odd := typical()
	odd.Moves = []budget.Move{
		{LimitID: budget.LimitID{Pool: "a \"quoted\" \\ pool", Unit: "tokens", Period: "none"}, Held: -5, Spent: 7, Missing: true},
		{LimitID: budget.LimitID{Pool: "ü", Unit: "calls", Period: "none"}, Withheld: 1, Cap: 1<<53 - 1, Adj: -1},
	}
	odd.Labels = map[string]string{`{"moves":[`: `]}"\`}
	bare := budget.Entry{Partition: 3, OutboxID: "1-2", Org: "x", Kind: budget.KindAgentRevoked}
	names := ledger.Names{}
	for _, e := range []budget.Entry{typical(), odd, bare} {
		body := ledger.Encode(nil, &e)
		want, err := ledger.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		want = budget.Entry{
			Partition: want.Partition, OutboxID: want.OutboxID, Org: want.Org, Kind: want.Kind,
			Execution: want.Execution, Moves: want.Moves,
		}
		got, err := names.Moves(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for cut := range body {
			_, _ = names.Moves(body[:cut]) // must not panic
		}
	}
}
