package registrar

import "github.com/prometheus/client_golang/prometheus"

// Outcomes of applying a pool's policy to Redis.
const (
	policyApplied = "applied"
	policySame    = "same"
	policyBehind  = "behind"
	policyFailed  = "failed"
)

type metrics struct {
	policies       *prometheus.CounterVec
	epochs, behind prometheus.Counter
}

func newMetrics() metrics {
	return metrics{
		policies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tally_registrar_policies_total", Help: "Policies brought to Redis, by outcome.",
		}, []string{"outcome"}),
		epochs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tally_registrar_epochs_created_total", Help: "Epochs made for new partitions.",
		}),
		behind: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tally_registrar_kv_behind_total", Help: "Pools whose revision in Redis is above that in KV: KV has lost changes.",
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.policies, m.epochs, m.behind}
}
