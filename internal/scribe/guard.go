package scribe

import (
	"context"
	"errors"
	"fmt"

	"tallystick/internal/topology"
	"tallystick/pkg/events"
)

// errDrift: under the ledger's configuration history could be lost or changed.
var errDrift = errors.New("scribe does not write")

// guard checks the ledger's configuration as the server has it now.
func (s *Scribe) guard(ctx context.Context) error {
	cfg, err := s.cfg.Ledger.Config(ctx)
	if err != nil {
		return err
	}
	if err := topology.CheckLedger(cfg); err != nil {
		return fmt.Errorf("%w: %w", errDrift, err)
	}
	return nil
}

// drift says, once, that the configuration has drifted.
func (s *Scribe) drift(ctx context.Context, err error, before string) string {
	s.metrics.drift.Set(1)
	if err.Error() == before {
		return before
	}
	s.cfg.Log.Error().Err(err).Msg("ALARM: nothing is written until the ledger's configuration is repaired")
	at, nowErr := s.cfg.Store.Now(ctx)
	if nowErr != nil {
		return "" // it is said again
	}
	for _, org := range s.orgs(ctx) {
		id := fmt.Sprintf("config-drift-%s-%d", org, at.UnixMilli())
		s.tell(ctx, events.EventLedgerConfigDrift, id, org, func(head events.EventHead) events.EventMessage {
			return events.LedgerConfigDrift{EventHead: head, Stream: events.StreamLedger, Drift: err.Error()}
		})
	}
	return err.Error()
}
