package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/money"
	"tallystick/internal/testkit"
	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// run runs one command line with an empty environment.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, func(string) string { return "" }, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	cases := []struct {
		args string
		says string
	}{
		{"frobnicate", "unknown command"},
		{"resrve", "reserve"},
		{"pool craete x", "create"},
		{"pool create p --org o", "--unit UNIT --cap N"},
		{"pool create --org o --unit u --cap 1", "a pool name"},
		{"pool create p --unit u --cap 1", "org"},
		{"pool create p --org o --unit u --cap 1.5", "whole number"},
		{"pool create p --org o --unit u --cap -5", "whole number"},
		{"pool create p --org o --unit u --cap 1 --limit u=1", "not both"},
		{"pool create p --org o --unit u --cap 1 --period month", "not there yet"},
		{"pool create p --org o --limit u=1/day", "not there yet"},
		{"pool create p --org o --unit u --cap 1 --late-window period", "not there yet"},
		{"pool create p --org o --unit u --cap 1 --on-overrun shrug", "reject or charge"},
		{"pool set p --org o", "nothing to change"},
		{"pool set p --org o --slots x=y", "PATTERN=N"},
		{"principal create --org o", "a principal's name"},
		{"principal create p", "org"},
		{"principal set p --org o", "nothing to change"},
		{"reserve --key k", "--amount"},
		{"reserve --amount usd_microcents=1", "--key"},
		{"reserve --key k --amount usd_microcents", "UNIT=N"},
		{"reserve --key k --amount u=1 --amount u=2", "twice"},
		{"reserve --key k --amount u=1 --ttl soon", "duration"},
		{"settle --key k", "--reservation"},
		{"settle --reservation x --actual u=1", "--key"},
		{"settle --key k --reservation x --reserve-key y", "exclude"},
		{"settle --key k --reservation x --org o", "both --org and --agent"},
		{"balance", "TALLY_TOKEN"},
		{"balance --token t", "--data"},
		{"org create acme", "--data"},
		{"admin add --org o", "name"},
		{"admin add --org o --name n --role owner", "admin, viewer or auditor"},
		{"admin list", "org"},
		{"admin set --org o a", "role"},
		{"admin remove --org o", "--admin"},
		{"admin rotate a", "org"},
		{"org create acme --display caf\xe9", `argument 5 is not UTF-8: "caf\xe9"`},
		{"agent register --org o --pool p --name=\xff", `argument 7 is not UTF-8: "--name=\xff"`},
		{"reconcile", "--once"},
		{"ledger verify", "--file"},
		{"ledger verify --against f", "--org ORG, or --file EXPORT"},
		{"ledger checkpoint", "org"},
		{"doctor", "not there yet"},
		{"agent register --org o --name n", "pool"},
		{"agent register --org o --pool p", "name"},
		{"agent register --name n --pool p", "org"},
		{"agent list", "org"},
		{"pipeline create n", "org"},
		{"pipeline create --org o", "name"},
		{"pipeline list", "org"},
		{"pipeline remove p", "org"},
		{"agent rotate --agent a", "org"},
		{"agent revoke --agent a", "org"},
		{"pool set p --cap 1", "org"},
		{"pool freeze p", "org"},
		{"pool unfreeze p", "org"},
		{"pool show", "org"},
		{"ledger list", "org"},
		{"ledger tail", "org"},
		{"ledger export", "org"},
		{"credentials", "out"},
		{"setup", "credentials"},
		{"up", "--data"},
		{"version -o yaml", "table or json"},
		{"balance --nonsense", "--help"},
	}
	for _, tc := range cases {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			code, out, errs := run(t, strings.Fields(tc.args)...)
			if code != events.ExitUsage || !strings.Contains(errs, tc.says) {
				t.Errorf("exit %d, want 2; stderr lacks %q: %s", code, tc.says, errs)
			}
			if out != "" {
				t.Errorf("a mistake prints to stdout: %s", out)
			}
		})
	}
}

