// Package registrar owns structure, policy and identity: it serves the
// operators' verbs on orgs, admins, pools and agents, and keeps what Redis enforces in
// step with what KV says.
//
// The order of a change is KV by compare-and-set, then the script, then the
// answer. A crash in between is healed by the next pass of [Registrar.Run],
// which applies every pool's policy again: at start and every minute, each
// idempotent by the pool's revision. KV behind Redis means that KV has lost
// changes: that is refused and alarmed, never repaired by going back.
package registrar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// AdminTimeout is how long an operator's request may take: revoking with
// release waits for every hold of a subtree.
const AdminTimeout = time.Minute

// Defaults of Config.
const (
	applyEveryDefault = time.Minute
	retryEveryDefault = time.Second
)

// listTimeout bounds one reading of all pools.
const listTimeout = 30 * time.Second

// Config of a Registrar.
type Config struct {
	Store     *redisx.Store
	Directory *registry.Directory
	Consumers Consumers
	Log       zerolog.Logger

	ApplyEvery time.Duration // how often every policy is applied again; 0: 1 min
	RetryEvery time.Duration // how soon again after a pass that failed; 0: 1 s
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("registrar: no Store"))
	}
	if c.Directory == nil {
		errs = append(errs, errors.New("registrar: no Directory"))
	}
	if c.Consumers == nil {
		errs = append(errs, errors.New("registrar: no Consumers"))
	}
	return errors.Join(errs...)
}

// Registrar serves operators; Run keeps Redis in step.
type Registrar struct {
	cfg     Config
	metrics metrics
	state   atomic.Pointer[error]
}

var errStarting = errors.New("registrar: policies are not applied yet")

// New makes a Registrar.
func New(cfg Config) (*Registrar, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.ApplyEvery <= 0 {
		cfg.ApplyEvery = applyEveryDefault
	}
	if cfg.RetryEvery <= 0 {
		cfg.RetryEvery = retryEveryDefault
	}
	r := &Registrar{cfg: cfg, metrics: newMetrics()}
	r.state.Store(&errStarting)
	return r, nil
}

// Verbs are the operators' verbs that the registrar serves.
func (r *Registrar) Verbs() map[string]worker.AdminFunc {
	return map[string]worker.AdminFunc{
		events.AdminOrgCreate:     r.orgCreate,
		events.AdminOrgSet:        r.orgSet,
		events.AdminOrgShow:       r.orgShow,
		events.AdminPoolCreate:    r.poolCreate,
		events.AdminPoolSet:       r.poolSet,
		events.AdminPoolFreeze:    r.poolFreeze,
		events.AdminPoolUnfreeze:  r.poolUnfreeze,
		events.AdminPoolClose:     r.poolClose,
		events.AdminPoolShow:      r.poolShow,
		events.AdminAgentRegister: r.agentRegister,
		events.AdminAgentList:     r.agentList,
		events.AdminAgentShow:     r.agentShow,
		events.AdminAgentRevoke:   r.agentRevoke,
		events.AdminAgentRotate:   r.agentRotate,
		events.AdminAdminAdd:      r.adminAdd,
		events.AdminAdminList:     r.adminList,
		events.AdminAdminSet:      r.adminSet,
		events.AdminAdminRemove:   r.adminRemove,
		events.AdminAdminRotate:   r.adminRotate,

		events.AdminPipelineCreate: r.pipelineCreate,
		events.AdminPipelineList:   r.pipelineList,
		events.AdminPipelineRemove: r.pipelineRemove,

		events.AdminPrincipalCreate: r.principalCreate,
		events.AdminPrincipalSet:    r.principalSet,
		events.AdminPrincipalList:   r.principalList,
		events.AdminPrincipalShow:   r.principalShow,
	}
}

// Ready is nil once every partition has its epoch and the first pass over the
// policies is done.
func (r *Registrar) Ready() error {
	if err := r.state.Load(); err != nil {
		return *err
	}
	return nil
}

// Collectors are the registrar's metrics.
func (r *Registrar) Collectors() []prometheus.Collector { return r.metrics.all() }

// Run makes the epochs of new partitions and applies every policy, now and
// again and again, until ctx ends.
func (r *Registrar) Run(ctx context.Context) error {
	epochs := epochKeeper{pending: map[int]string{}}
	for {
		err := r.ensureEpochs(ctx, &epochs)
		if err == nil {
			err = r.ApplyAll(ctx)
			r.state.Store(nil)
		}
		pause := r.cfg.ApplyEvery
		if err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn().Err(err).Msg("Redis is not in step with KV; trying again")
			pause = r.cfg.RetryEvery
		}
		next := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			next.Stop()
			return nil
		case <-next.C:
		}
	}
}

