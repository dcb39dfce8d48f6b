package worker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Admins knows the role of an org's admin, "" where there is no such active
// one. It is asked for every request: an open connection outlives the rights
// that it was given.
type Admins interface {
	AdminRole(ctx context.Context, org, admin string) (string, error)
}

// orgAdmin is who sends a request, where it is not the operator.
type orgAdmin struct{ org, id string }

// sender reads from the subject alone who asks, and reports whether the answer
// may go where it is wanted: into the sender's own inbox.
func sender(m *nats.Msg) (who orgAdmin, ok bool) {
	inbox := adminInbox
	if org, id, _, is := events.ParseOrgAdminSubject(m.Subject); is {
		who, inbox = orgAdmin{org, id}, events.AdminInboxPrefix(id)+"."
	} else if _, is := events.ParseAdminSubject(m.Subject); !is {
		return who, false
	}
	rest, ok := strings.CutPrefix(m.Reply, inbox)
	return who, ok && rest != "" && !strings.ContainsAny(rest, "*> \t")
}

// by is who stands in ledger entries.
func (o orgAdmin) by() string {
	if o.id == "" {
		return events.ByOperator
	}
	return o.id
}

// mayNot refuses what is not this admin's to ask: in the same words, whether it
// is another org, one that does not exist, a verb that its role lacks, or an
// admin who is one no more.
func (a *Admin) mayNot(ctx context.Context, who orgAdmin, r AdminRequest) error {
	if who.id == "" {
		return nil
	}
	org, refused := events.RequestOrg(r.Body)
	if refused != nil {
		return refused
	}
	role, err := a.cfg.Admins.AdminRole(ctx, who.org, who.id)
	if errors.Is(err, budget.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return events.Unavailable(agentRetryMS)
	}
	if err != nil {
		return err
	}
	if org != who.org || !slices.Contains(events.RoleVerbs(role), r.Verb) {
		e := events.NotFound("org")
		e.Field = "org"
		return e
	}
	return nil
}
