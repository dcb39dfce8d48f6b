// Package sim drives the scripts, on a real Redis, and the model of
// pkg/budget side by side through random histories. After every step they
// must agree on the decision and on every counter, the counters must be the
// fold of the entries, and no hold may have passed a cap.
//
// TALLY_SIM_CHECKS sets the number of histories, TALLY_SIM_SEED repeats a run.
package sim

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tallystick/internal/testkit"
)

// Histories by default, and steps in each.
const (
	checksDefault = 200
	stepsDefault  = 60
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := configure(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	testkit.Main(m)
}

// configure hands the environment to rapid, unless its own flags were given,
// and picks a seed that can be printed before anything fails.
func configure() error {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	seed := strconv.FormatInt(time.Now().UnixNano(), 10)
	for _, s := range []struct{ flag, env, value string }{
		{"rapid.checks", "TALLY_SIM_CHECKS", strconv.Itoa(checksDefault)},
		{"rapid.steps", "TALLY_SIM_STEPS", strconv.Itoa(stepsDefault)},
		{"rapid.seed", "TALLY_SIM_SEED", seed},
	} {
		if given[s.flag] {
			continue
		}
		if v := os.Getenv(s.env); v != "" {
			s.value = v
		}
		if err := flag.Set(s.flag, s.value); err != nil {
			return fmt.Errorf("%s: %w", s.env, err)
		}
	}
	return nil
}

func TestScriptsAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	t.Logf("TALLY_SIM_SEED=%s TALLY_SIM_CHECKS=%s", flag.Lookup("rapid.seed").Value, flag.Lookup("rapid.checks").Value)
	server := newServer(t, testkit.Redis(t))
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, server)
		rt.Repeat(map[string]func(*rapid.T){
			"":          w.check,
			"reserve":   w.reserve,
			"reserve 2": w.reserve, // named thrice: nothing happens without holds
			"reserve 3": w.reserve,
			"settle":    w.settle,
			"settle 2":  w.settle,
			"release":   w.release,
			"extend":    w.extend,
			"charge":    w.charge,
			"repeat":    w.again,
			"wait":      w.wait,
			"reap":      w.reap,
			"policy":    w.policy,
			"revoke":    w.revoke,
			"lose":      w.lose,
		})
	})
	server.report(t, "lapsed", "denied pool_missing", "denied released", "pool missing")
}
