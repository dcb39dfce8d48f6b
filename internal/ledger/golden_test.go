package ledger_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

const (
	golden       = "testdata/golden/v1.jsonl"
	goldenTotals = "testdata/golden/v1.counters.json"
)

// folded is what an org's entries add up to, by limit and counter.
func folded(all []budget.Entry) map[string]budget.Counters {
	out := map[string]budget.Counters{}
	for _, e := range all {
		for _, m := range e.Moves {
			id := m.Pool + " " + m.Unit + " " + m.Period
			out[id] = out[id].Plus(m)
		}
	}
	return out
}

// writeGolden makes one entry of every kind through a real appender.
func writeGolden(t *testing.T) {
	t.Helper()
	l, _ := open(t)
	a := resume(t, l)
	for i, info := range events.LedgerKinds() {
		e := entry(0, fmt.Sprintf("%d-0", i+1), "acme", int64(100+i))
		e.Kind, e.OnBehalfOf = budget.Kind(info.Kind), "cust-42"
		m := &e.Moves[0]
		m.Spent, m.Withheld, m.Cap, m.Adj, m.Missing = int64(-i), int64(2*i), 1000, int64(i-5), i%7 == 0
		appendTo(t, a, e)
	}
	var b bytes.Buffer
	var entries []budget.Entry
	for _, m := range messages(t, l, "acme") {
		e, err := ledger.Decode(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
		if err := ledger.Export(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	totals, err := json.MarshalIndent(folded(entries), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{golden: b.Bytes(), goldenTotals: append(totals, '\n')} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // test data
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // test data
			t.Fatal(err)
		}
	}
}

// TestGolden: entries of version 1, of every kind there was when they were
// written, are read by every later version: they verify, add up to what they
// did, and are written again byte by byte.
func TestGolden(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	v := ledger.NewVerifier("acme")
	var entries []budget.Entry
	kinds := map[budget.Kind]bool{}
	err = ledger.Import(bytes.NewReader(text), func(m ledger.Message) error {
		v.AddRead(m, "acme", "") // the kind: a gap is one of those written
		e, err := ledger.Decode(m.Body)
		if err != nil {
			return err
		}
		if again := ledger.Encode(nil, &e); !bytes.Equal(again, m.Body) {
			t.Errorf("entry %d is written otherwise: %s\n%s", m.Seq, m.Body, again)
		}
		entries, kinds[e.Kind] = append(entries, e), true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Result(); r.Verdict != ledger.VerdictOK || r.Entries < 20 || len(kinds) != len(entries) {
		t.Errorf("verify: %+v, %d kinds", r, len(kinds))
	}
	b, err := os.ReadFile(goldenTotals)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]budget.Counters
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, folded(entries)); diff != "" {
		t.Error(diff)
	}
}

// stream gives the lines of n entries without ever holding them.
type stream struct {
	n, seq int
	prev   ledger.Hash
	rest   []byte
	body   []byte
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.seq == s.n {
			return 0, io.EOF
		}
		s.seq++
		m := ledger.Message{StreamSeq: uint64(s.seq), Seq: uint64(s.seq), Prev: s.prev, Subject: "tally.v1.ledger.acme.reserved", Body: s.body} //nolint:gosec // small
		m.Hash = events.EntryHash(m.Prev, m.Seq, m.Body)
		s.prev = m.Hash
		s.rest, _ = m.MarshalJSON()
		s.rest = append(s.rest, '\n')
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// TestVerifyInConstantMemory: a million entries, of which none is kept.
func TestVerifyInConstantMemory(t *testing.T) {
	e := entry(0, "1-0", "acme", 1)
	e.Labels, e.Detail, e.Record = nil, nil, ""
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := live(), uint64(0)
	const million = 1_000_000
	v := ledger.NewVerifier("acme")
	n := 0
	err := ledger.Import(&stream{n: million, body: ledger.Encode(nil, &e)}, func(m ledger.Message) error {
		v.Add(m)
		if n++; n%(million/4) == 0 {
			most = max(most, live())
		}
		return nil
	})
	if r := v.Result(); err != nil || r.Verdict != ledger.VerdictOK || r.Entries != million {
		t.Errorf("%+v, %v", r, err)
	}
	if most > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, most)
	}
}

func BenchmarkVerify(b *testing.B) {
	e := typical()
	body := ledger.Encode(nil, &e)
	b.Run("entry", func(b *testing.B) {
		v := ledger.NewVerifier("acme")
		var prev ledger.Hash
		const n = 1000
		var all []ledger.Message
		for i := uint64(1); i <= n; i++ {
			m := ledger.Message{Seq: i, Prev: prev, Subject: "tally.v1.ledger.acme.reserved", Body: body, Hash: events.EntryHash(prev, i, body)}
			prev = m.Hash
			all = append(all, m)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%n == 0 {
				v = ledger.NewVerifier("acme")
			}
			v.Add(all[i%n])
		}
		if v.Result().Verdict != ledger.VerdictOK {
			b.Fatal(v.Result())
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	})
	b.Run("export", func(b *testing.B) {
		const n = 1000
		var text bytes.Buffer
		_, _ = text.ReadFrom(&stream{n: n, body: body})
		b.ReportAllocs()
		for b.Loop() {
			r, err := ledger.VerifyExport(bytes.NewReader(text.Bytes()), ledger.NewVerifier("acme"))
			if err != nil || r.Entries != n || r.Verdict != ledger.VerdictOK {
				b.Fatal(r, err)
			}
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	})
}
