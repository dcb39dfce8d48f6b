package e2e

import (
	"fmt"
	"testing"
	"time"
)

// pools makes a path of n pools, root first, each with money and tokens.
func (s *system) path(org string, n int) []string {
	s.Helper()
	var names []string
	for i := range n {
		args := []string{"pool", "create", fmt.Sprint("level ", i), "--org", org, "--limit", fmt.Sprint("usd_microcents=", 1000-100*i), "--limit", "tokens=500"}
		if i > 0 {
			args = append(args, "--parent", names[i-1])
		}
		s.must(args...)
		names = append(names, fmt.Sprint("level ", i))
	}
	return names
}

func both(usd, tokens int64) object {
	return object{"amounts": object{"usd_microcents": usd, "tokens": tokens}}
}

// TestEightLevels: every pool of a path counts, in each of its units, all or
// none; a denial names the pool, unit and period that refused; a ninth level
// is refused.
func TestEightLevels(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	names := s.path(org, 8)
	_, code, text := s.run("pool", "create", "level 8", "--org", org, "--parent", names[7], "--unit", "tokens", "--cap", "1")
	if code == 0 {
		t.Errorf("a ninth level: %s", text)
	}
	deep, middle := s.agent(org, names[7]), s.agent(org, names[3])
	deep.tells("allowed", "reserve", "a", both(300, 10))
	if out := deep.tells("denied budget_exceeded", "reserve", "b", both(1, 1)); out["pool"] != names[7] || out["unit"] != "usd_microcents" || out["period"] != "none" || out["remaining"] != 0.0 {
		t.Errorf("%v", out)
	}
	middle.tells("allowed", "reserve", "a", both(400, 490))
	s.must("pool", "set", names[7], "--org", org, "--unit", "usd_microcents", "--cap", "1000")
	if out := deep.tells("denied budget_exceeded", "reserve", "c", both(1, 1)); out["pool"] != names[3] || out["unit"] != "tokens" {
		t.Errorf("tokens are gone at level 3 first: %v", out)
	}
	rows := deep.call("balance", "", object{})["pools"].([]any)
	if len(rows) != 16 {
		t.Fatalf("%d rows of balance", len(rows))
	}
	if r := rows[15].(map[string]any); r["pool"] != names[0] || r["unit"] != "usd_microcents" || r["held"] != 700.0 {
		t.Errorf("the root: %v", r)
	}
	s.lawful(org)
}

// TestFrozenAndClosed: what is held stays and can be resolved; nothing new is
// taken, from the pool or from any below it.
func TestFrozenAndClosed(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	names := s.path(org, 3)
	a := s.agent(org, names[2])
	for _, key := range []string{"settle", "release", "later"} {
		a.tells("allowed", "reserve", key, both(10, 1))
	}
	s.must("pool", "freeze", names[1], "--org", org)
	if out := a.tells("denied frozen", "reserve", "x", both(1, 1)); out["pool"] != names[1] {
		t.Errorf("%v", out)
	}
	a.tells("settled", "settle", "s", object{"key": "settle", "actual": object{"usd_microcents": 5, "tokens": 1}})
	a.tells("released", "release", "r", object{"key": "release"})
	s.must("pool", "unfreeze", names[1], "--org", org)
	a.tells("allowed", "reserve", "y", both(1, 1))
	if doc := s.must("pool", "close", names[1], "--org", org); doc["outcome"] != "closed" {
		t.Errorf("%v", doc)
	}
	if out := a.tells("denied period_closed", "reserve", "z", both(1, 1)); out["pool"] != names[1] {
		t.Errorf("%v", out)
	}
	a.tells("settled", "settle", "l", object{"key": "later", "actual": object{"usd_microcents": 10, "tokens": 1}})
	for _, args := range [][]string{
		{"pool", "unfreeze", names[1], "--org", org},
		{"pool", "set", names[1], "--org", org, "--unit", "tokens", "--cap", "9"},
		{"pool", "create", "below", "--org", org, "--parent", names[1], "--unit", "tokens", "--cap", "1"},
		{"agent", "register", "--org", org, "--name", "n", "--pool", names[1]},
	} {
		if _, code, text := s.run(args...); code != 2 {
			t.Errorf("%v on a closed pool: exit %d: %s", args, code, text)
		}
	}
	// A cap of 0 means nothing; one below what is in use blocks what is new.
	s.must("pool", "create", "nothing", "--org", org, "--unit", "tokens", "--cap", "0")
	s.agent(org, "nothing").tells("denied budget_exceeded", "reserve", "x", object{"amounts": object{"tokens": 1}})
	s.must("pool", "create", "uncapped", "--org", org, "--unit", "tokens", "--cap", "none")
	free := s.agent(org, "uncapped")
	free.tells("allowed", "reserve", "x", object{"amounts": object{"tokens": int64(1) << 40}})
	s.must("pool", "set", "uncapped", "--org", org, "--cap", "5")
	free.tells("denied budget_exceeded", "reserve", "y", object{"amounts": object{"tokens": 1}})
	free.tells("settled", "settle", "x", object{"key": "x", "actual": object{"tokens": int64(1) << 40}})
	free.tells("denied debt", "reserve", "z", object{"amounts": object{"tokens": 1}})
	s.lawful(org)
}

// TestSlots: one holder each, freed by whatever resolves the reservation, and
// by its deadline; a denial says how many hold and when the next is free at
// the latest.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000, "--slots", "openai/*=2", "--slots", "*=3")
	a, b := s.agent(org, "p"), s.agent(org, "p")
	ask := func(ttl int64, target string) object {
		return object{"amounts": usd(1), "ttl_ms": ttl, "target": target}
	}
	a.tells("allowed", "reserve", "1", ask(60_000, "openai/gpt-5"))
	b.tells("allowed", "reserve", "1", ask(30_000, "openai/gpt-5-mini"))
	out := a.tells("denied concurrency_exceeded", "reserve", "2", ask(60_000, "openai/o9"))
	if wait, _ := out["retry_after_ms"].(float64); out["holders"] != 2.0 || wait <= 20_000 || wait > 30_000 || out["pool"] != "p" {
		t.Errorf("%v", out)
	}
	// The policy changes; what is held frees what it took all the same.
	s.must("pool", "set", "p", "--org", org, "--slots", "openai/*=1", "--slots", "*=1")
	a.tells("denied concurrency_exceeded", "reserve", "3", ask(60_000, "openai/o9"))
	a.tells("settled", "settle", "1", object{"key": "1", "actual": usd(1)})
	b.tells("released", "release", "1", object{"key": "1"})
	rdb := s.redis()
	keys, err := rdb.Keys(t.Context(), "concurrency:*"+org+"*").Result()
	if err != nil || len(keys) != 0 {
		t.Errorf("slots that nobody holds: %v, %v", keys, err)
	}
	a.tells("allowed", "reserve", "4", ask(1_000, "anything"))
	b.tells("denied concurrency_exceeded", "reserve", "5", ask(60_000, "else"))
	// Nobody resolves it: the slot is free at the deadline, without traffic.
	s.eventually("the slot is free", 10*time.Second, func() error {
		out, err := b.ask("reserve", fmt.Sprint("try ", time.Now().UnixNano()), ask(60_000, "else"))
		if err == nil && told(out) != "allowed" {
			err = fmt.Errorf("%v", out)
		}
		return err
	})
	s.lawful(org)
}
