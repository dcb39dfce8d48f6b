package report_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"tallystick/internal/report"
	"tallystick/pkg/budget"
)

const (
	tokens = "tokens"
	usd    = "usd_microcents"
)

var begin = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

// story tells what an org did, as the scripts would write it.
type story struct {
	random *rand.Rand
	now    time.Time
	n      uint64
	tell   func(*budget.Entry, report.AsOf)
	live   []reservation
	lapsed []reservation
	agents []string
	used   int64 // executions

	roomFor int // reservations at once
}

type reservation struct {
	id, agent, principal, target string
	path                         []budget.LimitID
	amounts                      budget.Amounts
	withheld                     bool
}

func newStory(seed uint64, tell func(*budget.Entry, report.AsOf)) *story {
	s := &story{random: rand.New(rand.NewPCG(seed, 7)), now: begin, tell: tell, roomFor: 40}
	for i := range 12 {
		s.agents = append(s.agents, fmt.Sprintf("0199c0de-0000-7000-8000-%012d", i))
	}
	return s
}

func (s *story) write(e budget.Entry) {
	s.n++
	e.Org, e.OutboxID, e.At = "acme", fmt.Sprintf("%d-0", s.n), s.now
	s.tell(&e, report.AsOf{Seq: s.n, StreamSeq: 3 * s.n, Hash: fmt.Sprintf("%064x", s.n)})
}

func detail(v map[string]any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

var teams = []string{"research", "support", "ops"}

// found makes the pools and agents.
func (s *story) found(names ...string) {
	for _, pool := range append([]string{"company"}, teams...) {
		for unit, limit := range map[string]int64{usd: 900_00000000, tokens: 40_000_000} {
			if pool != "company" {
				limit /= 2
			}
			id := budget.LimitID{Pool: pool, Unit: unit, Period: budget.PeriodNone}
			s.write(budget.Entry{Kind: budget.KindPolicyChanged, Moves: []budget.Move{{LimitID: id, Cap: limit}}})
		}
	}
	for i, id := range s.agents {
		if i < len(names) {
			s.write(budget.Entry{Kind: budget.KindAgentRegistered, Agent: id, Detail: detail(map[string]any{"name": names[i]})})
		}
	}
}

func path(team string) []budget.LimitID {
	var out []budget.LimitID
	for _, pool := range []string{team, "company"} {
		for _, unit := range []string{tokens, usd} {
			out = append(out, budget.LimitID{Pool: pool, Unit: unit, Period: budget.PeriodNone})
		}
	}
	return out
}

// moves books one figure of each unit on every limit of a path.
func moves(path []budget.LimitID, move func(unit string) budget.Move) []budget.Move {
	var out []budget.Move
	for _, id := range path {
		m := move(id.Unit)
		m.LimitID = id
		out = append(out, m)
	}
	return out
}

func (s *story) reserve() {
	if len(s.live) >= s.roomFor {
		s.resolve()
		return
	}
	n := 1000 + s.random.Int64N(9000)
	s.used++
	var raw [16]byte
	for i := range raw {
		raw[i] = byte(s.random.Uint32())
	}
	r := reservation{
		id: uuid.UUID(raw).String(), agent: s.agents[min(s.random.IntN(len(s.agents)), s.random.IntN(len(s.agents)))],
		principal: []string{"", "customer-17", "customer-4"}[s.random.IntN(3)], target: []string{"openai/gpt", "anthropic/opus", "search"}[s.random.IntN(3)],
		path: path(teams[min(s.random.IntN(3), s.random.IntN(3))]), amounts: budget.Amounts{tokens: n, usd: n * 2500},
	}
	s.write(budget.Entry{
		Kind: budget.KindReserved, Execution: r.id, Agent: r.agent, OnBehalfOf: r.principal, Detail: detail(map[string]any{"target": r.target}),
		Moves: moves(r.path, func(unit string) budget.Move { return budget.Move{Held: r.amounts[unit]} }),
	})
	s.live = append(s.live, r)
}

// resolve ends the oldest reservation in one of the ways there are.
func (s *story) resolve() {
	if len(s.live) == 0 {
		s.reserve()
		return
	}
	r := s.live[0]
	s.live = s.live[1:]
	percent := 60 + s.random.Int64N(41)
	switch s.random.IntN(40) {
	case 0, 1: // released
		s.write(s.of(r, budget.KindReleased, 0))
		return
	case 2, 3: // accepted overrun
		percent = 103
	case 4:
		s.refuse(r)
	case 5, 6:
		s.expire(r)
		return
	}
	s.write(s.of(r, budget.KindSettled, percent))
}

func (s *story) of(r reservation, kind budget.Kind, percent int64) budget.Entry {
	return budget.Entry{
		Kind: kind, Execution: r.id, Agent: r.agent, OnBehalfOf: r.principal,
		Moves: moves(r.path, func(unit string) budget.Move {
			m := budget.Move{Held: -r.amounts[unit], Spent: r.amounts[unit] * percent / 100}
			if r.withheld {
				m.Held, m.Withheld = 0, m.Held
			}
			return m
		}),
	}
}

func (s *story) refuse(r reservation) {
	booked := budget.Amounts{tokens: r.amounts[tokens] * 2, usd: r.amounts[usd] * 2}
	s.write(budget.Entry{
		Kind: budget.KindOverrunRefused, Execution: r.id, Agent: r.agent, OnBehalfOf: r.principal,
		Detail: detail(map[string]any{"booked": booked, "authorised": r.amounts, "epsilon": budget.Amounts{}}),
	})
}

func (s *story) expire(r reservation) {
	e := s.of(r, budget.KindExpired, 0)
	for i := range e.Moves {
		e.Moves[i].Withheld = -e.Moves[i].Held
	}
	s.write(e)
	r.withheld = true
	switch s.random.IntN(3) {
	case 0:
		s.write(s.of(r, budget.KindLateSettled, 80))
	case 1:
		s.write(s.of(r, budget.KindLapsed, 0))
		late := s.of(r, budget.KindLateSettled, 80)
		for i := range late.Moves {
			late.Moves[i].Withheld = 0
		}
		s.write(late)
	default:
		s.lapsed = append(s.lapsed, r)
	}
}

func (s *story) charge() {
	n := 100 + s.random.Int64N(900)
	s.used++
	s.write(budget.Entry{
		Kind: budget.KindCharged, Execution: uuid.Nil.String(), Agent: s.agents[s.random.IntN(3)],
		Moves: moves(path("ops"), func(unit string) budget.Move {
			return budget.Move{Spent: map[string]int64{tokens: n, usd: n * 2500}[unit]}
		}),
	})
}

// live goes on for so many entries, busier by day than by night.
func (s *story) goOn(entries uint64, pause time.Duration) {
	for end := s.n + entries; s.n < end; {
		factor := 1.0
		if h := s.now.Hour(); h < 7 || h > 20 {
			factor = 4
		}
		s.now = s.now.Add(time.Duration(float64(pause) * factor * (0.5 + s.random.Float64()))).Truncate(time.Microsecond)
		switch s.random.IntN(20) {
		case 0:
			s.charge()
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
			s.reserve()
		default:
			s.resolve()
		}
	}
}

func span(from, to time.Time) report.Range { return report.Range{From: from, To: to, Zone: time.UTC} }

func aggregator(t testing.TB, r report.Range) *report.Aggregator {
	t.Helper()
	a, err := report.New("acme", r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
