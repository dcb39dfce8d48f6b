package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// expiries counts the events of an org's expired reservations on EVENTS.
func (p *apart) expiries(org string) map[string]int {
	p.Helper()
	subject := "tally.v1.event." + org + ".reservation_expired"
	stream, err := p.streams().Stream(p.Context(), "EVENTS")
	if err != nil {
		p.Fatal(err)
	}
	count := map[string]int{}
	for seq := uint64(1); ; seq++ {
		msg, err := stream.GetMsg(p.Context(), seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return count
		}
		if err != nil {
			p.Fatal(err)
		}
		seq = msg.Sequence
		var event struct{ Org, Reservation, At string }
		if err := json.Unmarshal(msg.Data, &event); err != nil || event.Org != org {
			p.Fatalf("event %s: %v", msg.Data, err)
		}
		count[event.Reservation]++
	}
}

// abandon reserves with the shortest time to live, and gives each deadline.
func (a *agent) abandon(n int, prefix string) map[string]time.Time {
	a.Helper()
	deadlines := map[string]time.Time{}
	for i := range n {
		out := a.tells("allowed", "reserve", fmt.Sprint(prefix, i), object{"amounts": usd(10), "ttl_ms": 1000})
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(out["expires_at"]))
		if err != nil {
			a.Fatal(err)
		}
		deadlines[fmt.Sprint(out["reservation"])] = at
	}
	return deadlines
}

// punctual: the ledger says that each was expired after its deadline and
// within two seconds of it, by Redis's clock.
func (s *system) punctual(org string, deadlines map[string]time.Time) {
	s.Helper()
	seen := 0
	for _, e := range s.entries(org) {
		if deadline, ok := deadlines[e.Execution]; ok && e.Kind == "expired" {
			seen++
			if late := e.At.Sub(deadline); late < 0 || late > 2*time.Second {
				s.Errorf("expired %s after its deadline", late)
			}
		}
	}
	equal(s.TB, "expiries on the ledger", seen, len(deadlines))
}

// testExpiryReported: nothing is asked of anybody until the reports are
// there; a reaper that is killed meanwhile loses none and repeats none.
func (p *apart) testExpiryReported() {
	org := p.org()
	p.pool(org, "p", 1000)
	a := p.agent(org, "p")
	all := func(want map[string]time.Time) func() error {
		return func() error {
			got := p.expiries(org)
			for id := range want {
				if got[id] != 1 {
					return fmt.Errorf("%s was reported %d times", id, got[id])
				}
			}
			return nil
		}
	}
	first := a.abandon(5, "a")
	p.eventually("reports", 10*time.Second, all(first))
	p.punctual(org, first)
	second := a.abandon(5, "b")
	p.kill("reaper")
	p.start("reaper")
	p.eventually("reports of the next reaper", 20*time.Second, all(second))
	equal(p.TB, "reports", len(p.expiries(org)), 10)
	p.eventually("reports once each", time.Second, all(first))
	equal(p.TB, "figures", a.figures(), "held 0 spent 0 withheld 100")
	p.lawful(org)
}

// TestExpiry: an overdue hold is withheld without anybody asking, and what it
// cost can still be booked; after the late window the rest comes back.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := start(t)
	org, rdb := s.org(), s.redis()
	s.pool(org, "long", 100)
	s.pool(org, "short", 100, "--late-window", "1s")
	s.pool(org, "none", 100, "--late-window", "0")
	long, short, none := s.agent(org, "long"), s.agent(org, "short"), s.agent(org, "none")
	deadlines := long.abandon(2, "l")
	short.abandon(2, "s")
	none.abandon(2, "n")
	reaches := func(pool, want string) {
		t.Helper()
		s.eventually(pool, 15*time.Second, func() error {
			if got := counters(t, rdb, org, pool); got != want {
				return errors.New(got)
			}
			return nil
		})
	}
	reaches("long", "held 0 spent 0 withheld 20")
	reaches("short", "held 0 spent 0 withheld 0")
	reaches("none", "held 0 spent 0 withheld 0")

	long.tells("denied budget_exceeded", "reserve", "withheld money is not there", reserve(81))
	long.tells("late_settled", "settle", "late", object{"key": "l0", "actual": usd(7)})
	long.tells("already_expired", "extend", "too late", object{"key": "l1", "ttl_ms": 60000})
	long.tells("released", "release", "give back", object{"key": "l1"})
	reaches("long", "held 0 spent 7 withheld 0")
	short.tells("late_settled", "settle", "later", object{"key": "s0", "actual": usd(9)})
	short.tells("released", "release", "nothing left", object{"key": "s1"})
	none.tells("allowed", "reserve", "all of it", reserve(100))
	none.tells("late_settled", "settle", "later", object{"key": "n0", "actual": usd(10)})
	none.tells("denied budget_exceeded", "reserve", "not after that", reserve(1))
	reaches("short", "held 0 spent 9 withheld 0")
	reaches("none", "held 100 spent 10 withheld 0")
	s.lawful(org)
	s.punctual(org, deadlines)
	equal(t, "kinds", strings.Join(short.kinds(), " "), "expired expired lapsed lapsed late_settled reserved reserved")
	equal(t, "kinds", strings.Join(none.kinds(), " "), "expired expired late_settled reserved reserved reserved")
}
