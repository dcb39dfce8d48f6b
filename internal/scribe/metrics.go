package scribe

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	entries, batches, conflicts, failures, corrupt, lost, refilled prometheus.Counter
	halted, drift                                                  prometheus.Gauge
}

func newMetrics() metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tally_scribe_" + name, Help: help})
	}
	return metrics{
		entries:   counter("entries_total", "Entries written to the ledger."),
		batches:   counter("batches_total", "Atomic batches written to the ledger."),
		conflicts: counter("conflicts_total", "Batches whose outcome had to be looked up."),
		failures:  counter("failures_total", "Sessions that ended because Redis or NATS failed."),
		corrupt:   counter("corrupt_entries_total", "Outbox entries that could not be read."),
		lost:      counter("lost_writes_total", "Partitions fenced because Redis lost writes."),
		refilled:  counter("refilled_entries_total", "Entries written again because the ledger had lost them."),
		drift:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_scribe_config_drift", Help: "1 while nothing is written because the ledger's configuration has drifted."}),
		halted:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "tally_scribe_halted", Help: "1 while the scribe refuses to write."}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.entries, m.batches, m.conflicts, m.failures, m.corrupt, m.lost, m.refilled, m.halted, m.drift}
}
