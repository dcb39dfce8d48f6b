package worker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"tallystick/pkg/events"
)

const (
	benchClients = 512
	benchConns   = 8
)

// swarm lets clients send b.N requests, each waiting for its answer before it
// sends the next.
func swarm(b *testing.B, r *rig, call func(nc *nats.Conn, agent string, n int64) error) {
	agents, conns := make([]string, benchConns), make([]*nats.Conn, benchConns)
	for i := range conns {
		agents[i] = uuid.Must(uuid.NewV7()).String()
		conns[i] = r.connect(agents[i])
	}
	var next atomic.Int64
	var clients sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for c := range benchClients {
		clients.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := call(conns[c%benchConns], agents[c%benchConns], n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

func BenchmarkDirectDoor(b *testing.B) {
	r := newRig(b)
	r.run(r.config(echo))
	swarm(b, r, func(nc *nats.Conn, agent string, n int64) error {
		m := r.msg(events.Rpc("acme", agent, events.VerbReserve), keyN(int(n)), reserveBody)
		answer, err := nc.RequestMsg(m, waitMax)
		if err == nil && code(answer) != "" {
			err = fmt.Errorf("answer %s", answer.Data)
		}
		return err
	})
}

// BenchmarkDurableDoor waits for each decision, not only for "accepted".
func BenchmarkDurableDoor(b *testing.B) {
	for _, inFlight := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("intakes=%d", inFlight), func(b *testing.B) {
			r := newRig(b)
			cfg := r.config(echo)
			cfg.IntakeInFlight = inFlight
			r.run(cfg)
			var waiting sync.Map
			_, err := r.nc.Subscribe(events.Decision("acme", "*", "*"), func(m *nats.Msg) {
				if ch, ok := waiting.LoadAndDelete(m.Header.Get(events.HeaderTallyKey)); ok {
					close(ch.(chan struct{}))
				}
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := r.nc.Flush(); err != nil {
				b.Fatal(err)
			}
			swarm(b, r, func(nc *nats.Conn, agent string, n int64) error {
				key, done := keyN(int(n)), make(chan struct{})
				waiting.Store(key, done)
				answer, err := nc.RequestMsg(r.msg(events.Cmd("acme", agent, events.VerbReserve), key, reserveBody), waitMax)
				if err == nil && code(answer) != "" {
					err = fmt.Errorf("answer %s", answer.Data)
				}
				if err == nil {
					<-done
				}
				return err
			})
		})
	}
}
