package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/internal/testkit"
)

// verb is one request and what comes of it; the holds it needs are h-settle,
// h-release and h-extend.
type verb struct {
	name, outcome, kind string
	body                object
}

func verbs() []verb {
	return []verb{
		{"reserve", "allowed", "reserved", reserve(10)},
		{"charge", "charged", "charged", object{"actual": usd(3)}},
		{"extend", "allowed", "extended", object{"key": "h-extend", "add": usd(5)}},
		{"settle", "settled", "settled", object{"key": "h-settle", "actual": usd(7)}},
		{"release", "released", "released", object{"key": "h-release"}},
	}
}

// holder is an agent with a pool of its own that holds what the verbs need.
func (s *system) holder(org, pool string) *agent {
	s.Helper()
	s.pool(org, pool, 1000)
	a := s.agent(org, pool)
	for _, key := range []string{"h-extend", "h-settle", "h-release"} {
		a.tells("allowed", "reserve", key, reserve(20))
	}
	return a
}

// once: the ledger has one entry of the verb beside those of the holds.
func (a *agent) once(v verb) {
	a.Helper()
	want := []string{"reserved", "reserved", "reserved", v.kind}
	slices.Sort(want)
	equal(a.TB, "entries", a.kinds(), want)
}

// TestAnswerLostOnTheWayToTheAgent: the script has run, the agent has not
// heard. It repeats with the same key and gets the first answer.
func TestAnswerLostOnTheWayToTheAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	org, rdb := s.org(), s.redis()
	for _, v := range verbs() {
		t.Run("direct "+v.name, func(t *testing.T) { answerLost(s.on(t).holder(org, "d"+v.name), rdb, v) })
		t.Run("durable "+v.name, func(t *testing.T) { decisionLost(s.on(t).holder(org, "c"+v.name), rdb, v) })
	}
	t.Run("accepted", func(t *testing.T) { acceptedLost(s.on(t).holder(org, "accepted"), rdb) })
	s.lawful(org)
}

// through puts a proxy between the agent and the server.
func (a *agent) through() *proxy {
	a.Helper()
	p := newProxy(a.TB, "tcp", strings.TrimPrefix(a.address.NATS, "nats://"))
	a.dial("nats://" + p.addr)
	return p
}

// reconnected waits for a connection that carries again.
func (a *agent) reconnected() {
	a.Helper()
	a.eventually("the connection", requestTimeout, func() error { return a.nc.FlushTimeout(time.Second) })
}

func answerLost(a *agent, rdb *redis.Client, v verb) {
	p, before := a.through(), counters(a.TB, rdb, a.Org, a.Pool)
	lost := p.lose("k-lost", `"outcome"`)
	ctx, cancel := context.WithTimeout(a.Context(), requestTimeout)
	go func() {
		select {
		case <-lost:
		case <-ctx.Done():
		}
		cancel()
	}()
	if out, _, err := a.askWith(ctx, v.name, "k-lost", v.body); err == nil {
		a.Fatalf("the answer came through: %v", out)
	}
	within(a.TB, "the loss", time.Second, lost)
	a.reconnected()
	a.sameAgain(rdb, v, "k-lost", before)
}

// sameAgain: what was done once is not done again, and the answer is its own.
func (a *agent) sameAgain(rdb *redis.Client, v verb, key, before string) {
	a.Helper()
	done := counters(a.TB, rdb, a.Org, a.Pool)
	if done == before {
		a.Errorf("nothing was done when the answer was lost: %s", done)
	}
	ctx, cancel := context.WithTimeout(a.Context(), requestTimeout)
	defer cancel()
	out, replayed, err := a.askWith(ctx, v.name, key, v.body)
	if err != nil || told(out) != v.outcome || !replayed {
		a.Errorf("repeated: %v, replayed %v, %v; want %s", out, replayed, err, v.outcome)
	}
	equal(a.TB, "counters after the repeat", counters(a.TB, rdb, a.Org, a.Pool), done)
	if id, ok := out["reservation"]; ok && v.name == "reserve" {
		equal(a.TB, "reservation", a.call("reservation", "", object{"key": key})["reservation"], id)
	}
	a.once(v)
}

func decisionLost(a *agent, rdb *redis.Client, v verb) {
	p, before := a.through(), counters(a.TB, rdb, a.Org, a.Pool)
	sub := a.listen(v.name, "c-lost")
	flush(a.TB, a.nc)
	lost := p.lose("", "decision."+token(v.name, "c-lost"))
	a.store(v.name, "c-lost", v.body)
	within(a.TB, "the loss", requestTimeout, lost)
	done := counters(a.TB, rdb, a.Org, a.Pool)
	if done == before {
		a.Errorf("nothing was done when the decision was lost: %s", done)
	}
	a.reconnected()
	a.store(v.name, "c-lost", v.body)
	out, replayed := a.decision(sub, requestTimeout)
	if told(out) != v.outcome || !replayed {
		a.Errorf("repeated: %v, replayed %v; want %s", out, replayed, v.outcome)
	}
	equal(a.TB, "counters after the repeat", counters(a.TB, rdb, a.Org, a.Pool), done)
	a.once(v)
}

