package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/checkpoint"
	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

var update = flag.Bool("update", false, "write the corpus anew")

const corpus = "testdata/broken"

// expectation is what any verifier says of one case; Error where there is
// nothing to give a verdict on.
type expectation struct {
	Verdict  string `json:"verdict,omitempty"`
	FirstBad uint64 `json:"first_bad,omitempty"`
	Entries  uint64 `json:"entries,omitempty"`
	Error    bool   `json:"error,omitempty"`
}

// chainOf makes entries on one chain, as the scribe would.
func chainOf(org string, n int, change func(seq int, e *budget.Entry)) []ledger.Message {
	var out []ledger.Message
	var prev ledger.Hash
	for i := 1; i <= n; i++ {
		e := entry(0, fmt.Sprintf("%d-0", i), org, int64(i))
		if change != nil {
			change(i, &e)
		}
		m := ledger.Message{StreamSeq: uint64(i), Seq: uint64(i), Prev: prev, Subject: events.Ledger(org, events.LedgerKind(e.Kind)), Body: ledger.Encode(nil, &e)} //nolint:gosec // small
		m.Hash = events.EntryHash(m.Prev, m.Seq, m.Body)
		prev = m.Hash
		out = append(out, m)
	}
	return out
}

// broken is one case: an export and what it is held against.
type broken struct {
	lines      []string
	checkpoint string
	want       expectation
}

