package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tallystick/internal/checkpoint"
	"tallystick/internal/ledger"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Checkpoints keeps the newest signed checkpoint of each org, where nobody
// reaches it who writes entries.
type Checkpoints interface {
	// Newest gives the text and its revision; "" and 0 where there is none.
	Newest(ctx context.Context, org string) (text string, revision uint64, err error)
	// Put replaces what was read at revision, and fails where another did.
	Put(ctx context.Context, org, text string, revision uint64) error
}

// Signer vouches for a checkpoint and knows what was vouched for before.
type Signer interface {
	Sign(c checkpoint.Checkpoint) (string, error)
	Open(text string) (checkpoint.Checkpoint, error)
}

// errContradiction: the chain is not sound, or not what a published checkpoint
// says it was. It is never signed.
var errContradiction = errors.New("the ledger contradicts itself or a published checkpoint")

// proof is how far this process itself has checked an org's chain. It follows
// the ledger with a reader of its own, from the first entry, whatever the fold
// began with.
type proof struct {
	v      *ledger.Verifier
	after  uint64 // stream sequence of the last entry looked at
	gap    uint64 // sequence at which the newest accepted loss begins
	gapAt  time.Time
	signed checkpoint.Checkpoint
	tried  time.Time
	broken bool
}

// notary makes checkpoints; its lock is held while an org is checked.
type notary struct {
	mu     sync.Mutex
	proofs map[string]*proof
}

func newProof(org string) *proof { return &proof{v: ledger.NewVerifier(org)} }

// walk checks what is new in an org's chain.
func (p *proof) walk(ctx context.Context, l *ledger.Ledger, org string) error {
	return l.Walk(ctx, org, p.after, func(m ledger.Message) error {
		p.v.Add(m)
		p.after = m.StreamSeq
		if r := p.v.Result(); r.Verdict != ledger.VerdictGap || *r.FirstBad != m.Seq {
			return nil
		}
		e, err := ledger.Decode(m.Body)
		if err != nil {
			return nil // it stays the first bad entry
		}
		p.v.AcceptGap(m)
		p.gap, p.gapAt = lossBegins(e, m.Seq), e.At
		return nil
	})
}

// lossBegins is the first sequence that is not what it was before an accepted
// loss. Entries that the outbox still had may stand before the gap entry.
func lossBegins(e budget.Entry, gap uint64) uint64 {
	var detail struct {
		AfterSeq *uint64 `json:"after_seq"`
	}
	if json.Unmarshal(e.Detail, &detail) == nil && detail.AfterSeq != nil && *detail.AfterSeq < gap {
		return *detail.AfterSeq + 1
	}
	return gap
}

// excuses reports whether an accepted loss explains that the chain is not what
// a checkpoint says: the loss begins within it and was accepted after it.
func (p *proof) excuses(c checkpoint.Checkpoint) bool {
	return p.gap > 0 && p.gap <= c.Count && p.gapAt.After(c.At)
}

// checkpoint gives an org's newest checkpoint; it signs one first where the
// chain has more and can be vouched for. ok is false for an org without entries.
func (r *Reconciler) checkpoint(ctx context.Context, org string) (c checkpoint.Checkpoint, text string, ok bool, err error) {
	r.notary.mu.Lock()
	defer r.notary.mu.Unlock()
	p := r.notary.proofs[org]
	if p == nil {
		p = newProof(org)
		r.notary.proofs[org] = p
	}
	text, revision, err := r.cfg.Checkpoints.Newest(ctx, org)
	if err != nil {
		return c, "", false, err
	}
	newest, err := r.published(text)
	if err == nil {
		p, err = r.prove(ctx, p, org, newest)
		r.notary.proofs[org] = p
	}
	r.alarm(p, org, err)
	if err != nil {
		return c, "", false, err
	}
	count, head := p.v.Head()
	if count == newest.Count && text != "" && newest.Head == head {
		p.signed = newest
		return newest, text, true, r.exportCheckpoint(org, text)
	}
	if count == 0 {
		return c, "", false, nil
	}
	return r.sign(ctx, p, checkpoint.Checkpoint{Org: org, Count: count, Head: head}, revision)
}

// published reads a checkpoint from the bucket. One that cannot be checked is
// no reason to begin anew: that is what somebody would do who rewrote history.
func (r *Reconciler) published(text string) (c checkpoint.Checkpoint, err error) {
	if text == "" {
		return c, nil
	}
	c, err = r.cfg.Signer.Open(text)
	for _, wrong := range []error{checkpoint.ErrMalformed, checkpoint.ErrUnknownKey, checkpoint.ErrBadSignature} {
		if errors.Is(err, wrong) {
			return c, fmt.Errorf("%w: %w", errContradiction, err)
		}
	}
	return c, err
}

