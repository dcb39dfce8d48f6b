package registrar

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
)

// pipelinesMax bounds an org's pipeline identities: each is a consumer that the
// server keeps.
const pipelinesMax = 32

// Consumers makes and ends the durable consumers of pipeline identities. Both
// are done again without harm.
type Consumers interface {
	Make(ctx context.Context, org, pipeline string) error
	End(ctx context.Context, org, pipeline string) error
}

// pipelineCreate makes the consumer first: an identity whose token works can
// fetch. A consumer whose identity was never written is nobody's, and reads
// nothing.
func (r *Registrar) pipelineCreate(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePipelineCreate(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.needOrg(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	all, err := r.cfg.Directory.Pipelines(ctx, q.Org)
	if err != nil {
		return nil, answerable(err)
	}
	if len(all) >= pipelinesMax {
		e := events.LimitExceeded("name")
		e.Message = fmt.Sprintf("an org has at most %d pipeline identities", pipelinesMax)
		return nil, e
	}
	// Unlike an agent's id this one is all chance: it names an inbox that
	// others share an account with.
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("pipeline id: %w", err)
	}
	token := topology.NewToken()
	p := registry.Pipeline{
		Org: q.Org, ID: id.String(), Name: q.Name, CreatedAt: now(),
		TokenHash: topology.TokenHash(token), TokenHint: topology.TokenHint(token),
	}
	if err = r.cfg.Consumers.Make(ctx, p.Org, p.ID); err == nil {
		err = r.cfg.Directory.CreatePipeline(ctx, p)
	}
	if err != nil {
		// Its token is lost, so nobody will ever use the consumer.
		_ = r.cfg.Consumers.End(ctx, p.Org, p.ID)
		return nil, answerable(err)
	}
	if err := r.administered(ctx, req, p.Org, p.ID); err != nil {
		return nil, answerable(err)
	}
	return events.PipelineCreateAnswer{
		Pipeline: p.ID, Org: p.Org, Name: p.Name, Token: token, Consumer: events.PipelineConsumer(p.Org, p.ID),
	}.Append(nil), nil
}

func (r *Registrar) pipelineList(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePipelineList(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.needOrg(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	all, err := r.cfg.Directory.Pipelines(ctx, q.Org)
	if err != nil {
		return nil, answerable(err)
	}
	var answer events.PipelineListAnswer
	for _, p := range all {
		answer.Pipelines = append(answer.Pipelines, events.PipelineRow{
			Pipeline: p.ID, Org: p.Org, Name: p.Name, Consumer: events.PipelineConsumer(p.Org, p.ID),
			CreatedAt: events.FormatMillis(p.CreatedAt), TokenHint: p.TokenHint,
		})
	}
	return bounded(answer.Append(nil), "pipelines")
}

// pipelineRemove ends the consumer first: who is connected fetches nothing from
// then on, and a removal that failed midway is found and done again.
func (r *Registrar) pipelineRemove(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodePipelineRemove(req.Body)
	if refused != nil {
		return nil, refused
	}
	p, err := r.cfg.Directory.Pipeline(ctx, q.Org, q.Pipeline)
	if err != nil {
		return nil, answerable(notFound(err, "pipeline", "pipeline"))
	}
	if err = r.cfg.Consumers.End(ctx, p.Org, p.ID); err == nil {
		err = r.cfg.Directory.RemovePipeline(ctx, p)
	}
	if err == nil {
		err = r.administered(ctx, req, p.Org, p.ID)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.PipelineRemoveAnswer{Outcome: events.OutcomeRemoved, Pipeline: p.ID}.Append(nil), nil
}
