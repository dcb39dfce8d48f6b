package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/ledger"
	"tallystick/internal/testkit"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const partitions = 4

// open starts a server with an empty ledger.
func open(t testing.TB) (*ledger.Ledger, jetstream.JetStream) {
	t.Helper()
	js := testkit.NATS(t).JetStream(t)
	_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: events.StreamLedger, Subjects: []string{events.LedgerOf("*")},
		Storage: jetstream.FileStorage, DenyDelete: true, DenyPurge: true,
		AllowAtomicPublish: true, Discard: jetstream.DiscardNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	return l, js
}

func entry(partition int, id, org string, held int64) budget.Entry {
	return budget.Entry{
		Partition: partition, OutboxID: id, Org: org, At: time.UnixMicro(1764550000123456).UTC(), Kind: budget.KindReserved,
		Execution: "0196b7a0-0000-8000-8000-00000000000" + id[len(id)-1:], Agent: "agent", Key: "k-" + id,
		Labels: map[string]string{"a": "ü\n"}, Trace: "00-1-2-01",
		Moves:  []budget.Move{{LimitID: budget.LimitID{Pool: "p", Unit: "tokens", Period: "none"}, Held: held}},
		Detail: []byte(`{"fingerprint":"ab"}`), Record: "1 held\nx",
	}
}

