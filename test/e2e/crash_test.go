package e2e

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestKilledInTheMiddle: kill -9 of the whole process under load. Every answer
// that was given is still true, nothing drifts, the chain verifies, accepted
// commands are decided after the restart.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1_000_000_000)
	a := s.agent(org, "p")

	type answer struct{ key, reservation string }
	var mu sync.Mutex
	var answered []answer
	var accepted []string
	enough := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("k%d-%d", worker, i)
				out, err := a.ask("reserve", key, reserve(10))
				if err != nil || told(out) != "allowed" {
					return // the process is gone, or going
				}
				ack, err := a.nc.RequestMsg(a.message("cmd", "settle", "s"+key, object{"key": key, "actual": usd(7)}), 5*time.Second)
				mu.Lock()
				answered = append(answered, answer{key, fmt.Sprint(out["reservation"])})
				if err == nil && string(ack.Data) == `{"outcome":"accepted"}` {
					accepted = append(accepted, key)
				}
				if len(answered) > 1000 {
					once.Do(func() { close(enough) })
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(60 * time.Second):
		t.Error("no load came about")
	}
	s.signal(syscall.SIGKILL)
	wg.Wait()
	a.nc.Close()
	s.up()
	a.dial()

	for _, was := range answered {
		out := a.call("reserve", was.key, reserve(10))
		if told(out) != "allowed" || out["reservation"] != was.reservation {
			t.Fatalf("%s was allowed as %s, now %v", was.key, was.reservation, out)
		}
	}
	for _, key := range accepted {
		s.eventually("settle of "+key, 20*time.Second, func() error {
			if out := a.call("reservation", "", object{"key": key}); out["state"] != "settled" {
				return fmt.Errorf("state %v", out["state"])
			}
			return nil
		})
	}
	t.Logf("%d answered, %d settles accepted before the kill", len(answered), len(accepted))
	s.lawful(org)
}

// TestStoppedAndContinued: SIGTERM drains, the next start continues.
func TestStoppedAndContinued(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	if got := told(a.call("reserve", "k", reserve(10))); got != "allowed" {
		t.Fatal(got)
	}
	s.signal(syscall.SIGTERM)
	a.nc.Close()
	s.up()
	a.dial()
	if got := told(a.call("settle", "s", object{"key": "k", "actual": usd(3)})); got != "settled" {
		t.Fatal(got)
	}
	if got := a.figures(); got != "held 0 spent 3 withheld 0" {
		t.Error(got)
	}
	s.lawful(org)
}
