package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tallystick/internal/ledger"
)

// mirrorLagMax is how long the mirror may hold the same last entry while the
// ledger has newer ones.
const mirrorLagMax = time.Minute

// Why the mirror is not what it should be.
var (
	errMirrorStands  = errors.New("the mirror of the ledger has stopped to follow")
	errMirrorDiffers = errors.New("the mirror holds another entry than the ledger")
	errMirrorAhead   = errors.New("the mirror holds entries that the ledger has lost")
)

// mirrored is what the last look at the mirror found.
type mirrored struct {
	last  ledger.Head
	moved time.Time // when its last entry was new, or it had all there is
	err   error
}

// checkMirror compares the end of the mirror with the ledger. A mirror says
// nothing by itself when its original was deleted and made anew: it stands
// still, and looks well.
func (r *Reconciler) checkMirror(ctx context.Context) error {
	if r.cfg.Mirror == nil {
		return nil
	}
	behind, err := r.compareMirror(ctx)
	if err != nil && !errors.Is(err, errMirrorStands) && !errors.Is(err, errMirrorDiffers) && !errors.Is(err, errMirrorAhead) {
		return err
	}
	r.metrics.mirrorLag.Set(float64(behind))
	bad := 0.0
	if err != nil {
		bad = 1
		r.cfg.Log.Error().Err(err).Msg("ALARM: the mirror of the ledger in account AUDIT")
	} else if r.mirror.err != nil {
		r.cfg.Log.Info().Msg("the mirror of the ledger follows again")
	}
	r.metrics.mirrorBad.Set(bad)
	r.mirror.err = err
	return nil
}

// compareMirror gives how many entries the mirror lacks.
func (r *Reconciler) compareMirror(ctx context.Context) (behind uint64, err error) {
	copied, _, err := r.cfg.Mirror.Tail(ctx)
	if err != nil {
		return 0, err
	}
	tail, _, err := r.cfg.Ledger.Tail(ctx) // after the mirror's, so it is not older
	if err != nil {
		return 0, err
	}
	if copied.StreamSeq > tail.StreamSeq {
		return 0, fmt.Errorf("%w: the mirror has %d, the ledger %d", errMirrorAhead, copied.StreamSeq, tail.StreamSeq)
	}
	behind = tail.StreamSeq - copied.StreamSeq
	now, last := time.Now(), ledger.Head{StreamSeq: copied.StreamSeq, Hash: copied.Hash}
	if behind == 0 || last != r.mirror.last || r.mirror.moved.IsZero() {
		r.mirror.last, r.mirror.moved = last, now
	}
	if copied.StreamSeq > 0 {
		original, ok, err := r.cfg.Ledger.At(ctx, copied.StreamSeq)
		if err != nil {
			return behind, err
		}
		if !ok || original.Hash != copied.Hash || string(original.Body) != string(copied.Body) {
			return behind, fmt.Errorf("%w: entry %d", errMirrorDiffers, copied.StreamSeq)
		}
	}
	if now.Sub(r.mirror.moved) > mirrorLagMax {
		return behind, fmt.Errorf("%w: %d entries behind since %s", errMirrorStands, behind, r.mirror.moved.UTC().Format(time.RFC3339))
	}
	return behind, nil
}
