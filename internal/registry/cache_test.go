package registry_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/registry"
)

func names(path []registry.Pool) []string {
	var out []string
	for _, p := range path {
		out = append(out, fmt.Sprint(p.Name, " ", p.Rev))
	}
	return out
}

func TestCacheHoldsWhatWasThereAndFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreatePool(t.Context(), pool("root", "", 1, 100)))
	must(t, w.dir.CreatePool(t.Context(), pool("team", "root", 1, 50)))
	must(t, w.dir.CreateAgent(t.Context(), registry.Agent{Org: org, ID: "a", Pool: "team", TokenHash: "h"}))
	c := w.cache(t)
	a, err := c.Agent(t.Context(), org, "a")
	if err != nil || a.Pool != "team" {
		t.Fatalf("agent %+v, %v", a, err)
	}
	path, err := c.Path(t.Context(), org, "team")
	must(t, err)
	if d := cmp.Diff([]string{"team 1", "root 1"}, names(path)); d != "" {
		t.Fatal(d)
	}
	_, revision, err := w.dir.Pool(t.Context(), org, "root")
	must(t, err)
	must(t, w.dir.UpdatePool(t.Context(), pool("root", "", 2, 70), revision))
	eventually(t, "the path follows a change of its root", func() bool {
		path, err := c.Path(t.Context(), org, "team")
		return err == nil && path[1].Rev == 2 && *path[1].Limits[0].Cap == 70
	})
	a, revision, err = w.dir.Agent(t.Context(), org, "a")
	must(t, err)
	a.Name = "renamed"
	must(t, w.dir.UpdateAgent(t.Context(), a, revision))
	eventually(t, "the agent follows", func() bool {
		a, err := c.Agent(t.Context(), org, "a")
		return err == nil && a.Name == "renamed"
	})
}

// TestMissesFallThrough: what was written a moment ago is found at once, and
// what never was is not found.
func TestMissesFallThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.cache(t)
	if _, err := c.Agent(t.Context(), org, "nobody"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("agent: %v", err)
	}
	if _, err := c.Path(t.Context(), org, "nothing"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("path: %v", err)
	}
	if err := c.Reload(t.Context(), org, "nothing"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("reload: %v", err)
	}
	for i := range 50 {
		id := fmt.Sprint("p", i)
		must(t, w.dir.CreatePool(t.Context(), pool(id, "", 1, 1)))
		must(t, w.dir.CreateAgent(t.Context(), registry.Agent{Org: org, ID: id, Pool: id, TokenHash: id}))
		if _, err := c.Path(t.Context(), org, id); err != nil {
			t.Errorf("path %s: %v", id, err)
		}
		if _, err := c.Agent(t.Context(), org, id); err != nil {
			t.Errorf("agent %s: %v", id, err)
		}
		if _, _, _, err := c.Token(t.Context(), id); err != nil {
			t.Errorf("token %s: %v", id, err)
		}
	}
}

// TestReloadIsFresh: after it the path is what KV said, at every change, also
// while the watch delivers the same ones.
func TestReloadIsFresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreatePool(t.Context(), pool("root", "", 1, 1)))
	must(t, w.dir.CreatePool(t.Context(), pool("team", "root", 1, 1)))
	c := w.cache(t)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.Path(t.Context(), org, "team"); err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched() // the server is in this process
			}
		})
	}
	for rev := int64(2); rev < 40; rev++ {
		_, revision, err := w.dir.Pool(t.Context(), org, "root")
		must(t, err)
		must(t, w.dir.UpdatePool(t.Context(), pool("root", "", rev, rev), revision))
		must(t, c.Reload(t.Context(), org, "team"))
		path, err := c.Path(t.Context(), org, "team")
		must(t, err)
		if path[1].Rev < rev {
			t.Fatalf("after reload revision %d, want %d", path[1].Rev, rev)
		}
	}
	close(stop)
	readers.Wait()
}

// TestFollowsAcrossARestart: the watch goes on after the server was away.
func TestFollowsAcrossARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreatePool(t.Context(), pool("p", "", 1, 1)))
	c := w.cache(t)
	w.nats.Stop()
	if path, err := c.Path(t.Context(), org, "p"); err != nil || path[0].Rev != 1 {
		t.Errorf("while the server is away: %v, %v", names(path), err)
	}
	w.nats.Restart(t)
	eventually(t, "a change lands", func() bool {
		_, revision, err := w.dir.Pool(t.Context(), org, "p")
		return err == nil && w.dir.UpdatePool(t.Context(), pool("p", "", 2, 2), revision) == nil
	})
	eventually(t, "the cache sees it", func() bool {
		path, err := c.Path(t.Context(), org, "p")
		return err == nil && path[0].Rev == 2
	})
}

func TestOpenNeedsTheBuckets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.js.DeleteKeyValue(t.Context(), "tally_pools"))
	if c, err := registry.Open(t.Context(), w.js); err == nil {
		c.Close()
		t.Error("opened without pools")
	}
}

func BenchmarkHotPath(b *testing.B) {
	w := newWorld(b)
	must(b, w.dir.CreatePool(b.Context(), pool("root", "", 1, 1)))
	must(b, w.dir.CreatePool(b.Context(), pool("team", "root", 1, 1)))
	must(b, w.dir.CreateAgent(b.Context(), registry.Agent{Org: org, ID: "a", TokenHash: "h"}))
	c := w.cache(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Agent(b.Context(), org, "a"); err != nil {
				b.Error(err)
			}
			if _, err := c.Path(b.Context(), org, "team"); err != nil {
				b.Error(err)
			}
		}
	})
}
