package client

import (
	"context"
	"encoding/json"
	"fmt"

	"tallystick/pkg/events"
)

// Reserve asks for money. Outcome "denied" is an answer, not an error.
func (c *Client) Reserve(ctx context.Context, key string, q events.Reserve) (events.ReserveAnswer, error) {
	return ask(ctx, c, events.VerbReserve, key, q, events.ParseReserveAnswer)
}

// Settle books what was really spent. Outcome "denied" means that the overrun
// was refused: the reservation stays held and may be extended.
func (c *Client) Settle(ctx context.Context, key string, q events.Settle) (events.SettleAnswer, error) {
	return ask(ctx, c, events.VerbSettle, key, q, events.ParseSettleAnswer)
}

// Release gives everything back.
func (c *Client) Release(ctx context.Context, key string, q events.Release) (events.ReleaseAnswer, error) {
	return ask(ctx, c, events.VerbRelease, key, q, events.ParseReleaseAnswer)
}

// Extend moves the deadline, adds to the amounts, or both.
func (c *Client) Extend(ctx context.Context, key string, q events.Extend) (events.ReserveAnswer, error) {
	return ask(ctx, c, events.VerbExtend, key, q, events.ParseReserveAnswer)
}

// Charge books a cost in one step.
func (c *Client) Charge(ctx context.Context, key string, q events.Charge) (events.ChargeAnswer, error) {
	return ask(ctx, c, events.VerbCharge, key, q, events.ParseChargeAnswer)
}

// Balance shows the limits from the agent's pool, or the named one, to the
// root.
func (c *Client) Balance(ctx context.Context, q events.Balance) (events.BalanceAnswer, error) {
	return ask(ctx, c, events.VerbBalance, "", q, events.ParseBalanceAnswer)
}

// Reservation shows one reservation of the caller.
func (c *Client) Reservation(ctx context.Context, id string) (events.ReservationAnswer, error) {
	return ask(ctx, c, events.VerbReservation, "", events.ReservationQuery{Reservation: &id}, events.ParseReservationAnswer)
}

// ReservationByKey shows the reservation that the caller's reserve made under
// a key.
func (c *Client) ReservationByKey(ctx context.Context, key string) (events.ReservationAnswer, error) {
	return ask(ctx, c, events.VerbReservation, "", events.ReservationQuery{Key: &key}, events.ParseReservationAnswer)
}

// Reservations lists what the caller holds; pass the last answer's cursor for
// the next page.
func (c *Client) Reservations(ctx context.Context, cursor string) (events.ReservationsAnswer, error) {
	var q events.ReservationQuery
	if cursor != "" {
		q.Cursor = &cursor
	}
	return ask(ctx, c, events.VerbReservation, "", q, events.ParseReservationsAnswer)
}

// Whoami is the caller's identity as the broker has it.
func (c *Client) Whoami(ctx context.Context) (events.WhoamiAnswer, error) {
	return ask(ctx, c, events.VerbWhoami, "", events.Whoami{}, events.ParseWhoamiAnswer)
}

// ask sends a typed request and reads the typed answer.
func ask[Q, A any](ctx context.Context, c *Client, verb, key string, q Q, read func([]byte) (A, error)) (A, error) {
	a, _, err := askReplayed(ctx, c, verb, key, q, read)
	return a, err
}

// askReplayed is ask that also tells whether the answer was given before.
func askReplayed[Q, A any](ctx context.Context, c *Client, verb, key string, q Q, read func([]byte) (A, error)) (A, bool, error) {
	var none A
	body, err := json.Marshal(q)
	if err != nil {
		return none, false, fmt.Errorf("client: %s: %w", verb, err)
	}
	if key == "" && changes(verb) && !dry(q) {
		return none, false, fmt.Errorf("client: %s: %w", verb, events.CheckKey(key))
	}
	ans, err := c.Do(ctx, Request{Verb: verb, Key: key, Body: body})
	if err != nil {
		return none, false, err
	}
	a, err := read(ans.Body)
	return a, ans.Replayed, err
}

// changes reports whether a verb needs an idempotency key.
func changes(verb string) bool {
	return events.BothDoors(verb) || verb == events.VerbRegister || verb == events.VerbRevoke
}

// dry: the one request of a changing verb that needs no key.
func dry(q any) bool {
	r, ok := q.(events.Reserve)
	return ok && r.DryRun != nil && *r.DryRun
}
