package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// line is one command line, its exit code, and what its document says: an
// outcome, a denial, an error's code, or a verdict.
type line struct {
	exit int
	says string
	args string
}

func (l line) check(t *testing.T, run func(...string) (object, int, string)) {
	t.Helper()
	doc, code, text := run(strings.Fields(l.args)...)
	says := told(doc)
	if v, ok := doc["verdict"]; ok {
		says = fmt.Sprint(v)
	}
	if doc == nil {
		says = ""
	}
	if code != l.exit || says != l.says {
		t.Errorf("%s: exit %d, %s; want %d, %s\n%s", l.args, code, says, l.exit, l.says, text)
	}
}

// TestExitCodes: each code of the contract, with the one document that
// belongs to it.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.register(org, "p")
	const one = " --amount usd_microcents=1"
	for _, l := range []line{
		{0, "allowed", "reserve --key k --amount usd_microcents=100"},
		{0, "allowed", "reserve --key k --amount usd_microcents=100"},
		{0, "allowed", "reserve --key d --door durable --ttl 60s --amount usd_microcents=100"},
		{0, "allowed", "reserve --dry-run --amount usd_microcents=800"},
		{2, "", "reserve" + one},
		{2, "", "reserve --key x --amount usd_microcents=1.5"},
		{2, "", "reserve --key x --amount usd_microcents=1e3"},
		{2, "", "reserve --key x --no-such-flag"},
		{2, "", "reserve --key x --door back" + one},
		{2, "", "no-such-command"},
		{2, "unit_unknown", "reserve --key x --amount usd_microcents=1 --amount apples=1"},
		{2, "unit_missing", "reserve --key x --amount tokens=1"},
		{2, "invalid_argument", "reserve --key x --ttl 1ms" + one},
		{2, "", "doctor"},
		{1, "", "ledger verify --against no-such-file --org " + org},
		{3, "not_found", "reservation --reserve-key nothing"},
		{3, "not_found", "settle --key s --reserve-key nothing"},
		{4, "denied budget_exceeded", "reserve --key big --amount usd_microcents=1001"},
		{4, "denied budget_exceeded", "reserve --key big2 --door durable --amount usd_microcents=1001"},
		{4, "denied budget_exceeded", "reserve --dry-run --amount usd_microcents=1001"},
		{5, "key_reused", "reserve --key k --amount usd_microcents=101"},
		{0, "settled", "settle --key s --reserve-key k --actual usd_microcents=40"},
		{0, "settled", "settle --key s --reserve-key k --actual usd_microcents=40"},
		{5, "already_settled", "settle --key s2 --reserve-key k --actual usd_microcents=40"},
		{5, "already_settled", "release --key r --reserve-key k"},
		{0, "allowed", "extend --key e --reserve-key d --ttl 5m"},
		{0, "released", "release --key r2 --reserve-key d"},
		{5, "already_released", "extend --key e2 --reserve-key d --ttl 5m"},
		{0, "charged", "charge --key c --actual usd_microcents=1"},
		{4, "denied budget_exceeded", "charge --key c2 --actual usd_microcents=1001"},
		{0, "charged", "charge --key c3 --actual usd_microcents=1001 --incurred"},
		{4, "denied debt", "reserve --key k3" + one},
	} {
		l.check(t, a.run)
	}
	s.lawful(org)
}

