package reserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func TestReserveTakesOnTheWholePath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, body := w.do("reserve", "k1", `{"amounts":{"tokens":10,"calls":1},"labels":{"job":"7"}}`)
	equal(t, "outcome", body["outcome"], any("allowed"))
	equal(t, "reservation", body["reservation"], any(redisx.ExecutionID(w.org, w.agent, "reserve", "k1")))
	equal(t, "label", body["labels"].(map[string]any)["job"], any("7"))
	rows := body["pools"].([]any)
	equal(t, "rows", words(len(rows), rows[0].(map[string]any)["pool"], rows[0].(map[string]any)["unit"], rows[2].(map[string]any)["pool"]), "3 team calls root")
	for _, l := range [][2]string{{"team", "tokens"}, {"root", "tokens"}} {
		equal(t, l[0], w.counter(l[0], l[1], "held"), 10)
	}
	equal(t, "calls", w.counter("team", "calls", "held"), 1)
	equal(t, "leaf", w.counter("leaf", "tokens", "held"), 0)
	equal(t, "replayed", a.Replayed, false)

	again, second := w.do("reserve", "k1", `{"labels":{"job":"7"}, "amounts":{"calls":1,"tokens":10}}`)
	equal(t, "replayed", again.Replayed, true)
	equal(t, "same reservation", second["reservation"], body["reservation"])
	equal(t, "same deadline", second["expires_at"], body["expires_at"])
	equal(t, "taken once", w.counter("team", "tokens", "held"), 10)
	if e, _ := w.do("reserve", "k1", `{"amounts":{"tokens":11,"calls":1}}`); e.Code != "key_reused" {
		t.Errorf("other content: %s", e.Body)
	}
}

func TestReserveRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, tc := range map[string]struct{ key, body, code, field string }{
		"no key":           {"", `{"amounts":{"tokens":1,"calls":1}}`, "invalid_argument", events.HeaderKey},
		"unit missing":     {"k", `{"amounts":{"tokens":1}}`, "unit_missing", "calls"},
		"unit unknown":     {"k", `{"amounts":{"tokens":1,"calls":1,"ms":1,"zz":1}}`, "unit_unknown", "ms"},
		"ceiling unknown":  {"k", `{"amounts":{"tokens":1,"calls":1},"ceilings":{"ms":1}}`, "unit_unknown", "ms"},
		"another's pool":   {"k", `{"amounts":{"tokens":1},"pool":"beside"}`, "not_found", ""},
		"a pool above":     {"k", `{"amounts":{"tokens":1},"pool":"root"}`, "not_found", ""},
		"no such pool":     {"k", `{"amounts":{"tokens":1},"pool":"nope"}`, "not_found", ""},
		"no such settler":  {"k", `{"amounts":{"tokens":1,"calls":1},"settler":"` + uuid.NewString() + `"}`, "not_found", ""},
		"identity in body": {"k", `{"amounts":{"tokens":1,"calls":1},"agentId":"x"}`, "broker_argument", "agentId"},
		"a fraction":       {"k", `{"amounts":{"tokens":1.5,"calls":1}}`, "invalid_argument", "amounts.tokens"},
	} {
		a, _ := w.do("reserve", tc.key, tc.body)
		e := events.ParseError(a.Body)
		if e == nil || string(e.Code) != tc.code || a.Code != tc.code || e.Field != tc.field {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
	// What is not there and what is not mine have the same words.
	mine, _ := w.do("reserve", "k", `{"amounts":{"tokens":1},"pool":"beside"}`)
	none, _ := w.do("reserve", "k", `{"amounts":{"tokens":1},"pool":"nope"}`)
	equal(t, "words", string(mine.Body), string(none.Body))
	equal(t, "held", w.counter("root", "tokens", "held"), 0)
}

func TestReserveInAPoolBelow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if a, body := w.do("reserve", "k", `{"amounts":{"tokens":5,"calls":1},"pool":"leaf"}`); body["outcome"] != "allowed" {
		t.Fatalf("answer %s", a.Body)
	}
	equal(t, "leaf", w.counter("leaf", "tokens", "held"), 5)
	equal(t, "team", w.counter("team", "tokens", "held"), 5)
}