// epochKeeper remembers the epochs that this process has made and not yet
// written to Redis: nobody else may write them.
type epochKeeper struct {
	done    bool
	pending map[int]string
}

// ensureEpochs makes what is missing. An epoch that is in KV and not in Redis
// is left alone: Redis was emptied, and the reconciler rebuilds it.
func (r *Registrar) ensureEpochs(ctx context.Context, k *epochKeeper) error {
	if k.done {
		return nil
	}
	for p := range r.cfg.Store.Partitions() {
		epoch, created, err := r.cfg.Directory.EnsureEpoch(ctx, p)
		if err != nil {
			return fmt.Errorf("epoch of partition %d: %w", p, err)
		}
		if created {
			k.pending[p] = epoch
			r.metrics.epochs.Inc()
		}
	}
	for p, epoch := range k.pending {
		if err := r.cfg.Store.SetEpoch(ctx, p, epoch); err != nil {
			return fmt.Errorf("epoch of partition %d: %w", p, err)
		}
		delete(k.pending, p)
	}
	k.done = true
	return nil
}

// ApplyAll brings every pool's policy to Redis. One pool's failure does not
// keep the others from it; the first is returned, with the number of them.
func (r *Registrar) ApplyAll(ctx context.Context) error {
	listing, cancel := context.WithTimeout(ctx, listTimeout)
	pools, err := r.cfg.Directory.Pools(listing, "")
	cancel()
	if err != nil {
		return err
	}
	failed := 0
	for _, p := range pools {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e := r.apply(ctx, p); e != nil {
			if failed++; failed == 1 {
				err = e
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d policies not applied, the first: %w", failed, len(pools), err)
	}
	return nil
}

// errBehind: Redis has a revision that KV does not know.
var errBehind = errors.New("KV is behind Redis: it has lost changes of this pool")

// apply brings one pool's policy to Redis. A revision that another change has
// overtaken meanwhile counts as applied.
func (r *Registrar) apply(ctx context.Context, p registry.Pool) error {
	result, err := r.cfg.Store.ApplyPolicy(ctx, policyOf(p))
	if err != nil {
		r.metrics.policies.WithLabelValues(policyFailed).Inc()
		return fmt.Errorf("policy of pool %q in %s: %w", p.Name, p.Org, err)
	}
	if result.RedisRev <= p.Rev {
		outcome := policySame
		if result.Applied {
			outcome = policyApplied
		}
		r.metrics.policies.WithLabelValues(outcome).Inc()
		return nil
	}
	newest, _, err := r.cfg.Directory.Pool(ctx, p.Org, p.Name)
	if err != nil {
		return err
	}
	if newest.Rev >= result.RedisRev {
		r.metrics.policies.WithLabelValues(policySame).Inc()
		return nil
	}
	r.metrics.policies.WithLabelValues(policyBehind).Inc()
	r.metrics.behind.Inc()
	r.cfg.Log.Error().Str("org", p.Org).Str("pool", p.Name).Int64("kv_rev", newest.Rev).Int64("redis_rev", result.RedisRev).
		Msg("ALARM: KV is behind Redis; the policy is not applied")
	return fmt.Errorf("pool %q in %s: %w (revision %d against %d)", p.Name, p.Org, errBehind, newest.Rev, result.RedisRev)
}

func policyOf(p registry.Pool) redisx.PolicyArgs {
	state := "open"
	switch {
	case p.Closed:
		state = "closed"
	case p.Frozen:
		state = "frozen"
	}
	args := redisx.PolicyArgs{Org: p.Org, Pool: p.Name, Rev: p.Rev, By: cmp.Or(p.By, events.ByRegistrar), Why: p.Why}
	for _, l := range p.Limits {
		limit := redisx.PolicyLimit{
			Unit: l.Unit, Period: l.Period, Cap: budget.MaxAmount, Epsilon: l.Epsilon, LateWindowMS: l.LateWindowMS,
			OnOverrun: l.OnOverrun, State: state,
		}
		if l.Cap != nil {
			limit.Cap = *l.Cap
		}
		args.Limits = append(args.Limits, limit)
	}
	return args
}
