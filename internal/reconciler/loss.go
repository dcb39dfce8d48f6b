package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tallystick/internal/ledger"
	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// acceptReason is what partitions are fenced with while a loss is booked. A
// fence that a crash left behind is taken over by the next attempt.
const acceptReason = "accept-loss"

// Losses is where the scribe tells why it has halted, and hears that an
// operator accepts it.
type Losses interface {
	Halted(ctx context.Context) (loss registry.Loss, ok bool, err error)
	Accept(ctx context.Context, loss registry.Loss) error
}

// gap is one org's part of a loss.
type gap struct {
	org      string
	after    uint64
	moves    []budget.Move
	inMirror uint64
}

func (r *Reconciler) serveAcceptLoss(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeOrgFilter(req.Body)
	if refused != nil {
		return nil, refused
	}
	if req.Why == "" {
		return nil, events.InvalidArgument(events.HeaderReason, "a loss is accepted for a reason that stays on the ledger", "give --reason")
	}
	if r.cfg.Losses == nil {
		return nil, events.NotFound("halted ledger")
	}
	var answer events.AcceptLossAnswer
	err := r.leased(ctx, func(ctx context.Context, token string) (err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		answer, err = r.acceptLoss(ctx, acceptReason+" "+token, orgOf(q), req.By, req.Why)
		return err
	})
	if err != nil {
		return nil, answerable(err)
	}
	return answer.Append(nil), nil
}

// acceptLoss books what the lost entries had moved: fence, cut, a gap entry
// for each org with the difference, rewind Redis, tell the scribe, unfence.
// A repeat after a crash finds no difference left. The caller holds mu.
func (r *Reconciler) acceptLoss(ctx context.Context, fence, org, by, why string) (answer events.AcceptLossAnswer, err error) {
	loss, err := r.halted(ctx)
	if err != nil {
		return answer, err
	}
	known := r.heads.all()
	r.refold(ctx)
	if err := r.catchUp(ctx); err != nil {
		return answer, err
	}
	opened, err := r.fenceLost(ctx, fence)
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, r.reopen(last, opened))
	}()
	if err != nil {
		return answer, err
	}
	gaps, err := r.gaps(ctx, loss, known, opened)
	if err != nil {
		return answer, err
	}
	if others := otherOrgs(gaps, org); len(others) > 0 {
		return answer, events.InvalidArgument("org", "the loss concerns other orgs too: "+strings.Join(others, ", "), "accept it with --all")
	}
	answer = events.AcceptLossAnswer{TailStreamSeq: loss.TailSeq, LostToStreamSeq: loss.AnchorSeq}
	for _, g := range gaps {
		err := r.cfg.Store.Gap(ctx, redisx.GapArgs{Org: g.org, Fence: fence, Moves: g.moves, Detail: redisx.GapDetail{
			AfterSeq: g.after, LostToStreamSeq: loss.AnchorSeq, AnchorHash: loss.AnchorHash, By: by, Reason: why,
		}})
		if err != nil {
			return answer, err
		}
		answer.Orgs = append(answer.Orgs, events.LossOrg{Org: g.org, AfterSeq: g.after, Limits: int64(len(g.moves)), InMirror: g.inMirror})
		if g.inMirror > 0 {
			answer.Hint = "the mirror in account AUDIT still has lost entries: read them with ledger list --mirror before it is made anew"
		}
	}
	return answer, r.goOn(ctx, loss, by, why)
}

// halted is the loss that the scribe waits with, if it is still one.
func (r *Reconciler) halted(ctx context.Context) (registry.Loss, error) {
	loss, ok, err := r.cfg.Losses.Halted(ctx)
	if err != nil {
		return loss, err
	}
	tail, _, err := r.cfg.Ledger.Tail(ctx)
	if err != nil {
		return loss, err
	}
	if !ok || loss.TailSeq != tail.StreamSeq || loss.TailHash != tail.Hash.String() {
		e := events.NotFound("halted ledger")
		e.Hint = "nothing is to be accepted: the scribe has not halted at the ledger's last entry"
		return loss, e
	}
	return loss, nil
}

// fenceLost fences every partition and gives what each is to be left with: its
// own fence of before, "" for none, or lost where Redis knows less than the
// ledger. There counters are not what happened, and heal rebuilds them.
func (r *Reconciler) fenceLost(ctx context.Context, fence string) (map[int]string, error) {
	last, err := r.cfg.Store.OutboxLast(ctx)
	if err != nil {
		return nil, err
	}
	leave := map[int]string{}
	for p := range r.cfg.Store.Partitions() {
		was, err := r.cfg.Store.Fenced(ctx, p)
		if err != nil {
			return leave, err
		}
		if strings.HasPrefix(was, acceptReason) {
			was = ""
		}
		if was == "" && ledger.CompareIDs(last[p], r.fold.positions[p]) < 0 {
			was = lostReason
		}
		if err := r.cfg.Store.Fence(ctx, p, fence); err != nil {
			return leave, err
		}
		leave[p] = was
	}
	return leave, nil
}

