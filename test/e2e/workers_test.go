package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestWorkersApart runs every part as a process of its own. The parts of the
// test share one installation, and the later ones disturb it more.
func TestWorkersApart(t *testing.T) {
	t.Parallel()
	p := startApart(t)
	part := func(name string, test func(p *apart)) {
		t.Run(name, func(t *testing.T) {
			mine := *p
			mine.system = p.system.on(t)
			test(&mine)
		})
	}
	part("probes", (*apart).testProbes)
	part("life cycle", (*apart).testLifecycle)
	part("operator", (*apart).testOperator)
	part("pipeline", (*apart).testPipeline)
	part("evidence", (*apart).testEvidence)
	part("rights are enough", (*apart).testRightsAreEnough)
	part("rights in Redis are least", (*apart).testRedisRightsAreLeast)
	part("rights in NATS are least", (*apart).testNATSRightsAreLeast)
	part("expiry is reported once", (*apart).testExpiryReported)
	part("worker killed", (*apart).testWorkerKilled)
	part("worker killed after the script", (*apart).testKilledAfterScript)
	part("acknowledgements lost", (*apart).testAcknowledgementsLost)
	part("Redis killed", (*apart).testRedisKilled)
	part("NATS killed", (*apart).testNATSKilled)
}

func (p *apart) testProbes() {
	for _, worker := range workers() {
		if status, body, err := get("http://" + p.http[worker] + "/healthz"); err != nil || status != http.StatusOK || body != "ok\n" {
			p.Errorf("%s /healthz: %d %q %v", worker, status, body, err)
		}
		status, body, err := get("http://" + p.http[worker] + "/metrics")
		if err != nil || status != http.StatusOK || !strings.Contains(body, "\ntally_") || !strings.Contains(body, "\ngo_build_info") {
			p.Errorf("%s /metrics: %d %v, %d bytes", worker, status, err, len(body))
		}
	}
}

func (p *apart) testLifecycle() {
	org := p.org()
	p.pool(org, "root", 1000, "--late-window", "0")
	p.pool(org, "team", 500, "--parent", "root", "--late-window", "0", "--slots", "openai/*=1")
	a := p.agent(org, "team")
	a.tells("allowed", "reserve", "r1", object{"amounts": usd(100), "target": "openai/gpt-5"})
	a.tells("denied concurrency_exceeded", "reserve", "r2", object{"amounts": usd(1), "target": "openai/gpt-5"})
	a.tells("allowed", "extend", "x1", object{"key": "r1", "add": usd(20), "ttl_ms": 900000})
	a.tells("settled", "settle", "s1", object{"key": "r1", "actual": usd(70)})
	for key, v := range map[string]struct {
		verb, outcome string
		body          object
	}{
		"d1": {"reserve", "allowed", reserve(50)},
		"d2": {"charge", "charged", object{"actual": usd(5)}},
		"d3": {"release", "released", object{"key": "tomorrow's"}},
	} {
		if out, _ := a.durable(v.verb, key, v.body); told(out) != v.outcome {
			p.Errorf("durable %s: %v", v.verb, out)
		}
	}
	if out, _ := a.durable("settle", "d4", object{"key": "d1", "actual": usd(25)}); told(out) != "settled" {
		p.Errorf("durable settle: %v", out)
	}
	a.tells("denied released", "reserve", "tomorrow's", reserve(1))
	a.tells("allowed", "reserve", "left", object{"amounts": usd(9), "ttl_ms": 1000})
	p.eventually("expiry", 10*time.Second, func() error {
		if got := a.figures(); got != "held 0 spent 100 withheld 0" {
			return errors.New(got)
		}
		return nil
	})
	a.tells("late_settled", "settle", "late", object{"key": "left", "actual": usd(9)})
	equal(p.TB, "figures", a.figures(), "held 0 spent 109 withheld 0")
	p.lawful(org)
}

