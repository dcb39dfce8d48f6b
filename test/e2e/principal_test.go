package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// acting is a principal with what is needed to spend for it.
type acting struct {
	*system
	org, name string
}

// shown is what `principal show` says of the figures on the pool p.
func (p acting) shown() string {
	p.Helper()
	doc := p.must("principal", "show", p.name, "--org", p.org)
	rows, ok := doc["balance"].([]any)
	if _, numbered := doc["as_of_seq"].(float64); !ok || !numbered {
		p.Fatalf("show: %v", doc)
	}
	if len(rows) == 0 {
		return "nothing"
	}
	r := rows[0].(object)
	return fmt.Sprintf("%v %v %v held %v spent %v withheld %v of %d", r["pool"], r["unit"], r["period"], r["held"], r["spent"], r["withheld"], len(rows))
}

// shows waits until the scribe has carried what was done.
func (p acting) shows(want string) {
	p.Helper()
	p.eventually("figures of "+p.name, 20*time.Second, func() error {
		if got := p.shown(); got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
}

// takes puts a body on the principal's account.
func (p acting) takes(body object) object {
	body["on_behalf_of"] = p.name
	return body
}

// TestOnBehalfOf: only its managers spend for a principal. To everybody else
// it does not exist, in the words for what never was, at both doors.
func TestOnBehalfOf(t *testing.T) {
	t.Parallel()
	s := start(t)
	mine, foreign := s.org(), s.org()
	s.pool(mine, "p", 1000)
	s.pool(foreign, "p", 1000)
	manager, sibling, stranger := s.agent(mine, "p"), s.agent(mine, "p"), s.agent(foreign, "p")
	child := s.agent(mine, "p", "--parent", manager.Agent)
	s.must("principal", "create", "customer 17", "--org", mine, "--manager", manager.Agent)
	s.must("principal", "create", "theirs", "--org", foreign, "--manager", stranger.Agent)
	s.must("principal", "create", "nobody's", "--org", mine)
	customer := acting{s, mine, "customer 17"}
	for _, a := range []*agent{sibling, child, stranger} {
		for _, door := range []string{"rpc", "cmd"} {
			a.sameWords(door, "reserve", reserve(1), "on_behalf_of", "customer 17", "nowhere")
			a.sameWords(door, "charge", object{"actual": usd(1)}, "on_behalf_of", "customer 17", "nowhere")
		}
	}
	for _, name := range []string{"theirs", "nobody's"} {
		manager.sameWords("rpc", "reserve", reserve(1), "on_behalf_of", name, "nowhere")
		manager.sameWords("cmd", "charge", object{"actual": usd(1), "incurred": true}, "on_behalf_of", name, "nowhere")
	}
	for _, args := range [][]string{
		{"principal", "show", "--org", mine, "theirs", "nowhere"},
		{"principal", "set", "--display", "x", "--org", mine, "theirs", "nowhere"},
		{"principal", "create", "x", "--org", mine, "--manager", stranger.Agent, "0198f000-0000-7000-8000-000000000001"},
	} {
		sameWords(t, s.run, args)
	}
	equal(t, "figures", manager.figures(), "held 0 spent 0 withheld 0")
	equal(t, "entries", len(s.entries(mine, "--principal", customer.name)), 0)

	manager.tells("allowed", "reserve", "k1", customer.takes(reserve(10)))
	if out, _ := manager.durable("reserve", "k2", customer.takes(reserve(10))); told(out) != "allowed" {
		t.Errorf("durable: %v", out)
	}
	customer.shows("p usd_microcents none held 20 spent 0 withheld 0 of 1")
	s.lawful(mine)
	s.lawful(foreign)
}

// TestManagersComeAndGo: an added manager may at once, a removed one no more;
// what was allowed before is answered as it was, and can be settled.
func TestManagersComeAndGo(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a, other := s.agent(org, "p"), s.agent(org, "p")
	customer := acting{s, org, "customer"}
	s.must("principal", "create", "customer", "--org", org)
	for i := range 3 {
		key := func(k string) string { return fmt.Sprint(k, i) }
		s.must("principal", "set", "customer", "--org", org, "--add-manager", a.Agent)
		first := a.tells("allowed", "reserve", key("r"), customer.takes(reserve(10)))
		a.tells("charged", "charge", key("c"), customer.takes(object{"actual": usd(1)}))
		doc := s.must("principal", "set", "customer", "--org", org, "--add-manager", other.Agent, "--remove-manager", a.Agent)
		if managers := doc["principal"].(object)["managers"].([]any); len(managers) != 1 || managers[0] != other.Agent {
			t.Fatalf("managers %v", managers)
		}
		s.eventually("the removal", 10*time.Second, func() error {
			if out := a.call("reserve", "", customer.takes(object{"amounts": usd(1), "dry_run": true})); told(out) != "not_found" {
				return fmt.Errorf("%v", out)
			}
			return nil
		})
		a.tells("not_found", "reserve", key("new"), customer.takes(reserve(10)))
		a.tells("not_found", "charge", key("new"), customer.takes(object{"actual": usd(1)}))
		other.tells("allowed", "reserve", key("o"), customer.takes(reserve(1)))

		again := a.tells("allowed", "reserve", key("r"), customer.takes(reserve(10)))
		equal(t, "the same", fmt.Sprint(again["reservation"], again["expires_at"]), fmt.Sprint(first["reservation"], first["expires_at"]))
		a.tells("charged", "charge", key("c"), customer.takes(object{"actual": usd(1)}))
		a.tells("settled", "settle", key("s"), object{"key": key("r"), "actual": usd(4)})
	}
	customer.shows("p usd_microcents none held 3 spent 15 withheld 0 of 1")
	s.lawful(org)
}

// TestFiguresPerPrincipal: they are the sum of what was done for each, through
// every way a reservation ends, and the ledger can be read by principal.
func TestFiguresPerPrincipal(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 10_000)
	a := s.agent(org, "p")
	for _, name := range []string{"ada", "bob"} {
		s.must("principal", "create", name, "--org", org, "--manager", a.Agent, "--display", "Customer "+name)
	}
	ada, bob := acting{s, org, "ada"}, acting{s, org, "bob"}
	ada.shows("nothing")
	for i := range 10 {
		a.tells("allowed", "reserve", fmt.Sprint("a", i), ada.takes(reserve(10)))
		a.tells("allowed", "reserve", fmt.Sprint("b", i), bob.takes(reserve(20)))
		a.tells("allowed", "reserve", fmt.Sprint("n", i), reserve(100))
		a.tells("settled", "settle", fmt.Sprint("sa", i), object{"key": fmt.Sprint("a", i), "actual": usd(int64(i))}) // 45
		a.tells("settled", "settle", fmt.Sprint("sn", i), object{"key": fmt.Sprint("n", i), "actual": usd(100)})
	}
	a.tells("charged", "charge", "c", ada.takes(object{"actual": usd(5)}))
	a.tells("released", "release", "rb", object{"key": "b0"})
	a.tells("allowed", "reserve", "short", ada.takes(object{"amounts": usd(7), "ttl_ms": 1000}))
	ada.shows("p usd_microcents none held 0 spent 50 withheld 7 of 1")
	bob.shows("p usd_microcents none held 180 spent 0 withheld 0 of 1")
	equal(t, "of all", a.figures(), "held 180 spent 1050 withheld 7")

	for name, want := range map[string]string{
		"ada":     "map[charged:1 expired:1 reserved:11 settled:10]",
		"bob":     "map[released:1 reserved:10]",
		"nowhere": "map[]",
	} {
		kinds := map[string]int{}
		for _, e := range s.entries(org, "--principal", name) {
			kinds[e.Kind]++
		}
		equal(t, name, fmt.Sprint(kinds), want)
	}
	if newest := s.entries(org, "--principal", "bob", "--last", "1"); len(newest) != 1 || newest[0].Kind != "released" {
		t.Errorf("the newest of bob's: %+v", newest)
	}
	cmd := exec.Command(built("tallystick"), "ledger", "tail", "--org", org, "--principal", "bob")
	cmd.Env = append(os.Environ(), s.env...)
	tail := spawn(t, t.TempDir(), "tail", cmd)
	s.eventually("bob's 11 entries in the tail", 10*time.Second, func() error {
		if n := strings.Count(tail.text(), "\n"); n != 11 {
			return fmt.Errorf("%d lines: %s", n, tail.text())
		}
		return nil
	})
	tail.end(syscall.SIGTERM)
	if list := s.must("principal", "list", "--org", org)["principals"].([]any); len(list) != 2 || list[0].(object)["display"] != "Customer ada" {
		t.Errorf("list: %v", list)
	}
	s.lawful(org)
}
