package e2e

import (
	"context"
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
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	out, _, err := a.askWith(ctx, verb, key, body)
	return out, err
}

// askWith says also whether the answer was given before.
func (a *agent) askWith(ctx context.Context, verb, key string, body any) (object, bool, error) {
	reply, err := a.nc.RequestMsgWithContext(ctx, a.message("rpc", verb, key, body))
	if err != nil {
		return nil, false, err
	}
	var out object
	return out, reply.Header.Get("Tally-Replayed") == "true", json.Unmarshal(reply.Data, &out)
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

// tells is a call whose outcome is known beforehand.
func (a *agent) tells(want, verb, key string, body any) object {
	a.Helper()
	out := a.call(verb, key, body)
	if told(out) != want {
		a.Fatalf("%s %s: %v, want %s", verb, key, out, want)
	}
	return out
}

// listen hears the decision of a command that is yet to be sent.
func (a *agent) listen(verb, key string) *nats.Subscription {
	a.Helper()
	sub, err := a.nc.SubscribeSync(a.subject("decision", token(verb, key)))
	if err != nil {
		a.Fatal(err)
	}
	return sub
}

// token is the last word of a decision's subject.
func token(verb, key string) string {
	sum := sha256.Sum256([]byte(verb + "\x00" + key))
	return fmt.Sprintf("%x", sum[:16])
}

// store sends a command, which has to be accepted.
func (a *agent) store(verb, key string, body any) {
	a.Helper()
	reply, err := a.nc.RequestMsg(a.message("cmd", verb, key, body), requestTimeout)
	if err != nil {
		a.Fatalf("cmd %s: %v", verb, err)
	}
	if string(reply.Data) != `{"outcome":"accepted"}` {
		a.Fatalf("cmd %s: %s", verb, reply.Data)
	}
}

// command stores a command and returns the subscription its decision comes to.
func (a *agent) command(verb, key string, body any) *nats.Subscription {
	a.Helper()
	sub := a.listen(verb, key)
	a.store(verb, key, body)
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
