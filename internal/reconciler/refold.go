package reconciler

import (
	"context"

	"tallystick/internal/ledger"
)

// follows reports whether the ledger, which ends with tail, still goes through
// the last entry that was folded.
func (r *Reconciler) follows(ctx context.Context, tail ledger.Message) (bool, error) {
	switch {
	case r.fold.after == 0:
		return true, nil
	case tail.StreamSeq < r.fold.after:
		return false, nil
	case tail.StreamSeq == r.fold.after:
		return tail.Hash == r.fold.hash, nil
	}
	m, ok, err := r.cfg.Ledger.At(ctx, r.fold.after)
	return ok && m.Hash == r.fold.hash, err
}

// refold forgets everything that was read of the ledger. The caller holds mu.
func (r *Reconciler) refold(ctx context.Context) {
	r.cfg.Log.Error().Uint64("folded", r.fold.after).Msg("ALARM: the ledger is not what was folded; it is folded anew")
	r.reader.Close(ctx)
	r.reader = r.cfg.Ledger.Reader("", 0)
	r.fold, r.kept = newFold(r.cfg.Store.Partitions()), 0
	r.heads.forget()
	r.notary.forget()
}

func (h *heads) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.last)
}

// forget checks every chain from its start again; what was signed stays known.
func (n *notary) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for org, p := range n.proofs {
		n.proofs[org] = &proof{v: ledger.NewVerifier(org), signed: p.signed, tried: p.tried, broken: p.broken}
	}
}
