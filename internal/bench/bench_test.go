package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/testkit"
)

// asLoad makes the test binary be the load generator.
const asLoad = "TALLY_BENCH_LOAD"

func TestMain(m *testing.M) {
	if slices.Contains(os.Args[1:], asLoad) {
		if err := Load(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testkit.Main(m)
}

func config(t *testing.T) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bench") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return Config{
		Window: 50 * time.Millisecond, Windows: 1, Outstanding: 10_000, Drain: 2000, Tree: 100, Ledger: 5000, Live: 500,
		Dir: dir, Load: []string{self, asLoad}, Progress: t.Output(),
	}
}

// The whole table in small: every row is there, nothing failed, the race was
// won. How fast it was is no matter: on a busy machine a short window may see
// no answer at all.
func TestRun(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name    string
		clients []int
	}{
		{rowTripUnix, []int{1}},
		{rowTripTCP, []int{1}},
		{rowDirectPaused, sizes()},
		{rowDirect, sizes()},
		{rowStoredPaused, sizes()},
		{rowDurable, sizes()},
		{rowLifecycle, []int{clientsMax}},
		{rowScribe, []int{0}},
		{"register, direct door", []int{treeCallers}},
		{rowAppend, []int{0}},
		{rowChain, []int{0}},
		{rowVerify, []int{0}},
		{rowFold, []int{0}},
	} {
		for _, clients := range want.clients {
			r := report.row(want.name, clients)
			if r.Name == "" || r.Rate < 0 || r.StoreUS < 0 {
				t.Errorf("%s, %d clients: %+v", want.name, clients, r)
			}
			if strings.Contains(r.Note, "errors") {
				t.Errorf("%s, %d clients: %s", want.name, clients, r.Note)
			}
		}
	}
	if r := report.row(rowDirect, handClients); !strings.Contains(r.Note, "cap race won: 1000 of 1000") {
		t.Errorf("the cap race at the direct door: %q", r.Note)
	}
	if len(report.Findings) < 8 {
		t.Errorf("findings: %+v", report.Findings)
	}
	var table strings.Builder
	if err := report.Write(&table); err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Rows {
		if !strings.Contains(table.String(), r.Name) {
			t.Errorf("the table lacks %q", r.Name)
		}
	}
}

func TestRunOneLoad(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Clients, cfg.Door = 3, DoorDurable
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r := report.row(rowDurable, 3); r.Name == "" {
		t.Errorf("no such row in %+v", report.Rows)
	}
}

func TestValidateReportsEverything(t *testing.T) {
	t.Parallel()
	err := Config{Clients: 513, Door: "back", Sections: []string{"none"}}.Validate()
	for _, want := range []string{"clients 513", `door "back"`, "duration", "windows", "outstanding", "drain", "ledger 0", "live 0", `section "none"`, "directory"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestParseBenchmark(t *testing.T) {
	t.Parallel()
	out := "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n" +
		"\"EVALSHA ab {\"k\":\"1\",\n\"2\"} x\",\"50000.00\",\"3.1\",\"0.2\",\"2.5\",\"4.0\",\"5.25\",\"9.9\"\n"
	w, err := parseBenchmark([]byte(out), 100_000)
	if err != nil {
		t.Fatal(err)
	}
	if w.count != 100_000 || w.took != 2*time.Second || w.p50 != 2500*time.Microsecond || w.p99 != 5250*time.Microsecond {
		t.Errorf("%+v", w)
	}
	if _, err := parseBenchmark([]byte("Error: something\n"), 1); err == nil {
		t.Error("an error was taken for a result")
	}
}

func TestPostgresLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.1")
	if err := os.WriteFile(path, []byte("0 1 1000 0 100 500000\n1 1 3000 0 101 500000\n0 2 2000 0 102 499000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var w window
	if err := w.readLogs([]string{path}); err != nil {
		t.Fatal(err)
	}
	if w.count != 3 || w.took != 2*time.Second || w.p50 != 2*time.Millisecond || w.p99 != 3*time.Millisecond {
		t.Errorf("%+v", w)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 9, 2}, 3}} {
		if got := median(slices.Clone(c.values)); got != c.want {
			t.Errorf("median of %v is %v, not %v", c.values, got, c.want)
		}
	}
}
