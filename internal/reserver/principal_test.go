package reserver

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"tallystick/internal/worker"
	"tallystick/pkg/events"
)

// acting is a world whose agent manages mine, and not others; foreign is
// another org's, where the same agent is named as its manager.
func acting(t *testing.T) *world {
	w := newWorld(t)
	w.dir.managers[[2]string{w.org, "mine"}] = []string{uuid.NewString(), w.agent}
	w.dir.managers[[2]string{w.org, "others"}] = []string{uuid.NewString()}
	w.dir.managers[[2]string{"o-other", "foreign"}] = []string{w.agent}
	return w
}

func bodyFor(verb, principal string) string {
	field := map[string]string{"reserve": "amounts", "charge": "actual"}[verb]
	return `{"` + field + `":{"tokens":5,"calls":1},"on_behalf_of":"` + principal + `"}`
}

func TestOnlyManagersActOnBehalf(t *testing.T) {
	t.Parallel()
	w := acting(t)
	for verb, outcome := range map[string]string{"reserve": "allowed", "charge": "charged"} {
		a, body := w.do(verb, w.fresh(), bodyFor(verb, "mine"))
		if body["outcome"] != outcome {
			t.Errorf("%s for mine: %s", verb, a.Body)
		}
		var words []string
		for _, name := range []string{"others", "foreign", "nobody"} {
			asked := w.dir.asked
			a, _ := w.do(verb, w.fresh(), bodyFor(verb, name))
			words = append(words, string(a.Body))
			if a.Code != string(events.CodeNotFound) || w.dir.asked != asked+1 {
				t.Errorf("%s for %s: %s, %d questions", verb, name, a.Body, w.dir.asked-asked)
			}
		}
		if want := string(events.NotFound("principal").Append(nil)); words[0] != want || words[1] != want || words[2] != want {
			t.Errorf("%s: %q, want %s", verb, words, want)
		}
	}
	// One reserve holds, one charge is spent: nothing was taken for others.
	equal(t, "held", w.counter("root", "tokens", "held"), 5)
	equal(t, "spent", w.counter("root", "tokens", "spent"), 5)
	if a, _ := w.do("reserve", "", `{"amounts":{"tokens":1,"calls":1},"dry_run":true,"on_behalf_of":"others"}`); a.Code != "not_found" {
		t.Errorf("dry run: %s", a.Body)
	}
	asked := w.dir.asked
	w.do("reserve", w.fresh(), `{"amounts":{"tokens":1,"calls":1}}`)
	equal(t, "questions for nobody's sake", w.dir.asked, asked)
}

// TestReplaysOutliveTheManager: what was allowed is answered again, and only
// that: not under another content, and nothing new.
func TestReplaysOutliveTheManager(t *testing.T) {
	t.Parallel()
	w := acting(t)
	for _, verb := range []string{"reserve", "charge"} {
		w.dir.managers[[2]string{w.org, "mine"}] = []string{w.agent}
		key := w.fresh()
		_, first := w.do(verb, key, bodyFor(verb, "mine"))
		w.dir.managers[[2]string{w.org, "mine"}] = nil
		a, again := w.do(verb, key, bodyFor(verb, "mine"))
		if !a.Replayed || again["outcome"] != first["outcome"] || again["reservation"] != first["reservation"] {
			t.Errorf("%s again: %s", verb, a.Body)
		}
		if a, _ := w.do(verb, key, bodyFor(verb, "others")); a.Code != "key_reused" {
			t.Errorf("%s, other content: %s", verb, a.Body)
		}
		if a, _ := w.do(verb, w.fresh(), bodyFor(verb, "mine")); a.Code != "not_found" {
			t.Errorf("%s, new: %s", verb, a.Body)
		}
	}
	equal(t, "taken once each", words(w.counter("root", "tokens", "held"), w.counter("root", "tokens", "spent")), "5 5")
}

// TestUnknownManagersDeny: what the registry cannot tell is an outage, waited
// out at the durable door, and no permission.
func TestUnknownManagersDeny(t *testing.T) {
	t.Parallel()
	w := acting(t)
	w.dir.managersDown = errors.New("KV is away")
	for _, verb := range []string{"reserve", "charge"} {
		r := w.request(verb, w.fresh(), bodyFor(verb, "mine"))
		if a, _ := w.ask(r); a.Code != "unavailable" {
			t.Errorf("%s at the direct door: %s", verb, a.Body)
		}
		r.Door = worker.Durable
		if a, _ := w.ask(r); a.Retry == 0 {
			t.Errorf("%s at the durable door: %s", verb, a.Body)
		}
	}
	equal(t, "taken", words(w.counter("root", "tokens", "held"), w.counter("root", "tokens", "spent")), "0 0")
}