func TestDenialsAndCeilings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, body := w.do("reserve", "big", `{"amounts":{"tokens":1001,"calls":1},"labels":{"a":"b"}}`)
	equal(t, "denied", a.Denied, events.ReasonBudgetExceeded)
	equal(t, "why", words(body["outcome"], body["reason"], body["pool"], body["unit"], body["requested"], body["cap"], body["remaining"]), "denied budget_exceeded team tokens 1001 1000 1000")
	equal(t, "labels", body["labels"].(map[string]any)["a"], any("b"))
	again, _ := w.do("reserve", "big", `{"amounts":{"tokens":1001,"calls":1},"labels":{"a":"b"}}`)
	equal(t, "stable", words(again.Replayed, again.Denied), "true budget_exceeded")

	a, body = w.do("reserve", "ceiling", `{"amounts":{"tokens":20,"calls":1},"ceilings":{"tokens":19}}`)
	equal(t, "ceiling", words(a.Denied, body["reason"], body["pool"]), "budget_exceeded budget_exceeded team")
	if _, body = w.do("reserve", "loose", `{"amounts":{"tokens":20,"calls":1},"ceilings":{"tokens":100000}}`); body["outcome"] != "allowed" {
		t.Errorf("a ceiling above the cap: %v", body)
	}
	r := w.request("reserve", "late", `{"amounts":{"tokens":1,"calls":1}}`)
	r.Door, r.StoredAt, r.Deadline = worker.Durable, time.Now().Add(-time.Hour), time.Now().Add(-time.Second)
	if _, body = w.ask(r); body["reason"] != "deadline_passed" {
		t.Errorf("late: %v", body)
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, body := w.do("reserve", "", `{"amounts":{"tokens":10,"calls":1},"dry_run":true}`)
	if body["outcome"] != "allowed" || body["reservation"] != nil {
		t.Errorf("answer %s", a.Body)
	}
	equal(t, "held", w.counter("team", "tokens", "held"), 0)
	r := w.request("reserve", "k", `{"amounts":{"tokens":10,"calls":1},"dry_run":true}`)
	r.Door = worker.Durable
	if a, _ := w.ask(r); a.Code != "invalid_argument" {
		t.Errorf("durable door: %s", a.Body)
	}
}

func TestSlotsByLongestPattern(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("slots", "team", map[string]int64{"tokens": 500}, registry.Slot{Pattern: "*", Max: 100}, registry.Slot{Pattern: "openai/*", Max: 1}, registry.Slot{Pattern: "openai/gpt-5", Max: 2})
	body := `{"amounts":{"tokens":1,"calls":1},"pool":"slots","target":"%s"}`
	for _, tc := range []struct{ target, outcome string }{
		{"openai/gpt-5", "allowed"},
		{"openai/gpt-5", "allowed"},
		{"openai/gpt-5", "denied"},
		{"openai/invented", "allowed"},
		{"openai/another", "denied"},
		{"other", "allowed"},
	} {
		_, b := w.do("reserve", w.fresh(), fmt.Sprintf(body, tc.target))
		equal(t, tc.target, b["outcome"], any(tc.outcome))
		if tc.outcome == "denied" {
			equal(t, "reason", b["reason"], any("concurrency_exceeded"))
			if b["holders"] == nil || b["retry_after_ms"] == nil {
				t.Errorf("denial %v", b)
			}
		}
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, target string
		want            bool
	}{
		{"*", "", true},
		{"*", "a/b", true},
		{"a", "a", true},
		{"a", "ab", false},
		{"a*", "ab", true},
		{"*b", "ab", true},
		{"a*c*e", "abcde", true},
		{"a*c*e", "abde", false},
		{"a?c", "abc", false},
		{"[a]", "a", false},
		{"**a**", "ba", true},
		{"*aab", "aaaab", true},
		{"ö*", "öl", true},
		{strings.Repeat("*a", 40) + "b", strings.Repeat("a", 100), false},
	} {
		equal(t, tc.pattern+" on "+tc.target, matches(tc.pattern, tc.target), tc.want)
	}
}

func TestStalePolicyIsReloaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("team", "root", map[string]int64{"tokens": 2_000, "calls": 100})
	if _, body := w.do("reserve", "k", `{"amounts":{"tokens":1500,"calls":1}}`); body["outcome"] != "allowed" {
		t.Errorf("answer %v", body)
	}
	if w.dir.reloads == 0 {
		t.Error("nothing reloaded")
	}
	// KV that stays behind Redis is an outage, not a decision.
	w.pool("team", "root", map[string]int64{"tokens": 3_000, "calls": 100})
	behind := w.dir.truth["team"]
	behind.Rev--
	w.dir.truth["team"] = behind
	w.dir.reloads = 0
	if a, _ := w.do("reserve", "k2", `{"amounts":{"tokens":1,"calls":1}}`); a.Code != "unavailable" {
		t.Errorf("direct door: %s", a.Body)
	}
	equal(t, "reloads", w.dir.reloads, 2*staleMax)
	r := w.request("reserve", "k3", `{"amounts":{"tokens":1,"calls":1}}`)
	r.Door, r.Deadline = worker.Durable, time.Now().Add(time.Minute)
	if a, _ := w.ask(r); a.Retry == 0 || len(a.Body) != 0 {
		t.Errorf("durable door: %+v", a)
	}
}

func TestRegistryDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir.down = errors.New("KV is away")
	for _, verb := range []string{"reserve", "charge", "extend", "balance", "whoami"} {
		bodies := map[string]string{"reserve": `{"amounts":{"tokens":1,"calls":1}}`, "charge": `{"actual":{"tokens":1,"calls":1}}`, "extend": `{"key":"k","ttl_ms":1000}`}
		if a, _ := w.do(verb, "k", bodies[verb]); a.Code != "unavailable" {
			t.Errorf("%s: %s", verb, a.Body)
		}
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("reserve", "r", `{"amounts":{"tokens":10,"calls":1},"pool":"leaf"}`)
	a, body := w.do("extend", "e", `{"key":"r","add":{"tokens":5},"ttl_ms":1000000}`)
	if body["outcome"] != "allowed" || body["amounts"].(map[string]any)["tokens"] != 15.0 {
		t.Errorf("answer %s", a.Body)
	}
	equal(t, "held", w.counter("leaf", "tokens", "held"), 15)
	if a, _ = w.do("extend", "e2", `{"key":"nope","ttl_ms":1000}`); a.Code != "not_found" {
		t.Errorf("unknown key: %s", a.Body)
	}
	if a, _ = w.do("extend", "e3", `{"key":"r","add":{"ms":5}}`); a.Code != "unit_unknown" {
		t.Errorf("unknown unit: %s", a.Body)
	}
	if a, body = w.do("extend", "e4", `{"key":"r","add":{"tokens":500}}`); body["reason"] != "budget_exceeded" || a.Denied == "" {
		t.Errorf("too much: %s", a.Body)
	}
}

func TestCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, body := w.do("charge", "c", `{"actual":{"tokens":7,"calls":0}}`)
	if body["outcome"] != "charged" || body["charged"].(map[string]any)["tokens"] != 7.0 {
		t.Errorf("answer %s", a.Body)
	}
	equal(t, "spent", w.counter("team", "tokens", "spent"), 7)
	if a, body = w.do("charge", "c2", `{"actual":{"tokens":5000,"calls":1}}`); body["outcome"] != "denied" || a.Denied == "" {
		t.Errorf("above the cap: %s", a.Body)
	}
	r := w.request("charge", "c3", `{"actual":{"tokens":5000,"calls":1},"incurred":true}`)
	r.Door, r.StoredAt, r.Deadline = worker.Durable, w.now.Add(-time.Hour), w.now.Add(-time.Minute)
	if a, body = w.ask(r); body["outcome"] != "charged" || a.Dead != "" {
		t.Errorf("incurred: %s", a.Body)
	}
	r.Key, r.StoredAt = "c4", w.now.Add(-13*time.Hour)
	if a, _ = w.ask(r); a.Dead != deadIncurred || a.Code != "unavailable" {
		t.Errorf("incurred long ago: %+v", a)
	}
	equal(t, "spent", w.counter("team", "tokens", "spent"), 5007)
}

func TestReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	equal(t, "rows", len(w.balance("")), 3)
	if a, _ := w.do("balance", "", `{"pool":"beside"}`); a.Code != "not_found" {
		t.Errorf("another's balance: %s", a.Body)
	}
	_, me := w.do("whoami", "", "")
	equal(t, "whoami", words(me["agent"], me["org"], me["pool"]), w.agent+" "+w.org+" team")

	var ids []string
	for i := range 5 {
		_, body := w.do("reserve", fmt.Sprint("r", i), `{"amounts":{"tokens":1,"calls":1},"target":"t","labels":{"a":"b"}}`)
		ids = append(ids, body["reservation"].(string))
	}
	_, one := w.do("reservation", "", `{"key":"r3"}`)
	equal(t, "one", words(one["reservation"], one["state"], one["agent"], one["pool"], one["target"]), ids[3]+" held "+w.agent+" team t")
	var got []string
	cursor := ""
	for pages := 0; pages < 4; pages++ {
		query := `{"limit":2}`
		if cursor != "" {
			query = `{"limit":2,"cursor":"` + cursor + `"}`
		}
		_, page := w.do("reservation", "", query)
		for _, r := range page["reservations"].([]any) {
			got = append(got, r.(map[string]any)["reservation"].(string))
		}
		next, ok := page["cursor"].(string)
		if !ok {
			break
		}
		cursor = next
	}
	equal(t, "pages", strings.Join(got, " "), strings.Join(sorted(ids...), " "))

	// Another agent's is not found, with the words of one that never was.
	stranger := uuid.Must(uuid.NewV7()).String()
	w.register(stranger, "team")
	r := w.request("reservation", "", `{"reservation":"`+ids[0]+`"}`)
	r.Agent = stranger
	foreign, _ := w.ask(r)
	none, _ := w.do("reservation", "", `{"reservation":"`+uuid.NewString()+`"}`)
	equal(t, "words", string(foreign.Body), string(none.Body))
	equal(t, "code", foreign.Code, "not_found")
}

func TestOneBatchManyVerbs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reqs := []*worker.Request{
		w.request("reserve", "a", `{"amounts":{"tokens":1,"calls":1}}`),
		w.request("reserve", "a", `{"amounts":{"tokens":1,"calls":1}}`),
		w.request("reserve", "b", `nope`),
		w.request("charge", "c", `{"actual":{"tokens":1,"calls":1}}`),
		w.request("balance", "", ``),
		w.request("route", "", ``),
	}
	answers := w.h.Handle(t.Context(), reqs)
	equal(t, "first", answers[0].Replayed, false)
	equal(t, "its repeat", answers[1].Replayed, true)
	equal(t, "malformed", answers[2].Code, "invalid_argument")
	equal(t, "charge", answers[3].Code, "")
	equal(t, "balance", answers[4].Code, "")
	equal(t, "unknown verb", answers[5].Code, "not_found")
}