func resume(t testing.TB, l *ledger.Ledger) *ledger.Appender {
	t.Helper()
	a, err := l.Resume(t.Context(), partitions)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func appendTo(t testing.TB, a *ledger.Appender, entries ...budget.Entry) {
	t.Helper()
	if err := a.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

func messages(t testing.TB, l *ledger.Ledger, org string) (out []ledger.Message) {
	t.Helper()
	err := l.Walk(t.Context(), org, 0, func(m ledger.Message) error {
		out = append(out, m)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestChainPerOrgAndPositions(t *testing.T) {
	t.Parallel()
	l, _ := open(t)
	a := resume(t, l)
	appendTo(t, a, entry(0, "1-1", "acme", 5), entry(1, "1-0", "zeta", 6), entry(0, "1-2", "acme", 7))
	appendTo(t, a, entry(1, "9-0", "zeta", 8))
	a = resume(t, l) // a new process reads the heads from the stream
	appendTo(t, a, entry(0, "2-0", "acme", 9))

	acme := messages(t, l, "acme")
	if len(acme) != 3 || acme[2].Seq != 3 || acme[0].Prev != (ledger.Hash{}) || acme[2].Prev != acme[1].Hash {
		t.Fatalf("chain of acme: %+v", acme)
	}
	if got := acme[2].Positions; got != "0=2-0,1=9-0" {
		t.Errorf("positions %q", got)
	}
	got, err := ledger.Decode(acme[2].Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entry(0, "2-0", "acme", 9), got); diff != "" {
		t.Errorf("entry changed on its way: %s", diff)
	}
	for _, org := range []string{"acme", "zeta"} {
		v, err := l.Verify(t.Context(), org)
		if err != nil || v.Verdict != ledger.VerdictOK || v.Entries == 0 {
			t.Errorf("verify %s: %+v, %v", org, v, err)
		}
	}
}

func TestAppendRefusesWhatIsOnTheLedger(t *testing.T) {
	t.Parallel()
	l, _ := open(t)
	a := resume(t, l)
	appendTo(t, a, entry(0, "5-0", "acme", 1))
	if err := a.Append(t.Context(), []budget.Entry{entry(0, "5-0", "acme", 1)}); err == nil {
		t.Error("an entry was written twice")
	}
	if n := len(messages(t, l, "")); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

func TestTwoAppendersCannotFork(t *testing.T) {
	t.Parallel()
	l, _ := open(t)
	a, b := resume(t, l), resume(t, l)
	appendTo(t, a, entry(0, "1-0", "acme", 1))
	err := b.Append(t.Context(), []budget.Entry{entry(0, "1-0", "acme", 1)})
	if !errors.Is(err, ledger.ErrUnsure) {
		t.Fatalf("the second append: %v", err)
	}
	foreign, err := b.Resync(t.Context())
	if err != nil || !foreign || b.Position(0) != "1-0" {
		t.Fatalf("resync: %v, %v, position %q", foreign, err, b.Position(0))
	}
	appendTo(t, b, entry(0, "2-0", "acme", 1))
	if v, err := l.Verify(t.Context(), "acme"); err != nil || v.Verdict != ledger.VerdictOK || v.Entries != 2 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// TestUnknownOutcome: the answer to a batch is not heard, and it is either
// stored or not.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	l, _ := open(t)
	a := resume(t, l)
	appendTo(t, a, entry(0, "1-0", "acme", 1))
	second := entry(0, "2-0", "acme", 1)
	unheard, cancel := context.WithCancel(t.Context())
	cancel()
	for _, stored := range []bool{false, true} {
		if err := a.Append(unheard, []budget.Entry{second}); !errors.Is(err, ledger.ErrUnsure) {
			t.Fatalf("append: %v", err)
		}
		if err := a.Append(t.Context(), []budget.Entry{second}); !errors.Is(err, ledger.ErrUnsure) {
			t.Fatalf("append before a resync: %v", err)
		}
		if stored {
			appendTo(t, resume(t, l), second) // byte for byte the same batch
		}
		foreign, err := a.Resync(t.Context())
		if err != nil || foreign {
			t.Fatalf("resync: %v, %v", foreign, err)
		}
		if landed := a.Position(0) == "2-0"; landed != stored {
			t.Errorf("stored %v, position %q", stored, a.Position(0))
		}
	}
	appendTo(t, a, entry(0, "3-0", "acme", 1))
	if v, err := l.Verify(t.Context(), "acme"); err != nil || v.Entries != 3 || v.Verdict != ledger.VerdictOK {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	l, _ := open(t)
	a := resume(t, l)
	appendTo(t, a, entry(0, "1-0", "acme", 1))
	head := a.Head()
	if err := l.Covers(t.Context(), head); err != nil {
		t.Error(err)
	}
	if err := l.Covers(t.Context(), ledger.Head{StreamSeq: head.StreamSeq + 1, Hash: head.Hash}); !errors.Is(err, ledger.ErrBehind) {
		t.Errorf("tail behind the anchor: %v", err)
	}
	if err := l.Covers(t.Context(), ledger.Head{StreamSeq: head.StreamSeq}); !errors.Is(err, ledger.ErrForked) {
		t.Errorf("another hash: %v", err)
	}
}

func export(t testing.TB, l *ledger.Ledger, org string) []string {
	t.Helper()
	var b bytes.Buffer
	for _, m := range messages(t, l, org) {
		if err := ledger.Export(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	return strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	l, _ := open(t)
	a := resume(t, l)
	for i := range 5 {
		appendTo(t, a, entry(0, fmt.Sprintf("%d-0", i+1), "acme", int64(i+1)), entry(1, fmt.Sprintf("%d-0", i+1), "zeta", 1))
	}
	acme, zeta := export(t, l, "acme"), export(t, l, "zeta")
	changed := strings.Replace(acme[2], `held\":3`, `held\":4`, 1)
	if changed == acme[2] {
		t.Fatal("nothing changed")
	}
	for name, tt := range map[string]struct {
		lines []string
		want  ledger.Verdict
		bad   uint64
	}{
		"whole":             {acme, ledger.VerdictOK, 0},
		"amount changed":    {[]string{acme[0], acme[1], changed, acme[3]}, ledger.VerdictAltered, 3},
		"entry twice":       {[]string{acme[0], acme[1], acme[1]}, ledger.VerdictFork, 2},
		"entry cut out":     {[]string{acme[0], acme[2]}, ledger.VerdictMissing, 3},
		"beginning cut":     {acme[1:], ledger.VerdictMissing, 2},
		"another org's":     {[]string{acme[0], zeta[1], acme[2]}, ledger.VerdictForeign, 2},
		"inserted from":     {[]string{acme[0], acme[1], zeta[0]}, ledger.VerdictForeign, 1},
		"hash made shorter": {[]string{strings.Replace(acme[0], `"hash":"`, `"hash":"a`, 1)}, ledger.VerdictAltered, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := ledger.VerifyExport(strings.NewReader(strings.Join(tt.lines, "\n")), ledger.NewVerifier(""))
			if err != nil {
				t.Fatal(err)
			}
			if v.Verdict != tt.want || tt.bad != 0 && (v.FirstBad == nil || *v.FirstBad != tt.bad) {
				t.Errorf("got %+v, want %s at %d", v, tt.want, tt.bad)
			}
		})
	}
}

func TestReaderGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	l, _ := open(t)
	a := resume(t, l)
	r := l.Reader("", 0)
	defer r.Close(t.Context())
	if page, err := r.Next(t.Context(), 10, 0); err != nil || len(page) != 0 {
		t.Fatalf("empty ledger: %d, %v", len(page), err)
	}
	for i := range 3 {
		appendTo(t, a, entry(0, fmt.Sprintf("%d-0", i+1), "acme", 1), entry(1, fmt.Sprintf("%d-0", i+1), "zeta", 1))
		page, err := r.Next(t.Context(), 10, 0)
		if err != nil || len(page) != 2 || r.After() != uint64(2*i+2) {
			t.Fatalf("page %d: %d entries, after %d, %v", i, len(page), r.After(), err)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	l, js := open(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: events.StreamEvents, Subjects: []string{events.EventsOf("*")}})
	if err != nil {
		t.Fatal(err)
	}
	a := resume(t, l)
	expired := entry(0, "2-0", "acme", 1)
	expired.Kind = budget.KindExpired
	appendTo(t, a, entry(0, "1-0", "acme", 1), expired)
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := make(chan budget.Entry, 10), make(chan error, 1)
	failed := false
	go func() {
		done <- l.Follow(ctx, "expiries", budget.KindExpired, func(_ context.Context, e budget.Entry) error {
			if !failed {
				failed = true
				return errors.New("not now")
			}
			seen <- e
			return nil
		})
	}()
	if e := <-seen; e.OutboxID != "2-0" {
		t.Errorf("got %s", e.OutboxID)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
