package reaper

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	outcomes           *prometheus.CounterVec
	failures, reported prometheus.Counter
}

func newMetrics() metrics {
	return metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tally_reaper_outcomes_total", Help: "Overdue executions by what became of them.",
		}, []string{"outcome"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tally_reaper_failures_total", Help: "Turns that met an unavailable Redis or partition.",
		}),
		reported: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tally_reaper_reported_total", Help: "Expiries published as events.",
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.outcomes, m.failures, m.reported}
}
