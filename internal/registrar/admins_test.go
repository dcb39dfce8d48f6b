package registrar_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"tallystick/internal/testkit"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

func (w *world) admin(name, role string) events.AdminTokenAnswer {
	w.t.Helper()
	var a events.AdminTokenAnswer
	w.ok(events.AdminAdminAdd, `{"org":"O","name":"`+name+`","role":"`+role+`"}`, &a)
	return a
}

// roles lists an org's admins as name, role and whether they are active.
func (w *world) roles() string {
	w.t.Helper()
	var list events.AdminListAnswer
	w.ok(events.AdminAdminList, `{"org":"O"}`, &list)
	var out []string
	for _, a := range list.Admins {
		state := "removed"
		if a.Active {
			state = "active"
		}
		out = append(out, a.Name+" "+a.Role+" "+state)
	}
	return strings.Join(out, ", ")
}

// role is whose token it is, as the callout asks.
func (w *world) role(token string) string {
	w.t.Helper()
	org, _, role, err := w.dir.AdminToken(w.t.Context(), topology.TokenHash(token))
	if err != nil {
		return err.Error()
	}
	if org != w.org {
		w.t.Errorf("of org %s", org)
	}
	return role
}

const gone = "registry: not found"

func TestAdmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, vic := w.admin("ada", "admin"), w.admin("vic", "viewer")
	if w.role(ada.Token) != "admin" || w.role(vic.Token) != "viewer" || !events.ValidAgent(ada.Admin) {
		t.Errorf("%s, %s", w.role(ada.Token), w.role(vic.Token))
	}
	// The same again is the same admin with a fresh token.
	again := w.admin("ada", "admin")
	if again.Admin != ada.Admin || w.role(again.Token) != "admin" || w.role(ada.Token) != gone {
		t.Errorf("%+v against %+v: %s", again, ada, w.role(ada.Token))
	}
	named := func(a events.AdminTokenAnswer) string { return `{"org":"O","admin":"` + a.Admin + `"}` }
	var rotated events.AdminTokenAnswer
	w.ok(events.AdminAdminRotate, named(vic), &rotated)
	if rotated.Admin != vic.Admin || w.role(rotated.Token) != "viewer" || w.role(vic.Token) != gone {
		t.Errorf("rotated: %+v", rotated)
	}
	set := func(a events.AdminTokenAnswer, role string) string {
		return `{"org":"O","admin":"` + a.Admin + `","role":"` + role + `"}`
	}
	w.ok(events.AdminAdminSet, set(vic, "admin"), nil)
	w.ok(events.AdminAdminSet, set(ada, "viewer"), nil)
	if got := w.roles(); got != "ada viewer active, vic admin active" {
		t.Error(got)
	}
	w.ok(events.AdminAdminRemove, named(ada), nil)
	w.ok(events.AdminAdminRemove, named(ada), nil)
	if got := w.roles(); got != "ada viewer removed, vic admin active" || w.role(again.Token) != gone {
		t.Error(got, w.role(again.Token))
	}
	w.admin("aud", "auditor")
	never := uuid.NewString()
	for _, row := range []struct{ verb, body, want string }{
		{events.AdminAdminRemove, named(vic), "limit_exceeded admin"},
		{events.AdminAdminSet, set(vic, "viewer"), "limit_exceeded admin"},
		{events.AdminAdminSet, set(vic, "auditor"), "limit_exceeded admin"}, // one that is there already counts for nothing
		{events.AdminAdminAdd, `{"org":"O","name":"vic","role":"viewer"}`, "invalid_argument role"},
		{events.AdminAdminRotate, named(ada), "not_found admin"},
		{events.AdminAdminSet, set(ada, "admin"), "not_found admin"},
		{events.AdminAdminRemove, `{"org":"O","admin":"` + never + `"}`, "not_found admin"},
		{events.AdminAdminRemove, `{"org":"nowhere","admin":"` + vic.Admin + `"}`, "not_found admin"},
		{events.AdminAdminAdd, `{"org":"nowhere","name":"n"}`, "not_found org"},
		{events.AdminAdminList, `{"org":"nowhere"}`, "not_found org"},
	} {
		if got := w.refused(row.verb, row.body); got != row.want {
			t.Errorf("%s %s: %s, want %s", row.verb, row.body, got, row.want)
		}
	}
	if w.role(rotated.Token) != "admin" {
		t.Error("the last admin is none any more")
	}
}

// Of two last admins, removed and demoted by two hundred at once, one is left.
func TestLastAdmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := []string{w.admin("ada", "admin").Admin, w.admin("bob", "admin").Admin}
	// Another registrar of the same installation, which shares only KV.
	verbs := []map[string]worker.AdminFunc{w.reg.Verbs(), w.registrar(t).Verbs()}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			verb, body := events.AdminAdminRemove, `{"org":"`+w.org+`","admin":"`+two[i%2]+`"}`
			if i%3 == 0 {
				verb, body = events.AdminAdminSet, `{"org":"`+w.org+`","admin":"`+two[i%2]+`","role":"viewer"}`
			}
			_, err := verbs[i/2%2][verb](t.Context(), worker.AdminRequest{Verb: verb, By: events.ByOperator, Body: []byte(body)})
			var e *events.Error
			if err != nil && (!errors.As(err, &e) || e.Code != events.CodeLimitExceeded && e.Code != events.CodeNotFound) {
				t.Errorf("%s: %v", verb, err)
			}
		})
	}
	wg.Wait()
	if got := w.roles(); strings.Count(got, "admin active") != 1 {
		t.Errorf("left: %s", got)
	}
}