// TestExitCodesOfTrouble: who is not let in, what is out of reach, and what
// does not add up.
func TestExitCodesOfTrouble(t *testing.T) {
	t.Parallel()
	s := start(t)
	org, rdb := s.org(), s.redis()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	a.tells("allowed", "reserve", "k", reserve(10))
	s.lawful(org)
	with := func(env ...string) func(...string) (object, int, string) {
		return func(args ...string) (object, int, string) { return command(t, env, append(args, "-o", "json")...) }
	}
	url := "TALLY_URL=" + s.address.NATS
	closed := "TALLY_URL=nats://127.0.0.1:" + freePort(t)
	line{6, "", "balance"}.check(t, with(url, "TALLY_TOKEN=tly_"+strings.Repeat("0", 49)))
	line{6, "", "balance"}.check(t, with(url, "TALLY_TOKEN=guess"))
	line{6, "", "pool show --org " + org}.check(t, with(url, "TALLY_TOKEN=guess"))
	line{2, "", "balance"}.check(t, with(url))
	line{2, "", "balance"}.check(t, with("TALLY_TOKEN="+a.Token))
	line{7, "unavailable", "balance --timeout 2s"}.check(t, with(closed, "TALLY_TOKEN="+a.Token))
	line{7, "unavailable", "pool show --org " + org}.check(t, with(closed, "TALLY_TOKEN=guess"))
	line{7, "unavailable", "pool show --org " + org}.check(t, with("TALLY_DATA="+t.TempDir()))

	keys, err := rdb.Keys(t.Context(), "bp:*"+org+"*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	rdb.HIncrBy(t.Context(), keys[0], "spent", 1)
	line{8, "drift", "reconcile --once --org " + org}.check(t, s.run)
	rdb.HIncrBy(t.Context(), keys[0], "spent", -1)
	line{0, "ok", "reconcile --once --org " + org}.check(t, s.run)

	export := filepath.Join(t.TempDir(), "export.jsonl")
	s.must("ledger", "export", "--org", org, "--file", export)
	line{0, "ok", "ledger verify --file " + export}.check(t, with())
	line{1, "", "ledger export --file " + export + " --org " + org}.check(t, s.run)
	text, err := os.ReadFile(export)
	if err == nil {
		err = os.WriteFile(export, []byte(strings.Replace(string(text), `\"held\":10`, `\"held\":11`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	line{8, "altered", "ledger verify --file " + export}.check(t, with())
}

// TestOperatorResolves: an operator settles and releases for an agent that
// cannot any more.
func TestOperatorResolves(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	id := a.tells("allowed", "reserve", "k1", reserve(10))["reservation"]
	a.tells("allowed", "reserve", "k2", reserve(10))
	a.tells("allowed", "reserve", "k3", object{"amounts": usd(10), "ttl_ms": 1000})
	on := " --org " + org + " --agent " + a.Agent
	for _, l := range []line{
		{2, "", "settle --key s --reserve-key k1 --org " + org},
		{2, "", "settle --key s --reserve-key k1 --door durable" + on},
		{2, "", "settle --key s" + on},
		{2, "", "settle --reserve-key k1" + on},
		{4, "denied overrun", "settle --key dear --actual usd_microcents=9000000 --reserve-key k1" + on},
		{0, "settled", fmt.Sprint("settle --key s --actual usd_microcents=7 --reservation ", id, on)},
		{0, "settled", fmt.Sprint("settle --key s --actual usd_microcents=7 --reservation ", id, on)},
		{5, "key_reused", fmt.Sprint("settle --key s --actual usd_microcents=8 --reservation ", id, on)},
		{5, "already_settled", "settle --key other --reserve-key k1" + on},
		{0, "released", "release --key r --reason gone --reserve-key k2" + on},
		{5, "already_released", "settle --key late --reserve-key k2" + on},
		{3, "not_found", "settle --key x --reserve-key nothing" + on},
	} {
		l.check(t, s.run)
	}
	s.eventually("expiry", 10*time.Second, func() error {
		if out := a.call("reservation", "", object{"key": "k3"}); out["state"] != "expired" {
			return fmt.Errorf("%v", out)
		}
		return nil
	})
	line{0, "late_settled", "settle --key s3 --actual usd_microcents=3 --reserve-key k3" + on}.check(t, s.run)
	equal(t, "figures", a.figures(), "held 0 spent 10 withheld 0")
	s.lawful(org)

	// For people: a table, money in dollars beside the integer.
	_, code, text := command(t, append(s.env, "TALLY_TOKEN="+a.Token), "balance")
	if code != 0 || !strings.Contains(text, "REMAINING") || !strings.Contains(text, "990 ($0.0000099)") || json.Valid([]byte(text)) {
		t.Errorf("balance for people: exit %d:\n%s", code, text)
	}
}
