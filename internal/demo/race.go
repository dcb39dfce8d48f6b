package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// setUp makes the pool and the agents.
func (s *story) setUp(ctx context.Context) error {
	s.title(fmt.Sprintf("A pool of %s and %d agents, each with a job for %s", dollars(poolCap), agents, dollars(price)))
	if _, err := s.op.Do(ctx, events.AdminOrgCreate, "", map[string]any{"org": org}); err != nil {
		return err
	}
	_, err := s.op.Do(ctx, events.AdminPoolCreate, "", map[string]any{"org": org, "pool": pool, "limits": []map[string]any{
		{"unit": unit, "cap": poolCap, "late_window_ms": lateWindow.Milliseconds()},
	}})
	if err != nil {
		return err
	}
	for i := range agents {
		body, err := s.op.Do(ctx, events.AdminAgentRegister, "", map[string]any{"org": org, "name": fmt.Sprintf("agent-%02d", i+1), "pool": pool})
		if err != nil {
			return err
		}
		var a struct{ Agent, Token string }
		if err := json.Unmarshal(body, &a); err != nil {
			return err
		}
		c, err := client.Connect(ctx, client.Config{URL: s.cfg.NATSURL, Token: a.Token, Org: org, Agent: a.Agent})
		if err != nil {
			return err
		}
		s.swarm = append(s.swarm, c)
	}
	s.say("   Each agent has its own token; the server takes from it who is speaking.")
	return nil
}

func job(i int) string { return fmt.Sprintf("job-%02d", i+1) }

func want() events.Reserve { return events.Reserve{Amounts: map[string]int64{unit: price}} }

// race: all reserve at once. The winners settle what they really spent.
func (s *story) race(ctx context.Context) error {
	s.title("All reserve at the same moment")
	answers := make([]events.ReserveAnswer, agents)
	err := s.together(func(i int) error {
		var err error
		answers[i], err = s.swarm[i].Reserve(ctx, job(i), want())
		return err
	})
	if err != nil {
		return err
	}
	var allowed, denied int
	for _, a := range answers {
		switch {
		case a.Outcome == events.OutcomeAllowed:
			allowed++
		case a.Denial != nil && a.Denial.Reason == events.ReasonBudgetExceeded:
			denied++
		}
	}
	b, err := s.balance(ctx)
	if err != nil {
		return err
	}
	s.promise(allowed == 10 && denied == 10, "nobody overspends in a race", "%d allowed, %d denied budget_exceeded", allowed, denied)
	s.promise(b.Held == poolCap, "what is allowed is held", "%s of %s held", dollars(b.Held), dollars(b.Cap))

	const cost = 8 * usd / 10
	err = s.together(func(i int) error {
		if answers[i].Outcome != events.OutcomeAllowed {
			return nil
		}
		_, err := s.swarm[i].Settle(ctx, job(i), events.Settle{Reservation: &answers[i].Reservation, Actual: map[string]int64{unit: cost}})
		return err
	})
	if err != nil {
		return err
	}
	if b, err = s.balance(ctx); err != nil {
		return err
	}
	s.promise(b.Held == 0 && b.Spent == 10*cost, "settling books the real cost and returns the rest", "each job cost %s: %s spent, %s free again", dollars(cost), dollars(b.Spent), dollars(b.Remaining))
	return nil
}

// naive is the same race as people write it by hand: look, work, take. It is
// no promise, it is why the others are worth something.
func (s *story) naive(ctx context.Context) error {
	s.title("The same race without Tallystick: GET, call the model, DECR")
	key := "demo:naive"
	if err := s.redis.Set(ctx, key, 10, time.Minute).Err(); err != nil {
		return err
	}
	var won atomic.Int64
	err := s.together(func(int) error {
		left, err := s.redis.Get(ctx, key).Int()
		if err != nil || left < 1 {
			return err
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil { // the paid call
			return err
		}
		won.Add(1)
		return s.redis.Decr(ctx, key).Err()
	})
	if err != nil {
		return err
	}
	left, err := s.redis.Get(ctx, key).Int64()
	if err != nil {
		return err
	}
	s.say("   %s %d jobs ran on money for 10: the pool is at %s", s.paint(red, "!"), won.Load(), dollars(left*price))
	return s.redis.Del(ctx, key).Err()
}

// together runs one call per agent at the same moment and returns the first
// error.
func (s *story) together(call func(i int) error) error {
	var wg sync.WaitGroup
	start := make(chan struct{})
	errs := make(chan error, agents)
	for i := range agents {
		wg.Go(func() {
			<-start
			if err := call(i); err != nil {
				errs <- err
			}
		})
	}
	close(start)
	wg.Wait()
	close(errs)
	return <-errs
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (s *story) balance(ctx context.Context) (events.BalanceRow, error) {
	b, err := s.swarm[agents-1].Balance(ctx, events.Balance{})
	if err != nil {
		return events.BalanceRow{}, err
	}
	if len(b.Pools) != 1 {
		return events.BalanceRow{}, fmt.Errorf("balance has %d rows, not one", len(b.Pools))
	}
	return b.Pools[0], nil
}