// acceptedLost: the command is stored, the agent has not heard that. Stored
// twice it is decided once, and both decisions come.
func acceptedLost(a *agent, rdb *redis.Client) {
	p, v := a.through(), verbs()[0]
	sub := a.listen(v.name, "a-lost")
	flush(a.TB, a.nc)
	lost := p.lose("a-lost", `"accepted"`)
	msg := a.message("cmd", v.name, "a-lost", v.body)
	msg.Reply = a.nc.NewInbox()
	if err := a.nc.PublishMsg(msg); err != nil {
		a.Fatal(err)
	}
	within(a.TB, "the loss", requestTimeout, lost)
	a.reconnected()
	a.store(v.name, "a-lost", v.body)
	if out, _ := a.decision(sub, requestTimeout); told(out) != v.outcome {
		a.Errorf("decision: %v", out)
	}
	equal(a.TB, "counters", counters(a.TB, rdb, a.Org, a.Pool), "held 70 spent 0 withheld 0")
	a.once(v)
}

// TestAnswerLostOnTheWayToTheWorker: the script has run, the worker has not
// heard. At the direct door the agent is told unavailable and repeats; at the
// durable door redelivery answers by itself.
func TestAnswerLostOnTheWayToTheWorker(t *testing.T) {
	t.Parallel()
	server := testkit.OwnRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	p, rdb := newProxy(t, "unix", server.Socket), server.Client(t)
	s := start(t, "--redis", "redis://"+p.addr)
	org := s.org()
	for _, v := range verbs() {
		t.Run("direct "+v.name, func(t *testing.T) {
			a := s.on(t).holder(org, "d"+v.name)
			before, key := counters(t, rdb, org, a.Pool), "k-lost-"+v.name
			lost := p.lose(key, "")
			a.tells("unavailable", v.name, key, v.body)
			within(t, "the loss", time.Second, lost)
			a.sameAgain(rdb, v, key, before)
		})
	}
	t.Run("durable", func(t *testing.T) {
		for _, v := range verbs() {
			a := s.on(t).holder(org, "c"+v.name)
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				redelivered(a.on(t), p, rdb, v)
			})
		}
	})
	s.lawful(org)
}

func redelivered(a *agent, p *proxy, rdb *redis.Client, v verb) {
	key := "c-lost-" + v.name
	lost := p.lose(key, "")
	sub := a.command(v.name, key, v.body)
	within(a.TB, "the loss", requestTimeout, lost)
	out, replayed := a.decision(sub, 20*time.Second)
	if told(out) != v.outcome || !replayed {
		a.Errorf("decision: %v, replayed %v; want %s", out, replayed, v.outcome)
	}
	want := map[string]string{
		"reserve": "held 70 spent 0 withheld 0", "charge": "held 60 spent 3 withheld 0", "extend": "held 65 spent 0 withheld 0",
		"settle": "held 40 spent 7 withheld 0", "release": "held 40 spent 0 withheld 0",
	}
	equal(a.TB, "counters", counters(a.TB, rdb, a.Org, a.Pool), want[v.name])
	a.once(v)
}

// testAcknowledgementsLost: a worker's message has arrived and the worker has
// not heard so. An entry is not appended twice; a command that perhaps is
// stored is not called accepted; a decision that perhaps is out is sent again.
func (p *apart) testAcknowledgementsLost() {
	org := p.org()
	p.pool(org, "p", 1000)
	a := p.agent(org, "p")
	relay := newProxy(p.TB, "tcp", "127.0.0.1:"+p.natsPort)
	through := func(url string) {
		for _, worker := range []string{"scribe", "reserver"} {
			p.drain(worker)
			p.nats[worker] = url
			p.start(worker)
		}
		p.ready()
	}
	through("nats://" + relay.addr)
	defer through(p.address.NATS)

	appended := relay.lose("tally.v1.ledger."+org+".reserved", `"LEDGER"`)
	a.tells("allowed", "reserve", "k1", reserve(1))
	within(p.TB, "the loss of an append's acknowledgement", requestTimeout, appended)

	stored := relay.lose("perhaps stored", `"COMMANDS"`)
	reply, err := a.nc.RequestMsg(a.message("cmd", "reserve", "perhaps stored", reserve(10)), 2*requestTimeout)
	if err != nil || reply.Header.Get("Nats-Service-Error-Code") != "unavailable" {
		p.Errorf("a command that is perhaps stored: %v, %v", reply, err)
	}
	within(p.TB, "the loss of a store's acknowledgement", time.Second, stored)
	p.ready()
	if out, _ := a.durable("reserve", "perhaps stored", reserve(10)); told(out) != "allowed" {
		p.Errorf("repeated: %v", out)
	}

	out := relay.lose("decision."+token("reserve", "perhaps out"), "PONG")
	sub := a.command("reserve", "perhaps out", reserve(20))
	within(p.TB, "the loss of a decision's acknowledgement", requestTimeout, out)
	first, err := sub.NextMsg(requestTimeout)
	if err != nil {
		p.Fatal(err)
	}
	again, replayed := a.decision(sub, 20*time.Second)
	if told(again) != "allowed" || !replayed || !strings.Contains(string(first.Data), fmt.Sprint(again["reservation"])) {
		p.Errorf("the decision was %s, then %v, replayed %v", first.Data, again, replayed)
	}
	equal(p.TB, "entries", a.kinds(), []string{"reserved", "reserved", "reserved"})
	p.lawful(org)
}
