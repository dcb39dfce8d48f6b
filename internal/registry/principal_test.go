package registry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/registry"
)

func principal(name string, rev int64, managers ...string) registry.Principal {
	return registry.Principal{Org: org, Name: name, Managers: managers, Rev: rev, CreatedAt: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)}
}

func (w *world) manage(t testing.TB, name string, managers ...string) {
	t.Helper()
	p, revision, err := w.dir.Principal(t.Context(), org, name)
	must(t, err)
	must(t, w.dir.UpdatePrincipal(t.Context(), principal(name, p.Rev+1, managers...), revision))
}

func manages(t testing.TB, c *registry.Cache, org, name, agent string) bool {
	t.Helper()
	ok, err := c.Manages(t.Context(), org, name, agent)
	must(t, err)
	return ok
}

// follower is a cache that follows principals.
func (w *world) follower(t testing.TB) *registry.Cache {
	t.Helper()
	c := w.cache(t)
	must(t, c.FollowPrincipals(t.Context()))
	return c
}

func TestPrincipalNamesAreFreeText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{">", "a", "a*", "a.b", "customer 17/ü"}
	for _, n := range names {
		must(t, w.dir.CreatePrincipal(t.Context(), principal(n, 1, "m")))
	}
	if err := w.dir.CreatePrincipal(t.Context(), principal("a", 1)); !errors.Is(err, registry.ErrExists) {
		t.Errorf("again: %v", err)
	}
	other := principal("a", 1)
	other.Org = "acme2"
	must(t, w.dir.CreatePrincipal(t.Context(), other))
	all, err := w.dir.Principals(t.Context(), org)
	must(t, err)
	var got []string
	for _, p := range all {
		got = append(got, p.Name)
	}
	if d := cmp.Diff(names, got); d != "" {
		t.Error(d)
	}
	_, revision, err := w.dir.Principal(t.Context(), org, "a")
	must(t, err)
	w.manage(t, "a", "m", "n")
	if err := w.dir.UpdatePrincipal(t.Context(), principal("a", 2), revision); !errors.Is(err, registry.ErrConflict) {
		t.Errorf("stale: %v", err)
	}
}

// TestManagersComeAndGo: an added one may at once, a removed one no more once
// the watch has said so, and nobody may for a principal of another org.
func TestManagersComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreatePrincipal(t.Context(), principal("old", 1, "m")))
	for name, c := range map[string]*registry.Cache{"following": w.follower(t), "not following": w.cache(t)} {
		if !manages(t, c, org, "old", "m") || manages(t, c, org, "old", "n") || manages(t, c, "acme2", "old", "m") || manages(t, c, org, "none", "m") {
			t.Errorf("%s: wrong from the start", name)
		}
	}
	c := w.follower(t)
	for range 50 {
		w.manage(t, "old", "m", "n")
		if !manages(t, c, org, "old", "n") {
			t.Fatal("one that was added a moment ago may not")
		}
		w.manage(t, "old", "m")
		eventually(t, "a removed manager may no more", func() bool { return !manages(t, c, org, "old", "n") })
		if !manages(t, c, org, "old", "m") {
			t.Fatal("the one that stayed may not")
		}
	}
}

// TestOnlyWhatMemoryAllowsNeedsNoServer: without KV a known manager may, and
// of everybody else it is not known, which is no permission.
func TestOnlyWhatMemoryAllowsNeedsNoServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreatePrincipal(t.Context(), principal("p", 1, "m")))
	c := w.follower(t)
	w.nats.Stop()
	if !manages(t, c, org, "p", "m") {
		t.Error("a known manager may not")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, name := range []string{"p", "none"} {
		if ok, err := c.Manages(ctx, org, name, "n"); ok || !errors.Is(err, registry.ErrUnavailable) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}
