package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what a worker does. Its collectors are named tally_worker_*
// and carry the worker's name as a label.
type Metrics struct {
	requests *prometheus.CounterVec // door, verb
	answers  *prometheus.CounterVec // door, outcome
	refused  *prometheus.CounterVec // door, reason
	seconds  *prometheus.HistogramVec
	sizes    *prometheus.HistogramVec

	stored      prometheus.Counter
	replayed    prometheus.Counter
	redelivered prometheus.Counter
	retried     prometheus.Counter
	panics      prometheus.Counter
	unpublished prometheus.Counter
	kept        prometheus.Counter
	purged      prometheus.Counter
	dead        *prometheus.CounterVec // reason
}

// Reasons of tally_worker_refused_total.
const (
	refusedQueueFull    = "queue_full"
	refusedAgentBound   = "agent_bound"
	refusedThrottled    = "throttled"
	refusedForeignReply = "foreign_reply"
	refusedMalformed    = "malformed"
	refusedNotStored    = "not_stored"
)

// NewMetrics makes the metrics of one worker; they count whether or not they
// are ever registered.
func NewMetrics(worker string) *Metrics {
	labels := prometheus.Labels{"worker": worker}
	vec := func(name, help string, by ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tally_worker_" + name, Help: help, ConstLabels: labels}, by)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tally_worker_" + name, Help: help, ConstLabels: labels})
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tally_worker_" + name, Help: help, ConstLabels: labels, Buckets: buckets}, []string{"door"})
	}
	return &Metrics{
		requests:    vec("requests_total", "Requests handed to the role's handler.", "door", "verb"),
		answers:     vec("answers_total", "Answers by outcome: ok, denied, or an error's code.", "door", "outcome"),
		refused:     vec("refused_total", "Requests that never reached the handler.", "door", "reason"),
		seconds:     histogram("batch_seconds", "Time of one batch in the handler.", prometheus.ExponentialBuckets(0.0002, 2, 14)),
		sizes:       histogram("batch_requests", "Requests per batch.", prometheus.ExponentialBuckets(1, 2, 11)),
		stored:      counter("commands_stored_total", "Commands stored durably."),
		replayed:    counter("replayed_total", "Answers that were given before."),
		redelivered: counter("redelivered_total", "Commands delivered more than once."),
		retried:     counter("retried_total", "Commands put off for later: outages, and settles ahead of their reserve."),
		panics:      counter("panics_total", "Panics of the handler."),
		kept:        counter("decisions_kept_total", "Decisions stored for pipelines."),
		unpublished: counter("decisions_unpublished_total", "Decisions that could not be published and will be redelivered."),
		purged:      counter("purges_total", "Purges of COMMANDS."),
		dead:        vec("dead_letters_total", "Commands sent to the dead letters.", "reason"),
	}
}

// Collectors are what is to be registered.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.requests, m.answers, m.refused, m.seconds, m.sizes, m.stored, m.replayed,
		m.redelivered, m.retried, m.panics, m.unpublished, m.kept, m.purged, m.dead,
	}
}

func (m *Metrics) refuse(d Door, reason string) { m.refused.WithLabelValues(d.String(), reason).Inc() }

// batch counts one handled batch; the vectors are looked up once per run of
// equal verbs, not once per request.
func (m *Metrics) batch(reqs []*Request, answers []Answer, took time.Duration) {
	door := reqs[0].Door.String()
	m.seconds.WithLabelValues(door).Observe(took.Seconds())
	m.sizes.WithLabelValues(door).Observe(float64(len(reqs)))
	var ok, denied, replayed int
	for i := 0; i < len(reqs); {
		verb, n := reqs[i].Verb, 0
		for ; i < len(reqs) && reqs[i].Verb == verb; i, n = i+1, n+1 {
			switch a := &answers[i]; {
			case a.Code != "":
				m.answers.WithLabelValues(door, a.Code).Inc()
			case a.Denied != "":
				denied++
			case a.Retry == 0:
				ok++
			}
			if answers[i].Replayed {
				replayed++
			}
		}
		m.requests.WithLabelValues(door, verb).Add(float64(n))
	}
	m.answers.WithLabelValues(door, "ok").Add(float64(ok))
	m.answers.WithLabelValues(door, "denied").Add(float64(denied))
	m.replayed.Add(float64(replayed))
}
