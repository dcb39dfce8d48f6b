package registrar

import (
	"context"
	"errors"
	"time"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

const (
	retryAfterMS = 1000
	// answerMaxBytes keeps an answer below the server's largest message.
	answerMaxBytes = 900 << 10
)

func (r *Registrar) orgCreate(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeOrgCreate(req.Body)
	if refused != nil {
		return nil, refused
	}
	o := registry.Org{Name: q.Org, CreatedAt: now()}
	if q.Display != nil {
		o.Display = *q.Display
	}
	err := r.cfg.Directory.CreateOrg(ctx, o)
	if errors.Is(err, registry.ErrExists) {
		var old registry.Org
		old, err = r.cfg.Directory.Org(ctx, q.Org)
		if err == nil && q.Display != nil && *q.Display != old.Display {
			return nil, events.InvalidArgument("display", "the org exists with another display name", "leave display out, or repeat the first one")
		}
	}
	if err == nil {
		err = r.administered(ctx, req, q.Org, q.Org)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return events.OrgCreateAnswer{Outcome: events.OutcomeCreated, Org: q.Org}.Append(nil), nil
}

func (r *Registrar) orgSet(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeOrgSet(req.Body)
	if refused != nil {
		return nil, refused
	}
	if q == (events.OrgSet{Org: q.Org}) {
		return nil, events.InvalidArgument("", "nothing to change is named", "name display, depth_max, children_max or tree_max")
	}
	o, err := r.cfg.Directory.ChangeOrg(ctx, q.Org, func(o *registry.Org) {
		if q.Display != nil {
			o.Display = *q.Display
		}
		for _, c := range []struct{ to, from **int64 }{{&o.DepthMax, &q.DepthMax}, {&o.ChildrenMax, &q.ChildrenMax}, {&o.TreeMax, &q.TreeMax}} {
			if *c.from != nil {
				*c.to = *c.from
			}
		}
	})
	if err == nil {
		err = r.administered(ctx, req, q.Org, q.Org)
	}
	if err != nil {
		return nil, answerable(notFound(err, "org", "org"))
	}
	return orgAnswer(o), nil
}

func (r *Registrar) orgShow(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeOrgShow(req.Body)
	if refused != nil {
		return nil, refused
	}
	o, err := r.cfg.Directory.Org(ctx, q.Org)
	if err != nil {
		return nil, answerable(notFound(err, "org", "org"))
	}
	return orgAnswer(o), nil
}

func orgAnswer(o registry.Org) []byte {
	a := events.OrgAnswer{Org: o.Name, Display: o.Display, CreatedAt: events.FormatMillis(o.CreatedAt)}
	a.DepthMax, a.ChildrenMax, a.TreeMax = o.AgentLimits()
	return a.Append(nil)
}

// needOrg refuses an org that does not exist.
func (r *Registrar) needOrg(ctx context.Context, org string) error {
	_, err := r.cfg.Directory.Org(ctx, org)
	return notFound(err, "org", "org")
}

// notFound names what was not found, and in which field it was asked for.
func notFound(err error, what, field string) error {
	if !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	e := events.NotFound(what)
	e.Field = field
	return e
}

// answerable is an error as an operator gets it; what stays as it is becomes
// an internal one with an incident id.
func answerable(err error) error {
	if errors.Is(err, budget.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, registry.ErrConflict) {
		e := events.Unavailable(retryAfterMS)
		e.Message = err.Error()
		return e
	}
	return err
}

// bounded refuses an answer that no message can carry: a lost one would leave
// the operator waiting.
func bounded(body []byte, field string) ([]byte, error) {
	if len(body) > answerMaxBytes {
		e := events.LimitExceeded(field)
		e.Message = "the list is too long for one answer"
		return nil, e
	}
	return body, nil
}

// now is the time that records carry: what is shown of it is all there is.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
