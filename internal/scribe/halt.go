package scribe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tallystick/internal/ledger"
	"tallystick/internal/registry"
	"tallystick/pkg/events"
)

// Losses is where a scribe that has halted says so, and hears of an operator
// who accepts the loss.
type Losses interface {
	Halt(ctx context.Context, loss registry.Loss) error
	Accepted(ctx context.Context) (loss registry.Loss, ok bool, err error)
}

// Events takes what happened, for whoever listens.
type Events interface {
	Publish(ctx context.Context, event events.EventMessage) error
}

// haltError: acknowledged entries are gone, and the outboxes cannot help.
type haltError struct {
	cause        error // wraps ErrBehind or ErrForked
	reason       string
	anchor, tail ledger.Head
}

func (e *haltError) Error() string {
	return fmt.Sprintf("%v: %s; see the runbook for ledger accept-loss", e.cause, e.reason)
}

func (e *haltError) Unwrap() error { return e.cause }

// Held reports whether the scribe waits for an operator: it has halted, or the
// ledger's configuration has drifted.
func (s *Scribe) Held() bool {
	var halt *haltError
	err := s.Ready()
	return errors.As(err, &halt) || errors.Is(err, errDrift)
}

func (e *haltError) same(o *haltError) bool {
	return o != nil && e.anchor == o.anchor && e.tail == o.tail && e.reason == o.reason
}

func (e *haltError) loss() registry.Loss {
	return registry.Loss{
		AnchorSeq: e.anchor.StreamSeq, AnchorHash: e.anchor.Hash.String(),
		TailSeq: e.tail.StreamSeq, TailHash: e.tail.Hash.String(), Reason: e.Error(),
	}
}

// gone says why a refill cannot be.
func (c *carrier) gone(format string, args ...any) error {
	return &haltError{cause: ledger.ErrBehind, reason: fmt.Sprintf(format, args...)}
}

// covered checks the tail against what was acknowledged, and helps itself
// where entries are missing: from the outboxes, or by an operator's word.
func (c *carrier) covered(ctx context.Context) error {
	heads, anchors, err := c.acknowledged(ctx)
	if err != nil {
		return err
	}
	var newest ledger.Head
	var lost error
	for _, h := range heads {
		err := c.cfg.Ledger.Covers(ctx, h)
		if err != nil && !errors.Is(err, ledger.ErrBehind) && !errors.Is(err, ledger.ErrForked) {
			return err
		}
		if err != nil && h.StreamSeq > newest.StreamSeq {
			newest, lost = h, err
		}
	}
	if lost == nil {
		return nil
	}
	accepted, err := c.accepted(ctx, newest)
	if err != nil {
		return err
	}
	if accepted {
		c.cfg.Log.Warn().Err(lost).Msg("an operator has accepted the loss; the scribe goes on")
		return c.anchor.write(c.out.Head())
	}
	if errors.Is(lost, ledger.ErrBehind) && newest.StreamSeq > c.out.Head().StreamSeq {
		err = c.refill(ctx, newest, anchors)
	} else {
		err = &haltError{reason: "what stands there cannot be taken back"}
	}
	var halt *haltError
	if errors.As(err, &halt) {
		halt.cause, halt.anchor, halt.tail = lost, newest, c.out.Head()
	}
	return err
}

// accepted reports whether an operator has accepted exactly this: that anchor
// is lost, on a ledger that goes on from the tail that was there then.
func (c *carrier) accepted(ctx context.Context, anchor ledger.Head) (bool, error) {
	if c.cfg.Losses == nil {
		return false, nil
	}
	loss, ok, err := c.cfg.Losses.Accepted(ctx)
	if err != nil || !ok || loss.AnchorSeq != anchor.StreamSeq || loss.AnchorHash != anchor.Hash.String() {
		return false, err
	}
	hash, err := ledger.ParseHash(loss.TailHash)
	if err != nil {
		return false, fmt.Errorf("accepted loss: %w", err)
	}
	err = c.cfg.Ledger.Covers(ctx, ledger.Head{StreamSeq: loss.TailSeq, Hash: hash})
	if errors.Is(err, ledger.ErrBehind) || errors.Is(err, ledger.ErrForked) {
		return false, nil // more is lost than was accepted
	}
	return err == nil, err
}

// halt says, once, why nothing is written. What was said is returned.
func (s *Scribe) halt(ctx context.Context, now, before *haltError) *haltError {
	s.metrics.halted.Set(1)
	if now.same(before) {
		return now
	}
	s.cfg.Log.Error().Err(now).Msg("ALARM: the ledger lost acknowledged entries; the scribe has halted")
	if s.cfg.Losses != nil {
		if err := s.cfg.Losses.Halt(ctx, now.loss()); err != nil {
			s.cfg.Log.Warn().Err(err).Msg("the halt is not on record yet")
			return before // it is said again
		}
	}
	for _, org := range s.orgs(ctx) {
		id := fmt.Sprintf("halted-%s-%d-%d-%s", org, now.tail.StreamSeq, now.anchor.StreamSeq, now.anchor.Hash.String()[:16])
		s.tell(ctx, events.EventLedgerHalted, id, org, func(head events.EventHead) events.EventMessage {
			return events.LedgerHalted{EventHead: head, Reason: now.Error(), TailStreamSeq: now.tail.StreamSeq, LostToStreamSeq: now.anchor.StreamSeq}
		})
	}
	return now
}

// tell publishes an event; one that cannot be is in the log, and the ledger
// does not wait for it.
func (s *Scribe) tell(ctx context.Context, name, id, org string, event func(events.EventHead) events.EventMessage) {
	if s.cfg.Events == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellWait)
	defer cancel()
	at, err := s.cfg.Store.Now(ctx)
	if err == nil {
		err = s.cfg.Events.Publish(ctx, event(events.NewEventHead(name, id, org, at)))
	}
	if err != nil {
		s.cfg.Log.Warn().Err(err).Str("event", name).Str("org", org).Msg("an event was not published")
	}
}

const tellWait = 2 * time.Second

// orgs are those that have limits in Redis.
func (s *Scribe) orgs(ctx context.Context) []string {
	if s.cfg.Events == nil {
		return nil
	}
	seen := map[string]bool{}
	var out []string
	for p := range s.cfg.Store.Partitions() {
		opened, err := s.cfg.Store.Opened(ctx, p)
		if err != nil {
			s.cfg.Log.Warn().Err(err).Int("partition", p).Msg("the partition's orgs are not told")
			continue
		}
		for id := range opened {
			if !seen[id.Org] {
				seen[id.Org] = true
				out = append(out, id.Org)
			}
		}
	}
	return out
}
