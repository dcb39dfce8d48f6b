package registrar_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/pkg/events"
)

func (w *world) principal(verb, body string) events.Principal {
	w.t.Helper()
	var a events.PrincipalAnswer
	w.ok(verb, body, &a)
	return a.Principal
}

func TestPrincipalsAndTheirManagers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("p", 100)
	a, b := w.agent("").Agent, w.agent("").Agent // in the order of their making
	create := `{"org":"O","principal":"cust 17/ü","display":"Ada","managers":["` + b + `","` + a + `"]}`
	made := w.principal(events.AdminPrincipalCreate, create)
	if d := cmp.Diff([]string{a, b}, made.Managers); d != "" || made.Rev != 1 || made.Display != "Ada" || made.Org != w.org {
		t.Errorf("made %+v %s", made, d)
	}
	if again := w.principal(events.AdminPrincipalCreate, create); !cmp.Equal(made, again) {
		t.Errorf("again: %+v", again)
	}
	for _, other := range []string{`,"display":"Ada"`, `,"managers":["` + a + `","` + b + `"]`, ``} {
		if got := w.refused(events.AdminPrincipalCreate, `{"org":"O","principal":"cust 17/ü"`+other+`}`); got != "invalid_argument principal" {
			t.Errorf("other content %s: %s", other, got)
		}
	}
	set := `{"org":"O","principal":"cust 17/ü","remove":["` + b + `"],"display":"Ada B."}`
	now := w.principal(events.AdminPrincipalSet, set)
	if d := cmp.Diff([]string{a}, now.Managers); d != "" || now.Rev != 2 || now.Display != "Ada B." || now.CreatedAt != made.CreatedAt {
		t.Errorf("set: %+v %s", now, d)
	}
	if again := w.principal(events.AdminPrincipalSet, set); !cmp.Equal(now, again) {
		t.Errorf("set again: %+v", again)
	}
	if shown := w.principal(events.AdminPrincipalShow, `{"org":"O","principal":"cust 17/ü"}`); !cmp.Equal(now, shown) {
		t.Errorf("shown: %+v", shown)
	}
	alone := w.principal(events.AdminPrincipalCreate, `{"org":"O","principal":"b"}`)
	var list events.PrincipalListAnswer
	w.ok(events.AdminPrincipalList, `{"org":"O"}`, &list)
	if d := cmp.Diff([]events.Principal{alone, now}, list.Principals); d != "" {
		t.Error(d)
	}
}

func TestBadPrincipalsAreRefused(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	w.pool("p", 100)
	other.pool("p", 100)
	mine, stranger := w.agent("").Agent, other.agent("").Agent
	w.principal(events.AdminPrincipalCreate, `{"org":"O","principal":"c","managers":["`+mine+`"]}`)
	other.principal(events.AdminPrincipalCreate, `{"org":"O","principal":"theirs"}`)
	for _, c := range []struct{ verb, body, want string }{
		{events.AdminPrincipalCreate, `{"org":"nobody","principal":"c"}`, "not_found org"},
		{events.AdminPrincipalCreate, `{"org":"O","principal":"d","managers":["` + stranger + `"]}`, "not_found managers"},
		{events.AdminPrincipalSet, `{"org":"O","principal":"c","add":["` + stranger + `"]}`, "not_found add"},
		{events.AdminPrincipalSet, `{"org":"O","principal":"c","remove":["` + stranger + `"]}`, "not_found remove"},
		{events.AdminPrincipalSet, `{"org":"O","principal":"c","add":[]}`, "invalid_argument"},
		{events.AdminPrincipalSet, `{"org":"O","principal":"theirs","display":"x"}`, "not_found principal"},
		{events.AdminPrincipalShow, `{"org":"O","principal":"theirs"}`, "not_found principal"},
		{events.AdminPrincipalShow, `{"org":"O","principal":"none"}`, "not_found principal"},
		{events.AdminPrincipalList, `{"org":"nobody"}`, "not_found org"},
	} {
		if got := w.refused(c.verb, c.body); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.verb, c.body, got, c.want)
		}
	}
	if p := w.principal(events.AdminPrincipalShow, `{"org":"O","principal":"c"}`); p.Rev != 1 || len(p.Managers) != 1 {
		t.Errorf("a refused change changed it: %+v", p)
	}
}

// TestManyMayChangeAPrincipal: nobody's change is lost, and the bound holds.
func TestManyMayChangeAPrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("p", 100)
	var ids []string
	for range events.MaxManagers {
		ids = append(ids, w.agent("").Agent)
	}
	w.principal(events.AdminPrincipalCreate, `{"org":"O","principal":"c"}`)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if err := w.ask(events.AdminPrincipalSet, `{"org":"O","principal":"c","add":["`+ids[i]+`"]}`, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	full := w.principal(events.AdminPrincipalSet, fmt.Sprintf(`{"org":"O","principal":"c","add":["%s"]}`, strings.Join(ids[4:], `","`)))
	if d := cmp.Diff(ids, full.Managers); d != "" {
		t.Error(d)
	}
	if got := w.refused(events.AdminPrincipalSet, `{"org":"O","principal":"c","add":["`+w.agent("").Agent+`"]}`); got != "limit_exceeded managers" {
		t.Error(got)
	}
}
