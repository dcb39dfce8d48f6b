package registrar_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/pkg/events"
)

func TestPipelines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var p events.PipelineCreateAnswer
	w.ok(events.AdminPipelineCreate, `{"org":"O","name":"nightly"}`, &p)
	if p.Org != w.org || p.Name != "nightly" || !topology.ValidToken(p.Token) || p.Consumer != w.org+"_"+p.Pipeline {
		t.Errorf("%+v", p)
	}
	org, id, err := w.dir.PipelineToken(t.Context(), topology.TokenHash(p.Token))
	if err != nil || org != w.org || id != p.Pipeline {
		t.Errorf("%s %s %v", org, id, err)
	}
	c, err := w.js.Consumer(t.Context(), events.StreamDecisions, p.Consumer)
	must(t, err)
	cfg := c.CachedInfo().Config
	if cfg.FilterSubject != "tally.v1.decision."+w.org+".*.*" || cfg.AckPolicy != jetstream.AckExplicitPolicy || cfg.MaxDeliver != -1 || cfg.MaxAckPending != 1000 {
		t.Errorf("%+v", cfg)
	}
	var list events.PipelineListAnswer
	w.ok(events.AdminPipelineList, `{"org":"O"}`, &list)
	if len(list.Pipelines) != 1 || list.Pipelines[0].Pipeline != p.Pipeline || list.Pipelines[0].TokenHint != topology.TokenHint(p.Token) {
		t.Errorf("%+v", list)
	}
	var removed events.PipelineRemoveAnswer
	w.ok(events.AdminPipelineRemove, `{"org":"O","pipeline":"`+p.Pipeline+`"}`, &removed)
	if removed.Outcome != events.OutcomeRemoved {
		t.Errorf("%+v", removed)
	}
	if _, err := w.js.Consumer(t.Context(), events.StreamDecisions, p.Consumer); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("its consumer: %v", err)
	}
	if _, _, err := w.dir.PipelineToken(t.Context(), topology.TokenHash(p.Token)); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("its token: %v", err)
	}
}

func TestBadPipelinesAreRefused(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	var foreign events.PipelineCreateAnswer
	other.ok(events.AdminPipelineCreate, `{"org":"O","name":"n"}`, &foreign)
	for _, c := range []struct{ verb, body, want string }{
		{events.AdminPipelineCreate, `{"org":"nobody","name":"n"}`, "not_found org"},
		{events.AdminPipelineCreate, `{"org":"O"}`, "invalid_argument name"},
		{events.AdminPipelineCreate, `{"org":"O","name":"n","consumer":"x"}`, "invalid_argument consumer"},
		{events.AdminPipelineList, `{"org":"nobody"}`, "not_found org"},
		{events.AdminPipelineRemove, `{"org":"O","pipeline":"` + foreign.Pipeline + `"}`, "not_found pipeline"},
		{events.AdminPipelineRemove, `{"org":"nobody","pipeline":"` + foreign.Pipeline + `"}`, "not_found pipeline"},
	} {
		if got := w.refused(c.verb, c.body); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.verb, c.body, got, c.want)
		}
	}
	for range 32 {
		w.ok(events.AdminPipelineCreate, `{"org":"O","name":"n"}`, nil)
	}
	if got := w.refused(events.AdminPipelineCreate, `{"org":"O","name":"n"}`); got != "limit_exceeded name" {
		t.Error(got)
	}
}