func TestEveryCommandHelps(t *testing.T) {
	t.Parallel()
	e := &environment{}
	var walk func(path []string)
	walk = func(path []string) {
		code, out, _ := run(t, append(path, "--help")...)
		if code != 0 || !strings.Contains(out, "Usage:") {
			t.Errorf("%v --help: exit %d, %s", path, code, out)
		}
		found, _, err := e.root().Find(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, sub := range found.Commands() {
			if !sub.Hidden && !sub.DisableFlagParsing {
				walk(append(path[:len(path):len(path)], sub.Name()))
			}
		}
	}
	walk(nil)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	coded := func(c events.Code) error { return fmt.Errorf("wrapped: %w", &events.Error{Code: c}) }
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{usagef("x"), 2},
		{coded(events.CodeNotFound), 3},
		{&exitError{code: events.ExitDenied}, 4},
		{coded(events.CodeKeyReused), 5},
		{coded(events.CodeAlreadySettled), 5},
		{&client.AuthError{Err: errors.New("x")}, 6},
		{coded(events.CodeUnavailable), 7},
		{coded(events.CodeOverloaded), 7},
		{&exitError{code: events.ExitDrift}, 8},
	} {
		if got := exitCode(tc.err); got != tc.want {
			t.Errorf("%v: exit %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestMoney(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 ($0.00)", 1: "1 ($0.00000001)", 250_000: "250,000 ($0.0025)", 100_000_000: "100,000,000 ($1.00)",
		123_456_789_012: "123,456,789,012 ($1,234.56789012)", -5_000_000: "-5,000,000 (-$0.05)",
	} {
		if got := amount(money.Microcents, n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	if got := amount("tokens", 12345); got != "12,345" {
		t.Errorf("tokens: %s", got)
	}
	if got := amounts(map[string]int64{"tokens": 5, "calls": 1}); got != "calls 1, tokens 5" {
		t.Errorf("amounts: %s", got)
	}
}

func TestTablesCarryNoEscapes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tab := newTable(&out, "NAME")
	tab.row("evil\x1b[2J\u009b\nname")
	if err := tab.flush(); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u009b") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("got %q", out.String())
	}
}

func TestCatalogueAndVersion(t *testing.T) {
	t.Parallel()
	code, out, _ := run(t, "errors", "-o", "json")
	var all struct{ Errors []events.CatalogueEntry }
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || len(all.Errors) != len(events.Catalogue()) {
		t.Errorf("errors: exit %d, %d entries, %v", code, len(all.Errors), err)
	}
	if code, _, _ := run(t, "errors", "no_such_code"); code != events.ExitNotFound {
		t.Errorf("unknown code: exit %d", code)
	}
	if code, out, _ := run(t, "errors", "budget_exceeded"); code != 0 || !strings.Contains(out, "hint") {
		t.Errorf("budget_exceeded: exit %d, %s", code, out)
	}
	code, out, _ = run(t, "version", "-o", "json")
	var v buildFacts
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Go == "" {
		t.Errorf("version: exit %d, %s, %v", code, out, err)
	}
}

func TestVerifyOffline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(lines ...string) string {
		f, err := os.CreateTemp(dir, "export")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fmt.Fprintln(f, strings.Join(lines, "\n"))
		return f.Name()
	}
	prev := [32]byte{}
	var lines []string
	for seq := range uint64(3) {
		body := fmt.Sprintf(`{"v":1,"org":"acme","kind":"charged","n":%d}`, seq)
		hash := events.EntryHash(prev, seq+1, []byte(body))
		lines = append(lines, fmt.Sprintf(`{"stream_seq":%d,"seq":%d,"subject":"tally.v1.ledger.acme.charged","prev":"%x","hash":"%x","body":%q}`, seq+7, seq+1, prev, hash, body))
		prev = hash
	}
	for verdict, file := range map[string]string{
		"ok":      write(lines...),
		"missing": write(lines[0], lines[2]),
		"fork":    write(lines[0], lines[0], lines[1]),
		"altered": write(lines[0], strings.Replace(lines[1], `n\":1`, `n\":9`, 1)),
	} {
		code, out, _ := run(t, "ledger", "verify", "--file", file, "-o", "json")
		var v struct {
			Org, Verdict string
			Entries      int
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		want := 0
		if verdict != "ok" {
			want = events.ExitDrift
		}
		if v.Verdict != verdict || code != want || v.Org != "acme" {
			t.Errorf("got %+v exit %d, want %s", v, code, verdict)
		}
	}
	if code, _, _ := run(t, "ledger", "verify", "--file", filepath.Join(dir, "none")); code != 1 {
		t.Errorf("no file: exit %d", code)
	}
}