func (r *Reconciler) reopen(ctx context.Context, leave map[int]string) error {
	var errs []error
	for p, reason := range leave {
		if reason == "" {
			errs = append(errs, r.cfg.Store.Unfence(ctx, p))
		} else {
			errs = append(errs, r.cfg.Store.Fence(ctx, p, reason))
		}
	}
	return errors.Join(errs...)
}

// gaps works out which orgs the loss concerns: all of a partition that had
// given more to the ledger than is there (every partition, where only the
// anchor file remembers the lost entries), those whose chain was longer here
// or is in the mirror, and those whose counters differ.
func (r *Reconciler) gaps(ctx context.Context, loss registry.Loss, known map[string]ledger.Message, leave map[int]string) ([]gap, error) {
	anchors, err := r.cfg.Store.Anchors(ctx)
	if err != nil {
		return nil, err
	}
	remembered := uint64(0)
	for _, a := range anchors {
		remembered = max(remembered, a.StreamSeq)
	}
	now, found := r.heads.all(), map[string]*gap{}
	for p, a := range anchors {
		all := remembered < loss.AnchorSeq || ledger.CompareIDs(a.Position, r.fold.positions[p]) > 0
		c, err := r.compare(ctx, p, "")
		if err != nil {
			return nil, err
		}
		orgs := map[string]bool{}
		for org := range known {
			orgs[org] = r.cfg.Store.Partition(org) == p
		}
		for org := range now {
			orgs[org] = r.cfg.Store.Partition(org) == p
		}
		for org := range c.pending {
			orgs[org] = true
		}
		moves := map[string][]budget.Move{}
		for _, w := range c.rows {
			orgs[w.id.Org] = true
			if m, differs := w.move(); differs && leave[p] == "" {
				moves[w.id.Org] = append(moves[w.id.Org], m)
			}
		}
		for org, here := range orgs {
			if !here {
				continue
			}
			g := &gap{org: org, after: now[org].Seq, moves: moves[org], inMirror: r.inMirror(ctx, org, now[org].Seq)}
			if all || known[org].Seq > g.after || g.inMirror > 0 || len(g.moves) > 0 {
				found[org] = g
			}
		}
	}
	var out []gap
	for _, org := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[org])
	}
	return out, nil
}

// move is what a limit's counters have and the ledger does not say. A limit
// that is missing has nothing to say.
func (w row) move() (budget.Move, bool) {
	a, e := w.actual, w.expected
	m := budget.Move{
		LimitID: w.id.LimitID, Held: a.Held - e.Held, Spent: a.Spent - e.Spent, Withheld: a.Withheld - e.Withheld,
		Cap: a.Cap - e.Cap, Adj: a.Adj - e.Adj,
	}
	return m, !w.missing && a != e
}

// inMirror is an org's last sequence in the mirror, where that is above after.
func (r *Reconciler) inMirror(ctx context.Context, org string, after uint64) uint64 {
	if r.cfg.Mirror == nil {
		return 0
	}
	m, _, err := r.cfg.Mirror.OrgTail(ctx, org)
	if err != nil {
		r.cfg.Log.Warn().Err(err).Str("org", org).Msg("the mirror was not asked")
	}
	if err != nil || m.Seq <= after {
		return 0
	}
	return m.Seq
}

func otherOrgs(gaps []gap, org string) []string {
	var out []string
	for _, g := range gaps {
		if org != "" && g.org != org {
			out = append(out, g.org)
		}
	}
	return out
}

// goOn makes Redis remember the ledger as it is, and lets the scribe go on.
func (r *Reconciler) goOn(ctx context.Context, loss registry.Loss, by, why string) error {
	for p := range r.cfg.Store.Partitions() {
		anchor := redisx.Anchor{Position: r.fold.positions[p], StreamSeq: loss.TailSeq, Hash: loss.TailHash}
		if err := r.cfg.Store.Rewind(ctx, p, anchor); err != nil {
			return err
		}
	}
	at, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return err
	}
	loss.By, loss.Why, loss.At = by, why, at
	if err := r.cfg.Losses.Accept(ctx, loss); err != nil {
		return fmt.Errorf("the gaps are booked, the scribe was not told; accept again: %w", err)
	}
	r.cfg.Log.Error().Uint64("tail", loss.TailSeq).Uint64("lost_to", loss.AnchorSeq).Str("by", by).Msg("the loss of ledger entries was accepted")
	return nil
}
