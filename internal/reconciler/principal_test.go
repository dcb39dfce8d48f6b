package reconciler_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"tallystick/internal/ledger"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// reserveFor is a reserve on a principal's behalf; "" is nobody's.
func (w *world) reserveFor(t testing.TB, key, principal string, n int64) {
	t.Helper()
	b := w.store.Batch()
	p := b.Reserve(redisx.ReserveArgs{
		Agent: agent, Execution: execution(key), Fingerprint: "0123456789abcdef0123456789abcdef",
		Amounts: budget.Amounts{"tokens": n, "usd_microcents": 2 * n}, TTL: time.Hour, Path: w.path,
		Extra: redisx.Extra{Key: key, OnBehalfOf: principal},
	})
	b.Run(t.Context())
	must(t, p.Err)
}

func (w *world) chargeFor(t testing.TB, key, principal string, n int64) {
	t.Helper()
	b := w.store.Batch()
	p := b.Charge(redisx.ChargeArgs{
		Agent: agent, Execution: execution("c-" + key), Fingerprint: "0123456789abcdef0123456789abcdef",
		Amounts: budget.Amounts{"tokens": n, "usd_microcents": n}, Path: w.path, Extra: redisx.Extra{Key: key, OnBehalfOf: principal},
	})
	b.Run(t.Context())
	must(t, p.Err)
}

// lapse ends a reservation as the reaper does, of which the money stays
// withheld: as if it had been made an hour ago.
func (w *world) lapse(t testing.TB, key string) {
	t.Helper()
	p := w.store.Partition(org)
	name := fmt.Sprintf("reservation:{p%02d}%d:%s", p, len(execution(key)), execution(key))
	text, err := w.client.Get(t.Context(), name).Result()
	must(t, err)
	rec, err := redisx.ParseRecord(text)
	must(t, err)
	head, rest, _ := strings.Cut(text, "\n")
	words := strings.Fields(head)
	words[4] = "1"
	must(t, w.client.Set(t.Context(), name, strings.Join(words, " ")+"\n"+rest, 0).Err())
	b := w.store.Batch()
	e := b.Expire(p, redisx.Overdue{Execution: execution(key)}, rec)
	b.Run(t.Context())
	must(t, e.Err)
}

// balance asks as an operator does.
func (w *world) balance(t testing.TB, org, principal string) events.PrincipalBalanceAnswer {
	t.Helper()
	body, err := json.Marshal(events.PrincipalName{Org: org, Principal: principal})
	must(t, err)
	answer, err := w.rec.Verbs()[events.AdminPrincipalBalance](t.Context(), worker.AdminRequest{Body: body})
	must(t, err)
	a, err := events.ParsePrincipalBalanceAnswer(answer)
	must(t, err)
	return a
}

// recount adds up the ledger's JSON again, knowing nothing of the fold.
func (w *world) recount(t testing.TB, principal string) (rows []events.PrincipalRow, last uint64) {
	t.Helper()
	sums := map[string]*events.PrincipalRow{}
	must(t, w.ledger.Walk(t.Context(), "", 0, func(m ledger.Message) error {
		last = m.StreamSeq
		var e struct {
			OnBehalfOf string                `json:"on_behalf_of"`
			Moves      []events.PrincipalRow `json:"moves"`
		}
		if err := json.Unmarshal(m.Body, &e); err != nil || e.OnBehalfOf != principal {
			return err
		}
		for _, v := range e.Moves {
			key := strings.Join([]string{v.Pool, v.Unit, v.Period}, "\x00")
			if sums[key] == nil {
				sums[key] = &events.PrincipalRow{Pool: v.Pool, Unit: v.Unit, Period: v.Period}
			}
			s := sums[key]
			s.Held, s.Spent, s.Withheld = s.Held+v.Held, s.Spent+v.Spent, s.Withheld+v.Withheld
		}
		return nil
	}))
	rows = []events.PrincipalRow{}
	for _, s := range sums {
		rows = append(rows, *s)
	}
	slices.SortFunc(rows, func(a, b events.PrincipalRow) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Period, b.Period))
	})
	return rows, last
}

// TestBalancePerPrincipal: after any history the figures are what a recount of
// the ledger gives, and no principal has another's money.
func TestBalancePerPrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{"", "team", `customer "7"`, "büro"}
	spent := map[string]int64{}
	for i := range 120 {
		name, key, n := names[random.IntN(len(names))], fmt.Sprint("k", i), 1+random.Int64N(50)
		if random.IntN(4) == 0 {
			w.chargeFor(t, key, name, n)
			spent[name] += n
			continue
		}
		w.reserveFor(t, key, name, n)
		switch random.IntN(4) {
		case 0:
			w.settle(t, key, n-1)
			spent[name] += n - 1
		case 1:
			w.release(t, key)
		case 2:
			w.lapse(t, key)
		}
	}
	w.reserveFor(t, "surely", "team", 7)
	w.carry(t)
	eventually(t, "everything is on the ledger", func() bool {
		return cause(w.report(t), "outbox_pending").Count == 0
	})
	for _, name := range names[1:] {
		want, last := w.recount(t, name)
		got := w.balance(t, org, name)
		if d := gocmp.Diff(want, got.Balance); d != "" || got.AsOfSeq != last || got.Principal != name || got.Org != org {
			t.Errorf("%s as of %d, ledger ends at %d: %s", name, got.AsOfSeq, last, d)
		}
		for _, r := range got.Balance {
			if r.Unit == "tokens" && r.Spent != spent[name] {
				t.Errorf("%s spent %d in %s, settled and charged were %d", name, r.Spent, r.Pool, spent[name])
			}
		}
	}
	for _, q := range [][2]string{{org, "nobody"}, {"other", "team"}} {
		if got := w.balance(t, q[0], q[1]); len(got.Balance) != 0 || got.AsOfSeq == 0 {
			t.Errorf("%v: %+v", q, got)
		}
	}
}

// TestBalanceGoesOn: a later answer counts what came since, each entry once.
func TestBalanceGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(t)
	for i := range int64(5) {
		w.chargeFor(t, fmt.Sprint(i), "team", 10)
		eventually(t, "the charge is counted", func() bool {
			b := w.balance(t, org, "team").Balance
			return len(b) == 4 && b[0].Spent == 10*(i+1)
		})
	}
	if rows, _ := w.recount(t, "team"); !gocmp.Equal(rows, w.balance(t, org, "team").Balance) {
		t.Errorf("recount %v", rows)
	}
}
