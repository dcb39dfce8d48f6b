package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
)

// leaseFor is how long a rebuild may be silent before another process takes
// over; it is renewed three times as often.
const leaseFor = 15 * time.Second

const rebuildLease = "rebuild"

// leased runs work while this process alone may rebuild. Its context ends when
// the lease cannot be renewed: then another process may be at work.
func (r *Reconciler) leased(ctx context.Context, work func(ctx context.Context, token string) error) error {
	token := uuid.NewString()
	if err := r.awaitLease(ctx, token); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		defer cancel()
		every := time.NewTicker(leaseFor / 3)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			if kept, err := r.takeLease(ctx, token); err != nil || !kept {
				return
			}
		}
	}()
	err := work(ctx, token)
	cancel()
	<-renewed
	last, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer done()
	if ended := r.cfg.Epochs.EndLease(last, rebuildLease, token); ended != nil {
		r.cfg.Log.Warn().Err(ended).Msg("the rebuild's lease ends by itself")
	}
	return err
}

// awaitLease waits while another process rebuilds; its lease ends if it dies.
func (r *Reconciler) awaitLease(ctx context.Context, token string) error {
	every := time.NewTicker(drainEvery)
	defer every.Stop()
	for {
		took, err := r.takeLease(ctx, token)
		if took || err != nil {
			return err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: another process rebuilds", budget.ErrUnavailable)
		}
	}
}

func (r *Reconciler) takeLease(ctx context.Context, token string) (bool, error) {
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	return r.cfg.Epochs.TakeLease(ctx, rebuildLease, token, now, now.Add(leaseFor))
}
