package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/testkit"
	"tallystick/pkg/events"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const waitMax = 10 * time.Second

// handlerFunc is a Handler made of a function.
type handlerFunc func(ctx context.Context, reqs []*Request) []Answer

func (f handlerFunc) Handle(ctx context.Context, reqs []*Request) []Answer { return f(ctx, reqs) }

// each answers requests one by one.
func each(f func(r *Request) Answer) Handler {
	return handlerFunc(func(_ context.Context, reqs []*Request) []Answer {
		answers := make([]Answer, len(reqs))
		for i, r := range reqs {
			answers[i] = f(r)
		}
		return answers
	})
}

var echo = each(func(r *Request) Answer { return Answer{Body: []byte(`{"outcome":"allowed","key":"` + r.Key + `"}`)} })

// rig is a server with the streams of an installation and one agent's view.
type rig struct {
	t     testing.TB
	nats  *testkit.NATSServer
	js    jetstream.JetStream
	agent string
	nc    *nats.Conn // the agent's
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, nats: testkit.NATS(t), agent: uuid.Must(uuid.NewV7()).String()}
	r.js = r.nats.JetStream(t)
	for _, s := range []jetstream.StreamConfig{
		{Name: events.StreamCommands, Subjects: []string{events.AllCommands}, AllowAtomicPublish: true, Discard: jetstream.DiscardNew, MaxMsgs: 1_000_000},
		{Name: events.StreamDeadLetters, Subjects: []string{"tally.v1.dead.*.*"}},
		{Name: events.StreamEvents, Subjects: []string{"tally.v1.event.*.*"}},
	} {
		if _, err := r.js.CreateStream(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	r.consumer(events.ConsumerReserver, events.VerbReserve, events.VerbExtend, events.VerbCharge)
	r.consumer(events.ConsumerSettler, events.VerbSettle, events.VerbRelease)
	r.nc = r.connect(r.agent)
	return r
}

func (r *rig) consumer(name string, verbs ...string) {
	r.t.Helper()
	cfg := jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second, MaxAckPending: 50_000}
	for _, v := range verbs {
		cfg.FilterSubjects = append(cfg.FilterSubjects, events.Command("*", "*", v))
	}
	if _, err := r.js.CreateConsumer(r.t.Context(), events.StreamCommands, cfg); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) connect(agent string) *nats.Conn {
	return r.nats.Connect(r.t, testkit.Agents, nats.CustomInboxPrefix(events.InboxPrefix(agent)))
}

func (r *rig) config(h Handler) Config {
	return Config{
		Name: "reserver", Consumer: events.ConsumerReserver, Handler: h,
		Agents: r.nats.Connect(r.t, testkit.Agents, nats.ReconnectBufSize(-1)), JetStream: r.nats.JetStream(r.t),
		Verbs: []string{events.VerbReserve, events.VerbExtend, events.VerbCharge}, DirectVerbs: []string{events.VerbWhoami},
		Log: zerolog.Nop(),
	}
}

// run starts a worker that stops with the test, or by calling stop.
func (r *rig) run(cfg Config) (w *Worker, stop func()) {
	r.t.Helper()
	w, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			r.t.Errorf("worker: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	select {
	case <-w.Started():
	case <-done:
		r.t.FailNow()
	}
	return w, stop
}

func (r *rig) msg(subject, key string, body string) *nats.Msg {
	m := nats.NewMsg(subject)
	if key != "" {
		m.Header.Set(events.HeaderKey, key)
	}
	m.Data = []byte(body)
	return m
}

const reserveBody = `{"amounts":{"tokens":1}}`

func (r *rig) request(m *nats.Msg) *nats.Msg {
	r.t.Helper()
	answer, err := r.nc.RequestMsg(m, waitMax)
	if err != nil {
		r.t.Fatalf("%s: %v", m.Subject, err)
	}
	return answer
}

func (r *rig) rpc(verb, key string) *nats.Msg {
	r.t.Helper()
	return r.request(r.msg(events.Rpc("acme", r.agent, verb), key, reserveBody))
}

func (r *rig) cmd(verb, key string) *nats.Msg {
	r.t.Helper()
	return r.request(r.msg(events.Cmd("acme", r.agent, verb), key, reserveBody))
}

// decisions subscribes to every decision of the agent.
func (r *rig) decisions() <-chan *nats.Msg {
	r.t.Helper()
	ch := make(chan *nats.Msg, 4096)
	if _, err := r.nc.ChanSubscribe(events.Decision("acme", r.agent, "*"), ch); err != nil {
		r.t.Fatal(err)
	}
	if err := r.nc.Flush(); err != nil {
		r.t.Fatal(err)
	}
	return ch
}

func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		t.Fatalf("no %s in %v", what, waitMax)
		panic("unreachable")
	}
}

// eventually polls until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitMax); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", waitMax, what)
		}
	}
}

func code(m *nats.Msg) string {
	if e := events.ParseError(m.Data); e != nil {
		return string(e.Code)
	}
	return ""
}

func (r *rig) stored() uint64 {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), events.StreamCommands)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

func (r *rig) unacknowledged() int {
	r.t.Helper()
	c, err := r.js.Consumer(r.t.Context(), events.StreamCommands, events.ConsumerReserver)
	if err != nil {
		r.t.Fatal(err)
	}
	return c.CachedInfo().NumAckPending + int(c.CachedInfo().NumPending)
}

// metric sums the counters of a name, of those that have the given label value.
func metric(t testing.TB, w *Worker, name, label string) int {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(w.Metrics().Collectors()...)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() != "tally_worker_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == label || label == "" && l.GetName() == "worker" {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return int(sum)
}

func keyN(n int) string { return fmt.Sprintf("k%d", n) }
