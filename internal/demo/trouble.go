package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// retry: the answer was lost, so the agent asks again under the same key.
func (s *story) retry(ctx context.Context) error {
	s.title("An agent does not see the answer and asks again")
	a := s.swarm[0]
	first, err := a.Reserve(ctx, "retried", want())
	if err != nil {
		return err
	}
	body, err := json.Marshal(want())
	if err != nil {
		return err
	}
	again, err := a.Do(ctx, client.Request{Verb: events.VerbReserve, Key: "retried", Body: body})
	if err != nil {
		return err
	}
	second, err := events.ParseReserveAnswer(again.Body)
	if err != nil {
		return err
	}
	b, err := s.balance(ctx)
	if err != nil {
		return err
	}
	s.promise(again.Replayed && second.Reservation == first.Reservation && b.Held == price, "a retry with the same key pays once",
		"same reservation, marked as replayed, %s held", dollars(b.Held))
	_, err = a.Reserve(ctx, "retried", events.Reserve{Amounts: map[string]int64{unit: 2 * price}})
	s.promise(code(err) == events.CodeKeyReused, "one key means one operation", "another amount under that key: %s", code(err))
	return nil
}

// theft: another agent of the same org tries to settle it, and then the
// holder does.
func (s *story) theft(ctx context.Context) error {
	s.title("Another agent tries to settle it for nothing")
	held, err := s.swarm[0].ReservationByKey(ctx, "retried")
	if err != nil {
		return err
	}
	_, err = s.swarm[1].Settle(ctx, "theft", events.Settle{Reservation: &held.Reservation, Actual: map[string]int64{unit: 0}})
	b, berr := s.balance(ctx)
	if berr != nil {
		return berr
	}
	s.promise(code(err) == events.CodeNotFound && b.Held == price, "nobody else can touch a reservation", "settle by the wrong agent: %s; still %s held", code(err), dollars(b.Held))
	_, err = s.swarm[0].Release(ctx, "retried", events.Release{Reservation: &held.Reservation})
	return err
}

// code is an error's code in the contract, or what it is otherwise.
func code(err error) events.Code {
	var e *events.Error
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &e):
		return e.Code
	}
	return events.Code(err.Error())
}

// crash: an agent dies holding money. Its hold runs out without any traffic,
// the money is withheld while a late bill may come, and is free after that.
func (s *story) crash(ctx context.Context) error {
	s.title("An agent crashes holding money")
	a := s.swarm[0]
	q := want()
	q.TTLMS = new(holdTTL.Milliseconds())
	ans, err := a.Reserve(ctx, "crash", q)
	if err != nil {
		return err
	}
	a.Close()
	s.say("   %s is held for %s, and its agent is gone.", dollars(price), holdTTL)
	due := time.Now().Add(holdTTL)
	b, err := s.until(ctx, func(b events.BalanceRow) bool { return b.Held == 0 })
	if err != nil {
		return err
	}
	late := max(0, time.Since(due))
	s.promise(b.Withheld == price && late < 2*time.Second, "a dead agent's hold ends by itself", "%s withheld %.1f s after the deadline: a late bill may still come", dollars(b.Withheld), late.Seconds())
	reported, err := s.reported(ctx, ans.Reservation, "expired")
	if err != nil {
		return err
	}
	s.promise(reported, "the reaper reports it", "the ledger has the entry expired")
	if b, err = s.until(ctx, func(b events.BalanceRow) bool { return b.Withheld == 0 }); err != nil {
		return err
	}
	if reported, err = s.reported(ctx, ans.Reservation, "lapsed"); err != nil {
		return err
	}
	s.promise(reported && b.Remaining == poolCap-b.Spent, "withheld money lapses after its late window", "%s free again, and the ledger has lapsed", dollars(b.Remaining))
	return nil
}

// until watches the balance until something holds, or patience ends; then the
// promise that follows says what is wrong.
func (s *story) until(ctx context.Context, ok func(events.BalanceRow) bool) (events.BalanceRow, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		b, err := s.balance(ctx)
		if err != nil || ok(b) {
			return b, err
		}
		select {
		case <-ctx.Done():
			return b, nil
		case <-poll.C:
		}
	}
}

// reported looks for an entry about a reservation on the ledger. The scribe
// may be a moment behind the counters.
func (s *story) reported(ctx context.Context, reservation, kind string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		found, err := s.onLedger(ctx, reservation, kind)
		if err != nil || found {
			return found, err
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-poll.C:
		}
	}
}

func (s *story) onLedger(ctx context.Context, reservation, kind string) (bool, error) {
	for after := uint64(0); ; {
		body, err := s.op.Do(ctx, events.AdminLedger, "", map[string]any{"org": org, "after": after})
		if err != nil {
			return false, err
		}
		var page struct {
			Entries []struct{ Body string }
			Last    uint64
			End     bool
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return false, fmt.Errorf("ledger: %w", err)
		}
		for _, e := range page.Entries {
			var entry struct{ Kind, Execution string }
			if json.Unmarshal([]byte(e.Body), &entry) == nil && entry.Kind == kind && entry.Execution == reservation {
				return true, nil
			}
		}
		if page.End || len(page.Entries) == 0 {
			return false, nil
		}
		after = page.Last
	}
}