// Every change is on the ledger with who and why, also where the registrar
// brings it to Redis later.
func TestWhoAndWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	by := uuid.NewString()
	act := func(verb, body string, into any) {
		t.Helper()
		answer, err := w.reg.Verbs()[verb](t.Context(), worker.AdminRequest{
			Verb: verb, By: by, Why: "wegen " + verb, Body: []byte(strings.ReplaceAll(body, `"O"`, `"`+w.org+`"`)),
		})
		must(t, err)
		if into != nil {
			must(t, json.Unmarshal(answer, into))
		}
	}
	act(events.AdminPoolCreate, `{"org":"O","pool":"p","limits":[{"unit":"tokens","cap":9}]}`, nil)
	act(events.AdminPoolSet, `{"org":"O","pool":"p","cap":10}`, nil)
	act(events.AdminPoolFreeze, `{"org":"O","pool":"p"}`, nil)
	var a events.AgentRegisterAnswer
	act(events.AdminAgentRegister, `{"org":"O","name":"n","pool":"p"}`, &a)
	act(events.AdminAgentRotate, `{"org":"O","agent":"`+a.Agent+`"}`, nil)
	act(events.AdminAgentRevoke, `{"org":"O","agent":"`+a.Agent+`"}`, nil)
	act(events.AdminAdminAdd, `{"org":"O","name":"ada"}`, nil)
	got := w.outbox()
	for _, want := range []string{
		`administered {"action":"org_create","by":"operator","subject":"` + w.org + `"}`,
		`"by":"` + by + `","why":"wegen pool_create"}`, `"by":"` + by + `","why":"wegen pool_set"}`, `"by":"` + by + `","why":"wegen pool_freeze"}`,
		`"by":"` + by + `","why":"wegen agent_register"}`, `{"by":"` + by + `","why":"wegen agent_revoke"}`,
		`administered {"action":"agent_rotate","by":"` + by + `","why":"wegen agent_rotate","subject":"` + a.Agent + `"}`,
		`administered {"action":"admin_add","by":"` + by + `","why":"wegen admin_add","subject":"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
}

// A policy that nobody is on record for is the registrar's own doing, and one
// that its author could not bring to Redis is still the author's.
func TestWhoAppliedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("p", 5)
	p, revision, err := w.dir.Pool(t.Context(), w.org, "p")
	must(t, err)
	p.Rev, p.By, p.Why = 2, "someone", "a crash came between"
	must(t, w.dir.UpdatePool(t.Context(), p, revision))
	eventually(t, "it is applied", func() bool { return strings.Contains(w.outbox(), `"by":"someone","why":"a crash came between"}`) })
	p, revision, err = w.dir.Pool(t.Context(), w.org, "p")
	must(t, err)
	p.Rev, p.By, p.Why = 3, "", ""
	must(t, w.dir.UpdatePool(t.Context(), p, revision))
	eventually(t, "it is applied", func() bool { return strings.Contains(w.outbox(), `"by":"registrar"}`) })
}

// A change whose entry cannot be written is answered unavailable, and the
// repetition writes it.
func TestEntryNotWritten(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, testkit.OwnRedis(t).Client(t)) // a fence is for all orgs of a partition
	w.run(t)
	w.ok(events.AdminOrgCreate, `{"org":"O"}`, nil)
	w.admin("ada", "admin")
	bob := w.admin("bob", "admin")
	partition := w.store.Partition(w.org)
	remove := `{"org":"O","admin":"` + bob.Admin + `"}`
	must(t, w.store.Fence(t.Context(), partition, "test"))
	if got := w.refused(events.AdminAdminRemove, remove); got != "unavailable" {
		t.Error(got)
	}
	must(t, w.store.Unfence(t.Context(), partition))
	if w.role(bob.Token) != gone {
		t.Error("the removal waits for its entry")
	}
	if got := w.outbox(); strings.Contains(got, events.AdminAdminRemove) {
		t.Errorf("written all the same: %s", got)
	}
	w.ok(events.AdminAdminRemove, remove, nil)
	if got := w.outbox(); !strings.Contains(got, `{"action":"admin_remove","by":"operator","subject":"`+bob.Admin+`"}`) {
		t.Errorf("not written: %s", got)
	}
}

// outbox is kind and detail of every entry of the org that waits for the
// scribe, of which there is none here.
func (w *world) outbox() string {
	w.t.Helper()
	p := w.store.Partition(w.org)
	entries, err := w.redis.XRange(w.t.Context(), "outbox:{p"+string([]byte{'0' + byte(p/10), '0' + byte(p%10)})+"}", "-", "+").Result()
	must(w.t, err)
	var out strings.Builder
	for _, m := range entries {
		text, _ := m.Values["e"].(string)
		e, err := redisx.ParseEntry(p, m.ID, text)
		must(w.t, err)
		if e.Org == w.org {
			out.WriteString(string(e.Kind) + " " + string(e.Detail) + "\n")
		}
	}
	return out.String()
}
