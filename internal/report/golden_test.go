package report_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"tallystick/internal/ledger"
	"tallystick/internal/report"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

var update = flag.Bool("update", false, "write the golden files anew")

const golden = "testdata"

// hostile names are what an agent may call itself.
var hostileNames = []string{"crawler", "</text><script>alert(1)</script>", `=cmd|' /C calc'!A0`, `"><img src=x onerror=alert(1)>`, "-1+1", "\u202etxt.exe"}

// goldenEntries are the fixed ledger under testdata.
func goldenEntries(t testing.TB) *report.Report {
	t.Helper()
	a := aggregator(t, span(begin.AddDate(0, 0, 2), begin.AddDate(0, 0, 9)))
	f, err := os.Open(filepath.Join(golden, "entries.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for n := uint64(1); in.Scan(); n++ {
		e, err := ledger.Decode(in.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		a.Add(&e, report.AsOf{Seq: n, StreamSeq: n + 7, Hash: ledger.Hash{byte(n)}.String()})
	}
	a.DriftSince(begin.AddDate(0, 0, 3))
	a.AddDrift(begin.AddDate(0, 0, 5), events.Drift{Drift: []events.DriftRow{{Unit: usd, Drift: -5}, {Unit: usd, Drift: 3}}})
	a.AddDrift(begin.AddDate(0, 0, 5), events.Drift{Drift: []events.DriftRow{{Unit: tokens, Drift: 2}}})
	return a.Report()
}

// writeEntries makes the fixed ledger.
func writeEntries(t *testing.T) {
	t.Helper()
	var b []byte
	s := newStory(4, func(e *budget.Entry, _ report.AsOf) { b = append(ledger.Encode(b, e), '\n') })
	s.found(hostileNames...)
	s.goOn(500, 15*time.Minute)
	if err := os.WriteFile(filepath.Join(golden, "entries.jsonl"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestGolden: a fixed ledger gives fixed documents. -update writes them anew;
// look at the page before you commit it.
func TestGolden(t *testing.T) {
	if *update {
		writeEntries(t)
	}
	r := goldenEntries(t)
	for _, format := range report.Formats() {
		got, err := r.Render(format)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(golden, "report."+format)
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s differs from %s (go test -run Golden -update): %s", format, path, cmp.Diff(string(want), string(got)))
		}
	}
}

func TestDocumentFollowsItsSchema(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.NewCompiler().Compile("schema/report.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*report.Report{"golden": goldenEntries(t), "empty": aggregator(t, span(begin, begin.Add(time.Hour))).Report()} {
		b, err := r.Render(report.FormatJSON)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var again report.Report
		if err := json.Unmarshal(b, &again); err != nil || cmp.Diff(r, &again) != "" {
			t.Errorf("%s: read again: %v %s", name, err, cmp.Diff(r, &again))
		}
	}
}
