package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestPoolMissing: one limit's hash is deleted under a running system.
func TestPoolMissing(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	for _, key := range []string{"settled", "released", "left"} {
		if got := told(a.call("reserve", key, object{"amounts": usd(10), "ttl_ms": 1500})); got != "allowed" {
			t.Fatal(got)
		}
	}
	rdb := s.redis()
	keys, err := rdb.Keys(t.Context(), "bp:*"+fmt.Sprintf("%d:%s", len(org), org)+"*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	rdb.Del(t.Context(), keys[0])

	if got := told(a.call("reserve", "new", reserve(1))); got != "denied pool_missing" {
		t.Error(got)
	}
	if out := a.call("settle", "s", object{"key": "settled", "actual": usd(4)}); told(out) != "settled" || out["pool_missing"] != true {
		t.Error(out)
	}
	if out := a.call("release", "r", object{"key": "released"}); told(out) != "released" || out["pool_missing"] != true {
		t.Error(out)
	}
	s.eventually("expiry", 10*time.Second, func() error {
		if out := a.call("reservation", "", object{"key": "left"}); out["state"] != "expired" {
			return fmt.Errorf("state %v", out["state"])
		}
		return nil
	})
	if n := rdb.Exists(t.Context(), keys[0]).Val(); n != 0 {
		t.Error("the limit was created again")
	}
	doc, code, text := s.run("reconcile", "--once", "--org", org)
	if code != 8 || doc["verdict"] != "drift" {
		t.Errorf("reconcile: exit %d: %s", code, text)
	}
	s.must("rebuild", "--org", org)
	if got := told(a.call("reserve", "after", reserve(1))); got != "allowed" {
		t.Error(got)
	}
	s.lawful(org)
}

// TestRedisEmptied: everything answers unavailable, queued settles wait; after
// a rebuild both are whole again and the settles are booked.
func TestRedisEmptied(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000, "--slots", "1")
	a := s.agent(org, "p")
	first := a.call("reserve", "k", object{"amounts": usd(10), "target": "openai/gpt-5"})
	if told(first) != "allowed" {
		t.Fatal(first)
	}
	a.call("reserve", "spent", reserve(20))
	a.call("settle", "s1", object{"key": "spent", "actual": usd(15)})
	s.lawful(org)
	// What is lost with Redis is what the ledger does not have yet.
	s.eventually("the ledger has it all", 10*time.Second, func() error {
		if all := s.entries(org); len(all) == 0 || all[len(all)-1].Kind != "settled" {
			return fmt.Errorf("%v", all)
		}
		return nil
	})

	rdb := s.redis()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for verb, body := range map[string]object{
		"reserve": reserve(1), "settle": {"key": "k", "actual": usd(5)}, "release": {"key": "k"},
		"extend": {"key": "k", "ttl_ms": 900000}, "charge": {"actual": usd(1)},
	} {
		if got := told(a.call(verb, "while-empty-"+verb, body)); got != "unavailable" {
			t.Errorf("%s while Redis is empty: %s", verb, got)
		}
	}
	waiting := a.command("settle", "queued", object{"key": "k", "actual": usd(7)})
	s.must("rebuild")
	if out, _ := a.decision(waiting, 30*time.Second); told(out) != "settled" {
		t.Errorf("the queued settle: %v", out)
	}
	if got := a.figures(); got != "held 0 spent 22 withheld 0" {
		t.Error(got)
	}
	again := a.call("reserve", "k", object{"amounts": usd(10), "target": "openai/gpt-5"})
	if again["reservation"] != first["reservation"] {
		t.Errorf("the reserve's replay: %v", again)
	}
	if got := told(a.call("settle", "s1", object{"key": "spent", "actual": usd(15)})); got != "settled" {
		t.Errorf("the settle's replay: %s", got)
	}
	if got := told(a.call("reserve", "slot", object{"amounts": usd(1), "target": "openai/gpt-5"})); got != "allowed" {
		t.Errorf("the freed slot: %s", got)
	}
	s.lawful(org)
}
