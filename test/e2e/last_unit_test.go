package e2e

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestLastUnit: two hundred ask for what is enough for one, at each door and
// then at both at once: one gets it, and nobody is left without an answer.
func TestLastUnit(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "root", 3)
	doors := map[string]func(a *agent, key string) string{
		"direct": func(a *agent, key string) string {
			out, err := a.ask("reserve", key, reserve(1))
			return fmt.Sprint(told(out), errText(err))
		},
		"durable": func(a *agent, key string) string { return a.decided("reserve", key, reserve(1)) },
	}
	doors["both"] = func(a *agent, key string) string {
		if key[len(key)-1]%2 == 0 {
			return doors["direct"](a, key)
		}
		return doors["durable"](a, key)
	}
	for _, door := range []string{"direct", "durable", "both"} {
		t.Run(door, func(t *testing.T) {
			s.pool(org, door, 1, "--parent", "root")
			agents := []*agent{s.on(t).agent(org, door), s.on(t).agent(org, door), s.on(t).agent(org, door), s.on(t).agent(org, door)}
			answers := make([]string, 200)
			begin := make(chan struct{})
			var wg sync.WaitGroup
			for i := range answers {
				wg.Go(func() {
					<-begin
					answers[i] = doors[door](agents[i%len(agents)], fmt.Sprintf("k%03d", i))
				})
			}
			close(begin)
			wg.Wait()
			count := map[string]int{}
			for _, a := range answers {
				count[a]++
			}
			equal(t, "answers", count, map[string]int{"allowed": 1, "denied budget_exceeded": 199})
			equal(t, "figures", agents[0].on(t).figures(), "held 1 spent 0 withheld 0")
		})
	}
	s.lawful(org)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// decided is what a command comes to; it may be called from any goroutine.
func (a *agent) decided(verb, key string, body any) string {
	sub, err := a.nc.SubscribeSync(a.subject("decision", token(verb, key)))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = sub.Unsubscribe() }()
	reply, err := a.nc.RequestMsg(a.message("cmd", verb, key, body), requestTimeout)
	if err != nil {
		return err.Error()
	}
	if string(reply.Data) != `{"outcome":"accepted"}` {
		return string(reply.Data)
	}
	var msg *nats.Msg
	if msg, err = sub.NextMsg(20 * time.Second); err != nil {
		return err.Error()
	}
	var out object
	if err := json.Unmarshal(msg.Data, &out); err != nil {
		return err.Error()
	}
	return told(out)
}
