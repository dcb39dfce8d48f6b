package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// requestTimeout is for one answer; machines may be busy.
const requestTimeout = 10 * time.Second

func (a *agent) subject(door, last string) string {
	return "tally.v1." + a.Org + "." + a.Agent + "." + door + "." + last
}

func (a *agent) message(door, verb, key string, body any) *nats.Msg {
	msg := nats.NewMsg(a.subject(door, verb))
	if key != "" {
		msg.Header.Set("Nats-Msg-Id", key)
	}
	if raw, ok := body.(string); ok {
		msg.Data = []byte(raw)
	} else {
		msg.Data, _ = json.Marshal(body)
	}
	return msg
}

// ask is one request at the direct door.
func (a *agent) ask(verb, key string, body any) (object, error) {
	reply, err := a.nc.RequestMsg(a.message("rpc", verb, key, body), requestTimeout)
	if err != nil {
		return nil, err
	}
	var out object
	return out, json.Unmarshal(reply.Data, &out)
}

// call is ask that has to be answered.
func (a *agent) call(verb, key string, body any) object {
	a.Helper()
	out, err := a.ask(verb, key, body)
	if err != nil {
		a.Fatalf("%s %s: %v", verb, key, err)
	}
	return out
}

// command stores a command and returns the subscription its decision comes to.
func (a *agent) command(verb, key string, body any) *nats.Subscription {
	a.Helper()
	sum := sha256.Sum256([]byte(verb + "\x00" + key))
	sub, err := a.nc.SubscribeSync(a.subject("decision", fmt.Sprintf("%x", sum[:16])))
	if err != nil {
		a.Fatal(err)
	}
	reply, err := a.nc.RequestMsg(a.message("cmd", verb, key, body), requestTimeout)
	if err != nil {
		a.Fatalf("cmd %s: %v", verb, err)
	}
	if string(reply.Data) != `{"outcome":"accepted"}` {
		a.Fatalf("cmd %s: %s", verb, reply.Data)
	}
	return sub
}

func (a *agent) decision(sub *nats.Subscription, within time.Duration) (object, bool) {
	a.Helper()
	msg, err := sub.NextMsg(within)
	if err != nil {
		a.Fatalf("no decision: %v", err)
	}
	var out object
	if err := json.Unmarshal(msg.Data, &out); err != nil {
		a.Fatal(err)
	}
	_ = sub.Unsubscribe()
	return out, msg.Header.Get("Tally-Replayed") == "true"
}

// durable is one command and its decision.
func (a *agent) durable(verb, key string, body any) (object, bool) {
	a.Helper()
	return a.decision(a.command(verb, key, body), 10*time.Second)
}

// told is outcome and reason, or the error's code.
func told(o object) string {
	if e, ok := o["error"].(map[string]any); ok {
		return fmt.Sprint(e["code"])
	}
	if o["reason"] != nil && o["outcome"] == "denied" {
		return fmt.Sprintf("denied %v", o["reason"])
	}
	return fmt.Sprint(o["outcome"])
}

// figures are held, spent, withheld of the agent's own pool.
func (a *agent) figures() string {
	a.Helper()
	rows, ok := a.call("balance", "", object{})["pools"].([]any)
	if !ok || len(rows) == 0 {
		a.Fatal("no balance")
	}
	r := rows[0].(map[string]any)
	return fmt.Sprintf("held %.0f spent %.0f withheld %.0f", r["held"], r["spent"], r["withheld"])
}

func usd(n int64) object { return object{"usd_microcents": n} }

func reserve(n int64) object { return object{"amounts": usd(n)} }

// lawful: the ledger verifies and counters are what it says.
func (s *system) lawful(org string) {
	s.Helper()
	s.eventually("drift 0", 20*time.Second, func() error {
		doc, code, text := s.run("reconcile", "--once", "--org", org)
		if code != 0 || doc["verdict"] != "ok" {
			return fmt.Errorf("reconcile: exit %d: %s", code, text)
		}
		return nil
	})
	doc, code, text := s.run("ledger", "verify", "--org", org)
	if code != 0 || doc["verdict"] != "ok" {
		s.Fatalf("verify: exit %d: %s", code, text)
	}
}
