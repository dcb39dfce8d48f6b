package registry_test

import (
	"errors"
	"sync"
	"testing"

	"tallystick/internal/registry"
	"tallystick/pkg/events"
)

func pipeline(id string) registry.Pipeline {
	return registry.Pipeline{Org: org, ID: id, Name: "n", TokenHash: "hash-" + id}
}

func TestPipelineTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreateOrg(t.Context(), registry.Org{Name: org, Display: "Acme"}))
	must(t, w.dir.CreatePipeline(t.Context(), pipeline("a")))
	must(t, w.dir.CreateAgent(t.Context(), registry.Agent{Org: org, ID: "x", TokenHash: "hash-x"}))
	if o, id, err := w.dir.PipelineToken(t.Context(), "hash-a"); err != nil || o != org || id != "a" {
		t.Errorf("%s %s %v", o, id, err)
	}
	// Neither kind of token is ever the other's.
	if _, _, _, err := w.dir.Token(t.Context(), "hash-a"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("as an agent: %v", err)
	}
	if _, _, err := w.dir.PipelineToken(t.Context(), "hash-x"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("an agent as a pipeline: %v", err)
	}
	must(t, w.dir.RemovePipeline(t.Context(), pipeline("a")))
	if _, _, err := w.dir.PipelineToken(t.Context(), "hash-a"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("after the removal: %v", err)
	}
	if o, err := w.dir.Org(t.Context(), org); err != nil || o.Display != "Acme" || o.Pipelines {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestDecisionsAreKeptWhileThereIsAPipeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreateOrg(t.Context(), registry.Org{Name: org}))
	must(t, w.dir.CreateOrg(t.Context(), registry.Org{Name: "rival"}))
	must(t, w.dir.CreatePipeline(t.Context(), pipeline("early")))
	c := w.cache(t)
	if !c.KeepsDecisions(org) || c.KeepsDecisions("rival") || c.KeepsDecisions("nobody") {
		t.Error("what was there before is not known")
	}
	must(t, w.dir.CreatePipeline(t.Context(), pipeline("late")))
	must(t, w.dir.RemovePipeline(t.Context(), pipeline("early")))
	if o, err := w.dir.Org(t.Context(), org); err != nil || !o.Pipelines {
		t.Errorf("one is left: %+v, %v", o, err)
	}
	must(t, w.dir.RemovePipeline(t.Context(), pipeline("late")))
	eventually(t, "nobody reads them any more", func() bool { return !c.KeepsDecisions(org) })
	must(t, w.dir.CreatePipeline(t.Context(), pipeline("again")))
	eventually(t, "somebody reads them again", func() bool { return c.KeepsDecisions(org) })
}

// A pipeline that is made writes its org's mark anew, so that the removal of
// another one, which has read the org before, does not take it away.
func TestPipelineMadeDuringARemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.dir.CreateOrg(t.Context(), registry.Org{Name: org}))
	must(t, w.dir.CreatePipeline(t.Context(), pipeline("first")))
	orgs, err := w.js.KeyValue(t.Context(), events.BucketOrgs)
	must(t, err)
	before, err := orgs.Get(t.Context(), org)
	must(t, err)
	must(t, w.dir.CreatePipeline(t.Context(), pipeline("second")))
	after, err := orgs.Get(t.Context(), org)
	must(t, err)
	if after.Revision() == before.Revision() {
		t.Error("the mark was found and not written")
	}
	var both sync.WaitGroup
	both.Go(func() { must(t, w.dir.RemovePipeline(t.Context(), pipeline("first"))) })
	both.Go(func() { must(t, w.dir.RemovePipeline(t.Context(), pipeline("second"))) })
	both.Go(func() { must(t, w.dir.CreatePipeline(t.Context(), pipeline("third"))) })
	both.Wait()
	if o, err := w.dir.Org(t.Context(), org); err != nil || !o.Pipelines {
		t.Errorf("%+v, %v", o, err)
	}
}