func lines(t *testing.T, all []ledger.Message) (out []string) {
	t.Helper()
	for _, m := range all {
		b, err := m.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

func join(parts ...[]string) (out []string) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// cases are the corpus; keys signs, stranger is not among the known ones.
func cases(t *testing.T, keys, stranger checkpoint.Keys) map[string]broken {
	t.Helper()
	sound := chainOf("acme", 8, nil)
	a, z := lines(t, sound), lines(t, chainOf("zeta", 8, nil))
	change := func(from int) []string {
		return lines(t, chainOf("acme", 8, func(seq int, e *budget.Entry) {
			if seq == from {
				e.Moves[0].Held = 1_000_000
			}
		}))
	}
	rewritten, other := change(3), change(5)
	gap := lines(t, chainOf("acme", 8, func(seq int, e *budget.Entry) {
		if seq == 6 {
			e.Kind, e.Moves, e.Detail, e.Record = budget.KindGap, nil, []byte(`{"reason":"disk lost"}`), ""
		}
	}))
	sign := func(k checkpoint.Keys, m ledger.Message) string {
		text, err := k.Sign(checkpoint.Checkpoint{Org: "acme", Count: m.Seq, Head: m.Hash, At: time.UnixMicro(1764550000123456)})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	at := func(n int) string { return sign(keys, sound[n-1]) }
	body := strings.Replace(a[2], `held\":3`, `held\":4`, 1)
	forged := strings.Replace(at(8), "\n8\n", "\n7\n", 1)
	bad := func(verdict string, first uint64) expectation {
		return expectation{Verdict: verdict, FirstBad: first, Entries: first - 1}
	}
	ok := func(n uint64) expectation { return expectation{Verdict: "ok", Entries: n} }
	return map[string]broken{
		"ok":                        {a, at(8), ok(8)},
		"ok_behind_checkpoint":      {a, at(5), ok(8)},
		"ok_without_checkpoint":     {a, "", ok(8)},
		"cut_head":                  {a[2:], at(8), expectation{Verdict: "missing", FirstBad: 3}},
		"cut_middle":                {join(a[:3], a[5:]), at(8), expectation{Verdict: "missing", FirstBad: 6, Entries: 3}},
		"cut_tail":                  {a[:6], at(8), bad("tail_cut", 7)},
		"cut_everything":            {nil, at(8), bad("tail_cut", 1)},
		"fork_identical":            {join(a[:4], a[3:]), at(8), expectation{Verdict: "fork", FirstBad: 4, Entries: 4}},
		"fork_different":            {join(a[:5], other[4:]), at(8), expectation{Verdict: "fork", FirstBad: 5, Entries: 5}},
		"altered_body":              {join(a[:2], []string{body}, a[3:]), at(8), bad("altered", 3)},
		"altered_link":              {join(a[:2], rewritten[2:3], a[3:]), at(8), bad("altered", 4)},
		"altered_hash_no_hex":       {join(a[:1], []string{strings.Replace(a[1], `"hash":"`, `"hash":"x`, 1)}, a[2:]), at(8), bad("altered", 2)},
		"altered_genesis":           {join([]string{strings.Replace(a[0], `"prev":"0`, `"prev":"x`, 1)}, a[1:]), at(8), bad("altered", 1)},
		"rebuilt":                   {rewritten, at(8), expectation{Verdict: "rebuilt", FirstBad: 8, Entries: 8}},
		"rebuilt_round_old_prefix":  {other, at(6), expectation{Verdict: "rebuilt", FirstBad: 6, Entries: 8}},
		"ok_rebuilt_after_it":       {other, at(4), ok(8)},
		"foreign":                   {join(a[:3], z[3:4], a[4:]), at(8), bad("foreign", 4)},
		"foreign_subject":           {join(a[:3], []string{strings.Replace(a[3], "ledger.acme.", "ledger.zeta.", 1)}, a[4:]), at(8), bad("foreign", 4)},
		"gap":                       {gap, at(8), bad("gap", 6)},
		"reordered":                 {join(a[:2], a[3:4], a[2:3], a[4:]), at(8), expectation{Verdict: "missing", FirstBad: 4, Entries: 2}},
		"bad_json_line":             {join(a[:4], []string{a[4][:50]}, a[5:]), at(8), expectation{Error: true}},
		"bad_signature":             {a, forged, expectation{Error: true}},
		"wrong_key":                 {a, sign(stranger, sound[7]), expectation{Error: true}},
		"checkpoint_without_end":    {a, strings.Split(at(8), "\n\n")[0] + "\n", expectation{Error: true}},
		"checkpoint_of_another_org": {z, at(8), expectation{Verdict: "foreign", FirstBad: 1}},
	}
}

func makeCorpus(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	var keys [2]checkpoint.Keys
	for i, name := range []string{"tallystick-corpus", "stranger"} {
		path := filepath.Join(dir, name+".key")
		if _, err := checkpoint.Create(path, name); err != nil {
			t.Fatal(err)
		}
		keys[i] = checkpoint.NewKeys(path)
	}
	public, err := os.ReadFile(filepath.Join(dir, "tallystick-corpus.pub"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"keys.pub": string(public)}
	expect := map[string]expectation{}
	for name, c := range cases(t, keys[0], keys[1]) {
		files[name+".jsonl"] = strings.Join(c.lines, "\n")
		if c.checkpoint != "" {
			files[name+".checkpoint"] = c.checkpoint
		}
		expect[name] = c.want
	}
	all, err := json.MarshalIndent(expect, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	files["expect.json"] = string(all) + "\n"
	if err := errors.Join(os.RemoveAll(corpus), os.MkdirAll(corpus, 0o755)); err != nil { //nolint:gosec // test data
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(corpus, name), []byte(text), 0o644); err != nil { //nolint:gosec // test data
			t.Fatal(err)
		}
	}
}

func expectations(t *testing.T) map[string]expectation {
	t.Helper()
	if *update {
		makeCorpus(t)
	}
	b, err := os.ReadFile(filepath.Join(corpus, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]expectation
	if err := json.Unmarshal(b, &all); err != nil || len(all) < 20 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	return all
}

// verifyCase is what the command line does with the files of a case.
func verifyCase(t *testing.T, name string) expectation {
	t.Helper()
	known, err := checkpoint.LoadVerifiers(filepath.Join(corpus, "keys.pub"))
	if err != nil {
		t.Fatal(err)
	}
	v := ledger.NewVerifier("")
	text, err := os.ReadFile(filepath.Join(corpus, name+".checkpoint"))
	switch {
	case err == nil:
		c, err := checkpoint.Open(string(text), known)
		if err != nil {
			return expectation{Error: true}
		}
		v = ledger.NewVerifier(c.Org)
		v.Against(c.Count, c.Head)
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(corpus, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := ledger.VerifyExport(bytes.NewReader(b), v)
	if err != nil {
		return expectation{Error: true}
	}
	out := expectation{Verdict: string(r.Verdict), Entries: r.Entries}
	if r.FirstBad != nil {
		out.FirstBad = *r.FirstBad
	}
	return out
}

// TestCorpus: what is broken in one way gets that verdict.
func TestCorpus(t *testing.T) {
	for name, want := range expectations(t) {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, verifyCase(t, name)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSecondVerifierAgrees: another language, another author's reading of
// docs/ledger_format.md, the same verdicts.
func TestSecondVerifierAgrees(t *testing.T) {
	script := filepath.Join("..", "..", "examples", "verify_ledger", "verify.py")
	for name, want := range expectations(t) {
		args := []string{script, filepath.Join(corpus, name+".jsonl")}
		against := filepath.Join(corpus, name+".checkpoint")
		if _, err := os.Stat(against); err == nil {
			args = append(args, against, filepath.Join(corpus, "keys.pub"))
		}
		out, err := exec.CommandContext(t.Context(), "python3", args...).Output()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatalf("python3: %v", err)
		}
		var got expectation
		if want.Error {
			got.Error = failed != nil && failed.ExitCode() == 8 && len(out) == 0
		} else if err := json.Unmarshal(out, &got); err != nil {
			t.Errorf("%s: %q: %v", name, out, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if ok := failed == nil; ok != (want.Verdict == "ok") {
			t.Errorf("%s: exit code: %v", name, failed)
		}
	}
}
