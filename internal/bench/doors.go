package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tallystick/internal/topology"
)

// Rows of the doors; others refer to them.
const (
	groupDoors      = "doors"
	rowDirectPaused = "direct door, scribe paused"
	rowDirect       = "direct door, ledger written"
	rowStoredPaused = "durable door, scribe paused"
	rowDurable      = "durable door, ledger written"
	rowLifecycle    = "reserve and settle, direct door, ledger written"
	rowScribe       = "ledger entries through the scribe"
)

const (
	drainPoll = 50 * time.Millisecond
	drainMax  = time.Minute
)

// sizes are the numbers of clients of the table.
func sizes() []int { return []int{1, 64, clientsMax} }

// doors measures the whole system: first without the scribe, so that only the
// decision is seen; then the scribe on what has gathered; then everything.
func (b *run) doors(ctx context.Context) error {
	if err := b.on(ctx, "paused", b.pausedDoors, topology.Scribe); err != nil {
		return err
	}
	return b.on(ctx, "sustained", func(ctx context.Context, s *system) error {
		for _, door := range []struct{ kind, name string }{{DoorDirect, rowDirect}, {DoorDurable, rowDurable}} {
			for _, clients := range sizes() {
				if err := b.sustained(ctx, s, door.name, loadSpec{Kind: door.kind, Clients: clients}); err != nil {
					return err
				}
			}
		}
		if err := b.sustained(ctx, s, rowLifecycle, loadSpec{Kind: loadDirect, Clients: clientsMax, Lifecycle: true}); err != nil {
			return err
		}
		return b.doorRace(ctx, s)
	})
}

// on runs one part on a system of its own, in a folder that is gone
// afterwards.
func (b *run) on(ctx context.Context, name string, part func(context.Context, *system) error, held ...string) (err error) {
	dir := filepath.Join(b.cfg.Dir, name)
	s, err := startSystem(ctx, dir, held...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(), os.RemoveAll(dir)) }()
	return part(ctx, s)
}

// load fills in what every load of a system needs, and runs it.
func (b *run) load(ctx context.Context, s *system, spec loadSpec, edge func(bool) error) ([]window, error) {
	s.loads++
	spec.NATSURL, spec.Run, spec.Warm, spec.Window = s.address.NATSURL, s.loads, settleWindow, b.cfg.Window
	return b.generate(ctx, spec, s.redis, edge)
}

func (b *run) pausedDoors(ctx context.Context, s *system) error {
	for _, door := range []struct{ kind, name string }{{DoorDirect, rowDirectPaused}, {DoorDurable, rowStoredPaused}} {
		for _, clients := range sizes() {
			if err := b.paused(ctx, s, door.name, loadSpec{Kind: door.kind, Clients: clients, Requests: requestsMax}); err != nil {
				return err
			}
		}
	}
	return b.scribe(ctx, s)
}

// paused measures a load while nothing reaches the ledger. Each load has an
// org, hence an outbox, of its own.
func (b *run) paused(ctx context.Context, s *system, name string, spec loadSpec) error {
	var err error
	if spec.Org, spec.Agents, err = s.newOrg(ctx, unlimited); err != nil {
		return err
	}
	spec.Windows = b.cfg.Windows
	windows, err := b.load(ctx, s, spec, nil)
	if err != nil {
		return err
	}
	r := rowOf(groupDoors, name, spec.Clients, windows)
	r.Note = failures(windows)
	b.add(r)
	return b.rawAgain(ctx)
}

// scribe starts the scribe on filled outboxes and times it.
func (b *run) scribe(ctx context.Context, s *system) error {
	have, err := s.written(ctx)
	if err != nil {
		return err
	}
	if missing := int64(b.cfg.Drain) - have; missing > 0 {
		org, agents, err := s.newOrg(ctx, unlimited)
		if err != nil {
			return err
		}
		spec := loadSpec{Kind: loadDirect, Clients: clientsMax, Org: org, Agents: agents, Requests: missing}
		if _, err := b.load(ctx, s, spec, nil); err != nil {
			return err
		}
	}
	store, err := redisCPU(ctx, s.redis)
	if err != nil {
		return err
	}
	own, start := ownCPU(), time.Now()
	if err := s.up.LaunchHeld(ctx); err != nil {
		return err
	}
	last, err := b.drain(ctx, s)
	if err != nil {
		return err
	}
	w := window{count: int(last), took: time.Since(start), own: ownCPU() - own} //nolint:gosec // far below 2^63
	after, err := redisCPU(ctx, s.redis)
	if err != nil {
		return err
	}
	w.store = after - store
	r := rowOf(groupDoors, rowScribe, 0, []window{w})
	r.Note = fmt.Sprintf("%d entries that waited", last)
	b.add(r)
	return nil
}

// drain waits until the ledger has everything.
func (b *run) drain(ctx context.Context, s *system) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, drainMax)
	defer cancel()
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for {
		behind, last, err := s.backlog(ctx)
		if err != nil {
			return 0, err
		}
		if behind == 0 {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d entries are not on the ledger after %s", behind, drainMax)
		case <-poll.C:
		}
	}
}

// sustained measures a load while the ledger is written, and says how far the
// ledger kept up.
func (b *run) sustained(ctx context.Context, s *system, name string, spec loadSpec) error {
	var err error
	if spec.Org, spec.Agents, err = s.newOrg(ctx, unlimited); err != nil {
		return err
	}
	spec.Windows = b.cfg.Windows
	var begun time.Time
	var first, onLedger uint64
	var inWindow time.Duration
	var appended uint64
	var behind int64
	windows, err := b.load(ctx, s, spec, func(begin bool) error {
		var err error
		behind, onLedger, err = s.backlog(ctx)
		if begin {
			begun, first = time.Now(), onLedger
		} else {
			inWindow, appended = inWindow+time.Since(begun), appended+onLedger-first
		}
		return err
	})
	if err != nil {
		return err
	}
	r := rowOf(groupDoors, name, spec.Clients, windows)
	r.Ledger = ratio(float64(appended), inWindow.Seconds())
	r.Note = joinNotes(fmt.Sprintf("ledger %.0f entries/s, %d behind at the end", r.Ledger, behind), failures(windows))
	b.add(r)
	if _, err := b.drain(ctx, s); err != nil {
		return err
	}
	return b.rawAgain(ctx)
}

// doorRace is the race for the last of the money, at the direct door.
func (b *run) doorRace(ctx context.Context, s *system) error {
	org, agents, err := s.newOrg(ctx, raceCap*benchAmount)
	if err != nil {
		return err
	}
	race, err := b.load(ctx, s, loadSpec{Kind: loadDirect, Clients: handClients, Race: true, Org: org, Agents: agents}, nil)
	if err != nil {
		return err
	}
	for i := range b.report.Rows {
		if r := &b.report.Rows[i]; r.Name == rowDirect && r.Clients == handClients {
			r.Note = joinNotes(raceNote(race), r.Note)
		}
	}
	return nil
}

// oneLoad is what was asked for instead of the full table.
func (b *run) oneLoad(ctx context.Context) error {
	spec, name := loadSpec{Kind: loadDirect, Clients: handClients}, rowDirect
	if b.cfg.Door == DoorDurable {
		spec.Kind, name = loadDurable, rowDurable
	}
	if b.cfg.Clients > 0 {
		spec.Clients = b.cfg.Clients
	}
	return b.on(ctx, "one", func(ctx context.Context, s *system) error { return b.sustained(ctx, s, name, spec) })
}
