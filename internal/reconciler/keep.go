package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"tallystick/internal/registry"
)

// Folds is where folds are kept: an object store. What is in it saves time,
// nothing else: without it, or where it is doubted, the ledger is folded from
// its first entry.
type Folds interface {
	Put(ctx context.Context, name string, meta map[string]string, content []byte) (registry.Object, bool, error)
	Get(ctx context.Context, name string) (registry.Object, []byte, error)
	List(ctx context.Context, prefix string) ([]registry.Object, error)
	Remove(ctx context.Context, name string) error
}

const (
	// foldPrefix begins the name of a kept fold, its place on the ledger
	// follows; the name ends with what keeps two reconcilers apart.
	foldPrefix = "fold/"
	foldsKept  = 2
	// keepWorth is the part of KeepEntries for which it is worth keeping a fold
	// when time is up.
	keepWorth = 100
	// finishTimeout bounds what is done after the end.
	finishTimeout = 5 * time.Second
)

// What becomes of kept folds.
const (
	foldSaved    = "saved"
	foldLoaded   = "loaded"
	foldUnusable = "unusable"
	foldFailed   = "failed"
)

// keep stores the fold where it has at least that many entries that were not
// kept, and for a large fold as many as it has reservations: what keeping
// costs is then a share of what folding cost.
func (r *Reconciler) keep(ctx context.Context, entries int64) {
	if r.cfg.Folds == nil {
		return
	}
	r.mu.Lock()
	fresh := r.fold.entries - r.kept
	if fresh <= 0 || fresh < entries || entries >= r.cfg.KeepEntries && fresh < int64(len(r.fold.live)) {
		r.mu.Unlock()
		return
	}
	packed, after, before := r.fold.pack(), r.fold.after, r.kept
	r.kept = r.fold.entries // also where it fails: the next time is soon enough
	r.mu.Unlock()
	name := fmt.Sprintf("%s%020d-%s", foldPrefix, after, uuid.NewString())
	_, _, err := r.cfg.Folds.Put(ctx, name, nil, seal(packed))
	if err == nil {
		r.metrics.folds.WithLabelValues(foldSaved).Inc()
		err = r.prune(ctx)
	}
	if ctx.Err() != nil { // cut short by the end, which tries once more
		r.mu.Lock()
		r.kept = before
		r.mu.Unlock()
		return
	}
	if err != nil {
		r.metrics.folds.WithLabelValues(foldFailed).Inc()
		r.cfg.Log.Warn().Err(err).Msg("the fold of the ledger could not be kept")
	}
}

// prune forgets all but the newest folds.
func (r *Reconciler) prune(ctx context.Context) error {
	all, err := r.cfg.Folds.List(ctx, foldPrefix)
	var errs []error
	for i := range len(all) - foldsKept {
		errs = append(errs, r.cfg.Folds.Remove(ctx, all[i].Name))
	}
	return errors.Join(append(errs, err)...)
}

// recall starts from the newest kept fold that the ledger confirms, once. What
// stands in the way is logged: the ledger itself has everything.
func (r *Reconciler) recall(ctx context.Context) error {
	if r.recalled || r.cfg.Folds == nil {
		return nil
	}
	all, err := r.cfg.Folds.List(ctx, foldPrefix)
	r.doubt(err)
	for i := len(all) - 1; i >= 0; i-- {
		done, err := r.load(ctx, all[i].Name)
		if done {
			break
		}
		r.doubt(err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.recalled = true
	return nil
}

func (r *Reconciler) doubt(err error) {
	if err != nil {
		r.metrics.folds.WithLabelValues(foldFailed).Inc()
		r.cfg.Log.Warn().Err(err).Msg("a kept fold cannot be read")
	}
}

// load makes a kept fold the fold, and forgets one that is of no use.
func (r *Reconciler) load(ctx context.Context, name string) (bool, error) {
	_, file, err := r.cfg.Folds.Get(ctx, name)
	if errors.Is(err, registry.ErrNotFound) {
		return false, nil // another reconciler has a newer one
	}
	if err != nil {
		return false, err
	}
	f, err := r.open(ctx, file)
	if errors.Is(err, errFold) {
		r.metrics.folds.WithLabelValues(foldUnusable).Inc()
		r.cfg.Log.Warn().Err(err).Str("fold", name).Msg("a kept fold is of no use")
		return false, r.cfg.Folds.Remove(ctx, name)
	}
	if err != nil {
		return false, err
	}
	if err := r.knowHeads(ctx, f); err != nil {
		return false, err
	}
	r.fold, r.kept = f, f.entries
	r.reader = r.cfg.Ledger.Reader("", f.after)
	r.metrics.folds.WithLabelValues(foldLoaded).Inc()
	r.cfg.Log.Info().Uint64("stream_seq", f.after).Int("live", len(f.live)).Msg("going on from a kept fold")
	return true, nil
}

// open reads a kept fold and asks the ledger whether it is one of its own.
func (r *Reconciler) open(ctx context.Context, file []byte) (*fold, error) {
	packed, err := unseal(file)
	if err != nil {
		return nil, err
	}
	f, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	if len(f.positions) != r.cfg.Store.Partitions() {
		return nil, fmt.Errorf("%w: it has %d partitions", errFold, len(f.positions))
	}
	m, ok, err := r.cfg.Ledger.At(ctx, f.after)
	if err != nil {
		return nil, err
	}
	if !ok || m.Hash != f.hash {
		return nil, fmt.Errorf("%w: the ledger has another entry %d", errFold, f.after)
	}
	return f, nil
}
