package reconciler

import "context"

// guard checks the configuration of what the broker keeps besides the ledger,
// which the scribe looks after.
func (r *Reconciler) guard(ctx context.Context) {
	if r.cfg.CheckConfig == nil {
		return
	}
	drift, err := r.cfg.CheckConfig(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.metrics.failures.Inc()
			r.cfg.Log.Warn().Err(err).Msg("the configuration could not be read")
		}
		return
	}
	if drift == nil {
		r.metrics.configDrift.Set(0)
		return
	}
	r.metrics.configDrift.Set(1)
	r.cfg.Log.Error().Err(drift).Msg("ALARM: the configuration of a stream or bucket has drifted")
}
