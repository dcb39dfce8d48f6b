package allinone

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// started is a role that says when it listens.
type started interface{ Started() <-chan struct{} }

// observed is a role that says how it is.
// held is a role that runs and waits for an operator, who needs the system
// started to help it.
type held interface{ Held() bool }

type observed interface{ Ready() error }

// probes are admin verbs that prove a worker answers: each is refused for its
// empty request, by the worker that serves it.
var probes = map[string]string{
	"registrar":  events.AdminAgentList,
	"settler":    events.AdminSettle,
	"reconciler": events.AdminLedger,
}

const probeEvery = 20 * time.Millisecond

// awaitReady returns when every worker answers, or says which do not.
func (s *System) awaitReady(ctx context.Context) error {
	var op *client.Operator
	defer func() {
		if op != nil {
			op.Close()
		}
	}()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		var missing []string
		if op == nil {
			// The callout is the registrar's, so this waits for the registrar.
			var err error
			if op, err = client.ConnectOperator(s.address.NATSURL, s.address.AdminToken); err != nil {
				op, missing = nil, append(missing, "registrar (sign-in: "+err.Error()+")")
			}
		}
		if op != nil {
			missing = s.missing(ctx, op)
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready in time; waiting for %s", strings.Join(missing, ", "))
		case err := <-s.failed:
			return err
		case <-tick.C:
		}
	}
}

func (s *System) missing(ctx context.Context, op *client.Operator) []string {
	var out []string
	for _, m := range s.members {
		if !m.answers(ctx, op) {
			out = append(out, m.worker)
		}
	}
	slices.Sort(out)
	return out
}

func (m *member) answers(ctx context.Context, op *client.Operator) bool {
	if r, ok := m.role.(started); ok {
		select {
		case <-r.Started():
		default:
			return false
		}
	}
	if r, ok := m.role.(held); ok && r.Held() {
		return true
	}
	if r, ok := m.role.(observed); ok && r.Ready() != nil {
		return false
	}
	verb, ok := probes[m.worker]
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := op.Do(ctx, verb, "probe", struct{}{})
	var answered *events.Error
	return err == nil || errors.As(err, &answered) && answered.Code != events.CodeUnavailable
}
