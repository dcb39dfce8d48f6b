package allinone

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/ledger"
	"tallystick/internal/topology"
	"tallystick/pkg/redisx"
)

// LaunchHeld starts the workers that UpConfig.Held kept back, and returns when
// they answer.
func (s *System) LaunchHeld(ctx context.Context) error {
	held := s.held
	s.held = nil
	for _, m := range held {
		s.members = append(s.members, m)
		if err := s.launch(ctx, m, s.set); err != nil {
			return fmt.Errorf("%s: %w", m.worker, err)
		}
	}
	return s.awaitReady(ctx)
}

// LedgerLast is the stream sequence of the newest ledger entry, as the
// reconciler sees it; 0 for none.
func (s *System) LedgerLast(ctx context.Context) (uint64, error) {
	i := s.index(topology.Reconciler)
	if i < 0 || s.members[i].shell == nil {
		return 0, fmt.Errorf("no %s", topology.Reconciler)
	}
	l, err := ledger.Open(ctx, s.members[i].shell.JetStream)
	if err != nil {
		return 0, err
	}
	tail, _, err := l.Tail(ctx)
	return tail.StreamSeq, err
}

// Borrow gives a running worker's connections to whoever measures its parts
// alone, with the worker's rights.
func (s *System) Borrow(worker string) (jetstream.JetStream, *redisx.Store, error) {
	i := s.index(worker)
	if i < 0 || s.members[i].shell == nil {
		return nil, nil, fmt.Errorf("no %s", worker)
	}
	return s.members[i].shell.JetStream, s.members[i].shell.Store, nil
}
