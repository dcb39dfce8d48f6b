package reconciler

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	failures, unreadable, compared, rebuilt prometheus.Counter
	drift, folded, mirrorLag, mirrorBad     prometheus.Gauge
	signed                                  prometheus.Counter
	contradictions, configDrift, alarm      prometheus.Gauge
	explained                               *prometheus.GaugeVec   // by cause
	folds                                   *prometheus.CounterVec // by what became of it
}

func newMetrics() metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tally_reconciler_" + name, Help: help})
	}
	return metrics{
		failures:       counter("failures_total", "Steps that failed because Redis or NATS did."),
		unreadable:     counter("unreadable_entries_total", "Ledger entries that could not be read."),
		compared:       counter("comparisons_total", "Comparisons of counters with the ledger."),
		rebuilt:        counter("rebuilt_partitions_total", "Partitions rebuilt from the ledger."),
		drift:          prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_reconciler_drift_counters", Help: "Counters that differed in the last full comparison."}),
		folded:         prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_reconciler_folded_stream_seq", Help: "Stream sequence up to which the ledger is folded."}),
		mirrorLag:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_reconciler_mirror_lag_entries", Help: "Entries of the ledger that its mirror lacks."}),
		mirrorBad:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_reconciler_mirror_bad", Help: "1 while the mirror stands still, differs from the ledger, or has more."}),
		signed:         counter("checkpoints_signed_total", "Checkpoints signed."),
		contradictions: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_reconciler_checkpoint_contradictions", Help: "Orgs whose chain is not sound or not what was signed."}),
		alarm:          prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_reconciler_alarm", Help: "Orgs whose counters have differed for longer than the published tolerance allows."}),
		configDrift:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_reconciler_config_drift", Help: "1 while COMMANDS or a bucket is not configured as it was set up."}),
		explained: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tally_reconciler_explained", Help: "Causes of the published tolerance in the last full comparison.",
		}, []string{"cause"}),
		folds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tally_reconciler_folds_total", Help: "Kept folds: saved, loaded, unusable (corrupt, of another version, or not of this ledger), failed.",
		}, []string{"result"}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.failures, m.unreadable, m.compared, m.rebuilt, m.drift, m.folded, m.mirrorLag, m.mirrorBad, m.explained,
		m.signed, m.contradictions, m.alarm, m.folds, m.configDrift,
	}
}
