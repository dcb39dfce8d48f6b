package registry_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/registry"
)

func TestOrgIsCreatedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.dir.Org(t.Context(), org); !errors.Is(err, registry.ErrNotFound) {
		t.Fatalf("before: %v", err)
	}
	o := registry.Org{Name: org, Display: "Acme Ltd", CreatedAt: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)}
	must(t, w.dir.CreateOrg(t.Context(), o))
	if err := w.dir.CreateOrg(t.Context(), registry.Org{Name: org}); !errors.Is(err, registry.ErrExists) {
		t.Fatalf("again: %v", err)
	}
	got, err := w.dir.Org(t.Context(), org)
	must(t, err)
	if d := cmp.Diff(o, got); d != "" {
		t.Error(d)
	}
}

func TestPoolNamesAreFreeText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"a.b", "a*", ">", "ü ber/数", "a", "A", "research team", "-"}
	for _, n := range names {
		must(t, w.dir.CreatePool(t.Context(), pool(n, "", 1, 5)))
	}
	other := pool("a", "", 1, 7)
	other.Org = "acme2"
	must(t, w.dir.CreatePool(t.Context(), other))
	for _, n := range names {
		p, _, err := w.dir.Pool(t.Context(), org, n)
		must(t, err)
		if d := cmp.Diff(pool(n, "", 1, 5), p); d != "" {
			t.Error(d)
		}
	}
	mine, err := w.dir.Pools(t.Context(), org)
	must(t, err)
	all, err := w.dir.Pools(t.Context(), "")
	must(t, err)
	if len(mine) != len(names) || len(all) != len(names)+1 {
		t.Errorf("%d and %d pools", len(mine), len(all))
	}
	none, err := w.dir.Pools(t.Context(), "nobody")
	if err != nil || len(none) != 0 {
		t.Errorf("of nobody: %v, %v", none, err)
	}
}

// TestUpdatesDoNotOverwrite: of many that change one revision, one does.
func TestUpdatesDoNotOverwrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreatePool(t.Context(), pool("p", "", 1, 5)))
	_, revision, err := w.dir.Pool(t.Context(), org, "p")
	must(t, err)
	results := make([]error, 16)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = w.dir.UpdatePool(t.Context(), pool("p", "", 2, int64(100+i)), revision) })
	}
	all.Wait()
	won := -1
	for i, err := range results {
		if err == nil && won >= 0 {
			t.Fatalf("both %d and %d won", won, i)
		}
		if err == nil {
			won = i
		} else if !errors.Is(err, registry.ErrConflict) {
			t.Errorf("%d: %v", i, err)
		}
	}
	p, _, err := w.dir.Pool(t.Context(), org, "p")
	must(t, err)
	if won < 0 || *p.Limits[0].Cap != int64(100+won) {
		t.Errorf("%d won, cap %d", won, *p.Limits[0].Cap)
	}
}

func TestPathEndsAtTheRootOrTheBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent := ""
	for i := range registry.PoolDepthMax + 1 {
		name := fmt.Sprintf("p%d", i)
		must(t, w.dir.CreatePool(t.Context(), pool(name, parent, 1, 5)))
		parent = name
	}
	path, err := w.dir.Path(t.Context(), org, "p7")
	must(t, err)
	if len(path) != registry.PoolDepthMax || path[0].Name != "p7" || path[7].Name != "p0" {
		t.Errorf("path %v", path)
	}
	if _, err := w.dir.Path(t.Context(), org, "p8"); err == nil {
		t.Error("a path longer than the bound was given")
	}
}

func TestTokenLeadsToItsAgentUntilRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := registry.Agent{Org: org, ID: "0196b7a0-0000-7000-8000-000000000001", Name: "n", Pool: "p", TokenHash: "aa", TokenHint: "aaaa"}
	a.Root = a.ID
	must(t, w.dir.CreateAgent(t.Context(), a))
	who := func(hash string) string {
		o, id, expires, err := w.dir.Token(t.Context(), hash)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(o, " ", id, " ", expires.IsZero())
	}
	found, gone := org+" "+a.ID+" true", registry.ErrNotFound.Error()
	if got := who("aa"); got != found {
		t.Errorf("first token: %s", got)
	}
	old, revision, err := w.dir.Agent(t.Context(), org, a.ID)
	must(t, err)
	must(t, w.dir.RotateToken(t.Context(), old, revision, "bb", "bbbb", time.Time{}))
	if got := who("aa"); got != gone {
		t.Errorf("old token: %s", got)
	}
	if got := who("bb"); got != found {
		t.Errorf("new token: %s", got)
	}
	// A rotation that lost the race leaves a record that leads nowhere.
	if err := w.dir.RotateToken(t.Context(), old, revision, "cc", "cccc", time.Time{}); !errors.Is(err, registry.ErrConflict) {
		t.Fatalf("stale rotation: %v", err)
	}
	if got := who("cc"); got != gone {
		t.Errorf("token of a lost rotation: %s", got)
	}
	if got := who("bb"); got != found {
		t.Errorf("after a lost rotation: %s", got)
	}
}

// TestOldTokenWorksForTheOverlap: the old token ends when it was told to, and
// one that is older still ends at once.
func TestOldTokenWorksForTheOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := registry.Agent{Org: org, ID: "0196b7a0-0000-7000-8000-000000000002", Name: "n", Pool: "p", TokenHash: "t1"}
	must(t, w.dir.CreateAgent(t.Context(), a))
	rotate := func(hash string, until time.Time) {
		a, revision, err := w.dir.Agent(t.Context(), org, a.ID)
		must(t, err)
		must(t, w.dir.RotateToken(t.Context(), a, revision, hash, hash, until))
	}
	ends := func(hash string) string {
		_, _, expires, err := w.dir.Token(t.Context(), hash)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(expires.UnixMilli())
	}
	soon, never := time.Now().Add(time.Hour).Truncate(time.Millisecond), fmt.Sprint(time.Time{}.UnixMilli())
	rotate("t2", soon)
	if old, fresh := ends("t1"), ends("t2"); old != fmt.Sprint(soon.UnixMilli()) || fresh != never {
		t.Errorf("old %s, new %s", old, fresh)
	}
	rotate("t3", time.Now().Add(-time.Millisecond))
	gone := registry.ErrNotFound.Error()
	if got := []string{ends("t1"), ends("t2"), ends("t3")}; got[0] != gone || got[1] != gone || got[2] != never {
		t.Errorf("after the second rotation: %q", got)
	}
}

func TestTokenEndsWithItsAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	for hash, expires := range map[string]time.Time{"later": soon, "past": time.Now().Add(-time.Second)} {
		must(t, w.dir.CreateAgent(t.Context(), registry.Agent{Org: org, ID: hash, TokenHash: hash, ExpiresAt: expires}))
	}
	if _, _, expires, err := w.dir.Token(t.Context(), "later"); err != nil || !expires.Equal(soon) {
		t.Errorf("later: %v, %v", expires, err)
	}
	if _, _, _, err := w.dir.Token(t.Context(), "past"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("past: %v", err)
	}
}

// TestEpochIsMadeOnce: whoever made it is told so, everybody gets the same.
func TestEpochIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if epoch, err := w.dir.Epoch(t.Context(), 7); err != nil || epoch != "" {
		t.Fatalf("before: %q, %v", epoch, err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	epochs, makers := map[string]bool{}, 0
	for range 8 {
		all.Go(func() {
			epoch, created, err := w.dir.EnsureEpoch(t.Context(), 7)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			epochs[epoch] = true
			if created {
				makers++
			}
		})
	}
	all.Wait()
	if len(epochs) != 1 || makers != 1 {
		t.Errorf("%d epochs, %d makers", len(epochs), makers)
	}
	again, err := w.dir.CreateEpoch(t.Context(), 7)
	if err != nil || !epochs[again] {
		t.Errorf("again: %q, %v", again, err)
	}
}

func TestOutOfReachIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nats.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := w.dir.Pool(ctx, org, "p"); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
}