// prove checks the chain to its end and that it passes through what was
// published, and gives the proof to go on with.
func (r *Reconciler) prove(ctx context.Context, p *proof, org string, newest checkpoint.Checkpoint) (*proof, error) {
	if count, _ := p.v.Head(); p.broken || count > newest.Count {
		// Another reconciler has signed less than was looked at here, or
		// something was wrong: from the start.
		p = &proof{v: ledger.NewVerifier(org), signed: p.signed, tried: p.tried, broken: p.broken}
	}
	p.v.Against(newest.Count, newest.Head)
	if err := p.walk(ctx, r.cfg.Ledger, org); err != nil {
		return p, err
	}
	v := p.v.Result()
	contradicts := v.Verdict == ledger.VerdictTailCut || v.Verdict == ledger.VerdictRebuilt
	switch {
	case p.signed.Count > newest.Count && !p.excuses(p.signed):
		return p, fmt.Errorf("%w: the bucket holds %d entries, %d were published before", errContradiction, newest.Count, p.signed.Count)
	case v.Verdict == ledger.VerdictOK, contradicts && p.excuses(newest):
		return p, nil
	case contradicts:
		return p, fmt.Errorf("%w: %s, the checkpoint says %d entries, the ledger %d", errContradiction, v.Verdict, newest.Count, v.Entries)
	}
	return p, fmt.Errorf("%w: %s at %d", errContradiction, v.Verdict, *v.FirstBad)
}

// alarm counts the orgs that cannot be vouched for.
func (r *Reconciler) alarm(p *proof, org string, err error) {
	broken := errors.Is(err, errContradiction)
	if broken {
		r.cfg.Log.Error().Err(err).Str("org", org).Msg("ALARM: no checkpoint is signed")
	}
	if err == nil || broken {
		p.broken = broken
	}
	n := 0
	for _, each := range r.notary.proofs {
		if each.broken {
			n++
		}
	}
	r.metrics.contradictions.Set(float64(n))
}

func (r *Reconciler) sign(ctx context.Context, p *proof, c checkpoint.Checkpoint, revision uint64) (checkpoint.Checkpoint, string, bool, error) {
	var err error
	if c.At, err = r.cfg.Store.Now(ctx); err != nil {
		return c, "", false, err
	}
	text, err := r.cfg.Signer.Sign(c)
	if err != nil {
		return c, "", false, err
	}
	if c, err = r.cfg.Signer.Open(text); err != nil { // nobody could check it
		return c, "", false, err
	}
	if err := r.cfg.Checkpoints.Put(ctx, c.Org, text, revision); err != nil {
		return c, "", false, err
	}
	p.signed = c
	r.metrics.signed.Inc()
	return c, text, true, r.exportCheckpoint(c.Org, text)
}

// exportCheckpoint writes the newest checkpoint to a file, for whoever copies
// files away from here.
func (r *Reconciler) exportCheckpoint(org, text string) error {
	if r.cfg.CheckpointDir == "" {
		return nil
	}
	path := filepath.Join(r.cfg.CheckpointDir, org+".checkpoint")
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	if err := os.MkdirAll(r.cfg.CheckpointDir, 0o700); err != nil {
		return err
	}
	return checkpoint.WriteFile(path, text, 0o644)
}

// vouch signs what is due until ctx ends.
func (r *Reconciler) vouch(ctx context.Context) {
	if r.cfg.Signer == nil {
		return
	}
	tick := time.NewTicker(min(r.cfg.CheckpointEvery, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, org := range r.due(time.Now()) {
			if _, _, _, err := r.checkpoint(ctx, org); err != nil && ctx.Err() == nil && !errors.Is(err, errContradiction) {
				r.metrics.failures.Inc()
				r.cfg.Log.Warn().Err(err).Str("org", org).Msg("no checkpoint")
			}
		}
	}
}

// due lists the orgs with many new entries, or with some after a while.
func (r *Reconciler) due(now time.Time) []string {
	heads := r.heads.all()
	r.notary.mu.Lock()
	defer r.notary.mu.Unlock()
	var orgs []string
	for org, m := range heads {
		p := r.notary.proofs[org]
		if p == nil {
			p = newProof(org)
			r.notary.proofs[org] = p
		}
		late := now.Sub(p.tried) >= r.cfg.CheckpointEvery
		fresh := m.Seq != p.signed.Count || m.Hash != p.signed.Head
		many := m.Seq >= p.signed.Count+r.cfg.CheckpointEntries && !p.broken && p.signed.Count > 0
		if fresh && (late || many) {
			p.tried = now
			orgs = append(orgs, org)
		}
	}
	return orgs
}

func (r *Reconciler) serveCheckpoint(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeLedgerCheckpoint(req.Body)
	if refused != nil {
		return nil, refused
	}
	if r.cfg.Signer == nil {
		e := events.NotFound("checkpoint")
		e.Hint = "the reconciler has no signing key: start it with --checkpoint-key"
		return nil, e
	}
	c, text, ok, err := r.newest(ctx, q)
	if errors.Is(err, errContradiction) {
		err = fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
	}
	if err != nil {
		return nil, answerable(err)
	}
	if !ok {
		return nil, events.NotFound("checkpoint")
	}
	return events.LedgerCheckpointAnswer{
		Org: c.Org, Checkpoint: text, Count: c.Count, Head: c.Head.String(), Time: events.FormatTime(c.At),
	}.Append(nil), nil
}

// newest reads what is published, or signs now; an org that has none yet gets
// its first.
func (r *Reconciler) newest(ctx context.Context, q events.LedgerCheckpoint) (c checkpoint.Checkpoint, text string, ok bool, err error) {
	if !q.Now {
		if text, _, err = r.cfg.Checkpoints.Newest(ctx, q.Org); err != nil {
			return c, "", false, err
		}
		if text != "" {
			c, err = r.published(text)
			return c, text, err == nil, err
		}
	}
	return r.checkpoint(ctx, q.Org)
}
