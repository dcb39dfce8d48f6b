package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// askedAbout is how often each question is asked.
const askedAbout = 400

// notFound compares how long it takes to be told not_found about what is
// another's and about what never was: who measures must not learn which it is.
func (b *run) notFound(ctx context.Context, s *system) error {
	org, agents, err := s.newOrg(ctx, unlimited)
	if err != nil {
		return err
	}
	var connected [2]*client.Client
	for i := range connected {
		connected[i], err = client.Connect(ctx, client.Config{URL: s.address.NATSURL, Token: agents[i].Token, Org: org, Agent: agents[i].ID})
		if err != nil {
			return err
		}
		defer connected[i].Close()
	}
	mine, theirs := connected[0], connected[1]
	held, err := theirs.Reserve(ctx, uuid.NewString(), events.Reserve{Amounts: map[string]int64{benchUnit: benchAmount}})
	if err != nil {
		return err
	}
	for _, q := range []struct{ verb, field, theirs string }{
		{events.VerbReservation, "reservation", held.Reservation},
		{events.VerbSettle, "reservation", held.Reservation},
		{events.VerbRevoke, "agent", agents[1].ID},
	} {
		took, err := refusedTwice(ctx, mine, q.verb, q.field, q.theirs)
		if err != nil {
			return err
		}
		b.scaled = append(b.scaled, Finding{
			fmt.Sprintf("not_found by %s, another's against what never was, p50", q.verb), ratio(micros(took[0]), micros(took[1])), "×", "≈ 1",
		})
	}
	return nil
}

// refusedTwice asks about another's and about nothing in turn, and gives the
// median of each.
func refusedTwice(ctx context.Context, c *client.Client, verb, field, theirs string) (median [2]time.Duration, err error) {
	var took [2][]time.Duration
	for range askedAbout {
		for i, id := range []string{theirs, uuid.Must(uuid.NewV7()).String()} {
			body, err := json.Marshal(map[string]string{field: id})
			if err != nil {
				return median, err
			}
			begun := time.Now()
			_, err = c.Do(ctx, client.Request{Verb: verb, Key: uuid.NewString(), Body: body})
			took[i] = append(took[i], time.Since(begun))
			var e *events.Error
			if !errors.As(err, &e) || e.Code != events.CodeNotFound {
				return median, fmt.Errorf("%s answered %w", verb, err)
			}
		}
	}
	for i := range took {
		slices.Sort(took[i])
		median[i] = quantile(took[i], 0.5)
	}
	return median, nil
}