// testOperator goes through what operators ask of the registrar, the settler
// and the reconciler, so that every right they need is used.
func (p *apart) testOperator() {
	org := p.org()
	p.pool(org, "p", 100)
	a, b := p.agent(org, "p"), p.agent(org, "p")
	child := p.agent(org, "p", "--parent", b.Agent)
	p.must("pool", "set", "p", "--org", org, "--cap", "1000")
	p.must("pool", "freeze", "p", "--org", org)
	a.tells("denied frozen", "reserve", "while frozen", reserve(1))
	p.must("pool", "unfreeze", "p", "--org", org)
	a.tells("allowed", "reserve", "k1", reserve(300))
	a.tells("allowed", "reserve", "k2", reserve(300))
	child.tells("allowed", "reserve", "k", reserve(300))
	p.must("settle", "--org", org, "--agent", a.Agent, "--key", "s", "--reserve-key", "k1", "--actual", "usd_microcents=30")
	p.must("release", "--org", org, "--agent", a.Agent, "--key", "r", "--reserve-key", "k2")
	p.must("agent", "revoke", "--org", org, "--agent", b.Agent, "--holds", "release")
	equal(p.TB, "figures", a.figures(), "held 0 spent 30 withheld 0")
	p.must("agent", "rotate", "--org", org, "--agent", a.Agent)
	for _, args := range [][]string{
		{"pool", "show", "--org", org}, {"agent", "list", "--org", org}, {"ledger", "list", "--org", org}, {"rebuild", "--org", org},
	} {
		p.must(args...)
	}
	a.tells("allowed", "reserve", "after the rebuild", reserve(1))
	p.lawful(org)
}

// logs are everything that the parts have said so far.
func (p *apart) logs() string {
	p.Helper()
	files, err := filepath.Glob(filepath.Join(p.dir, "*.log"))
	if err != nil || len(files) < len(p.parts) {
		p.Fatalf("logs: %v, %v", files, err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			p.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// testWorkerKilled: nobody decides while the reserver is gone, and that is
// said at once; what others do goes on, and the next reserver knows all.
func (p *apart) testWorkerKilled() {
	org := p.org()
	p.pool(org, "p", 1000)
	a := p.agent(org, "p")
	first := a.tells("allowed", "reserve", "k", reserve(10))
	a.tells("allowed", "reserve", "k2", reserve(10))
	p.kill("reserver")
	for _, door := range []string{"rpc", "cmd"} {
		p.eventually("the server has noticed", 20*time.Second, func() error {
			_, err := a.nc.RequestMsg(a.message(door, "reserve", "nobody", reserve(10)), time.Second)
			if !errors.Is(err, nats.ErrNoResponders) {
				return fmt.Errorf("%s without a reserver: %w", door, err)
			}
			return nil
		})
	}
	a.tells("settled", "settle", "s", object{"key": "k2", "actual": usd(4)})
	p.start("reserver")
	p.ready()
	again := a.tells("allowed", "reserve", "k", reserve(10))
	equal(p.TB, "the replay's reservation", again["reservation"], first["reservation"])
	equal(p.TB, "figures", a.figures(), "held 10 spent 4 withheld 0")
	p.lawful(org)
}

// testKilledAfterScript: the reserver is killed between the script and the
// decision. Redis executes what it was sent; the next reserver is given the
// command again and answers.
func (p *apart) testKilledAfterScript() {
	org := p.org()
	p.pool(org, "p", 1000)
	a, rdb := p.agent(org, "p"), p.redis()
	a.tells("allowed", "reserve", "k", reserve(1))
	sub := a.listen("reserve", "pending")
	p.parts[redis1].send(syscall.SIGSTOP)
	a.store("reserve", "pending", reserve(10))
	delivered := func() error {
		info, err := p.streams().Consumer(p.Context(), "COMMANDS", "reserver")
		if err == nil && info.CachedInfo().NumAckPending == 0 {
			err = errors.New("not delivered")
		}
		return err
	}
	p.eventually("delivery", 5*time.Second, delivered)
	p.kill("reserver")
	p.parts[redis1].send(syscall.SIGCONT)
	p.eventually("the script", 5*time.Second, func() error {
		if got := counters(p.TB, rdb, org, "p"); got != "held 11 spent 0 withheld 0" {
			return errors.New(got)
		}
		return nil
	})
	if _, err := sub.NextMsg(time.Millisecond); err == nil {
		p.Error("a decision came from a killed reserver")
	}
	p.start("reserver")
	p.ready()
	if out, replayed := a.decision(sub, 20*time.Second); told(out) != "allowed" || !replayed {
		p.Errorf("decision: %v, replayed %v", out, replayed)
	}
	equal(p.TB, "counters", counters(p.TB, rdb, org, "p"), "held 11 spent 0 withheld 0")
	p.lawful(org)
}
