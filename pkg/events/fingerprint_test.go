package events

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFingerprintsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, body := range []string{
		`{"amounts":{"calls":1}}`, `{"amounts":{"calls":2}}`, `{"amounts":{"tokens":1}}`, `{"amounts":{"calls":1,"tokens":1}}`,
		`{"amounts":{"calls":1},"ttl_ms":600000}`, `{"amounts":{"calls":1},"dry_run":false}`, `{"amounts":{"calls":1},"dry_run":true}`,
		`{"amounts":{"calls":1},"pool":"a"}`, `{"amounts":{"calls":1},"target":"a"}`, `{"amounts":{"calls":1},"purpose":"a"}`, `{"amounts":{"calls":1},"purpose":""}`,
		`{"amounts":{"calls":1},"labels":{}}`, `{"amounts":{"calls":1},"labels":{"a":"b"}}`, `{"amounts":{"calls":1},"labels":{"ab":""}}`, `{"amounts":{"calls":1},"labels":{"a":"","b":""}}`,
		`{"amounts":{"calls":1},"ceilings":{"calls":1}}`, `{"amounts":{"calls":1},"on_behalf_of":"a"}`,
		"{\"amounts\":{\"calls\":1},\"pool\":\"\u00e9\"}", "{\"amounts\":{\"calls\":1},\"pool\":\"e\u0301\"}",
	} {
		q, e := DecodeReserve([]byte(body))
		if e != nil {
			t.Fatal(e)
		}
		f := q.Fingerprint()
		if len(f) != 32 || strings.ToLower(f) != f {
			t.Errorf("%q", f)
		}
		if other, ok := seen[f]; ok {
			t.Errorf("%s and %s have one fingerprint", body, other)
		}
		seen[f] = body
	}
}

func TestFingerprintsIgnoreOrderAndSpace(t *testing.T) {
	t.Parallel()
	a, e1 := DecodeSettle([]byte(`{"key":"k","actual":{"calls":1,"tokens":2},"usage":{"a":1,"b":{"c":2,"d":3}}}`))
	b, e2 := DecodeSettle([]byte(` { "usage": {"b":{"d":3, "c":2},"a":1}, "actual": {"tokens":2,"calls":1},"\u006bey":"k"}`))
	if e1 != nil || e2 != nil || a.Fingerprint() != b.Fingerprint() {
		t.Error(e1, e2, a, b)
	}
	c, e3 := DecodeSettle([]byte(`{"key":"k","actual":{"calls":1,"tokens":2},"usage":{"a":1.0,"b":{"c":2,"d":3}}}`))
	if e3 != nil || a.Fingerprint() == c.Fingerprint() {
		t.Error("other usage, same fingerprint", e3)
	}
}

// The same content under two verbs is two operations.
func TestFingerprintNamesTheVerb(t *testing.T) {
	t.Parallel()
	if (Release{Key: new("k")}).Fingerprint() == (Settle{Key: new("k")}).Fingerprint() {
		t.Error("release and settle have one fingerprint")
	}
	names := map[string]bool{}
	for _, f := range []string{
		Extend{Key: new("k"), TTLMS: new(int64(1000))}.Fingerprint(), Charge{Actual: map[string]int64{"calls": 1}}.Fingerprint(),
		Register{Name: "c"}.Fingerprint(), Register{Name: "c", Budget: &Budget{Mode: BudgetShared}}.Fingerprint(),
		Revoke{Agent: testAgent}.Fingerprint(), Revoke{Agent: testAgent, Holds: new(HoldsKeep)}.Fingerprint(),
	} {
		if names[f] {
			t.Error("two contents, one fingerprint")
		}
		names[f] = true
	}
}

// What a client writes with encoding/json the broker reads as the same
// request.
func TestClientAndBrokerAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 20, 60).Filter(func(v string) bool { return ValidPool(v) })
		amounts := rapid.MapOfN(rapid.StringMatching(`[a-z][a-z0-9_]{0,31}`), rapid.Int64Range(1, MaxAmount), 1, 16)
		q := Reserve{Amounts: amounts.Draw(t, "amounts")}
		if rapid.Bool().Draw(t, "more") {
			q.Pool = new(text.Draw(t, "pool"))
			q.Purpose = new(rapid.StringN(0, 60, 256).Filter(utf8.ValidString).Draw(t, "purpose"))
			q.Labels = rapid.MapOfN(text, rapid.StringN(0, 60, 256).Filter(utf8.ValidString), 0, 16).Draw(t, "labels")
			q.TTLMS = new(rapid.Int64Range(TTLMinMS, TTLMaxMS).Draw(t, "ttl"))
			q.DryRun = new(rapid.Bool().Draw(t, "dry"))
		}
		body, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		got, e := DecodeReserve(body)
		if e != nil || got.Fingerprint() != q.Fingerprint() {
			t.Fatalf("%s: %v %+v", body, e, got)
		}
	})
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		out := appendString(nil, raw)
		var back string
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if back != strings.ToValidUTF8(raw, "\ufffd") && utf8.ValidString(raw) {
			t.Fatalf("%q came back as %q", raw, back)
		}
	})
}

func TestTimes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "at"))
		if got, want := FormatTime(at), at.UTC().Format("2006-01-02T15:04:05.000000Z"); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if got, want := FormatMillis(at), at.UTC().Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}
