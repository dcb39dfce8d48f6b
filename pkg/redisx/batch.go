package redisx

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/budget"
)

// roundsMax bounds how often a call is sent: once, once more after its keys
// were corrected, once more after the script cache was filled.
const roundsMax = 4

// call is one request of a batch.
type call interface {
	// command is what to send; it is asked again for each round.
	command() (script *script, keys []string, args []any)
	// reply takes the answer and reports whether the call must be sent again.
	reply(values []string) (again bool, err error)
	// failed takes the error that ends the call.
	failed(err error)
}

// Batch gathers calls and sends them as one pipeline.
type Batch struct {
	store *Store
	calls []call
	reads []readCall
	after []func() // what else to do with the records that were read
}

// Batch starts an empty batch. A batch is used once, by one goroutine.
func (s *Store) Batch() *Batch { return &Batch{store: s} }

// Run sends the batch and fills the answers of its calls. A call fails alone:
// Run itself has no error.
func (b *Batch) Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.store.timeout)
	defer cancel()
	if len(b.reads) > 0 {
		b.read(ctx)
		for _, done := range b.after {
			done()
		}
	}
	pending := b.calls
	for round := 0; len(pending) > 0; round++ {
		if round == roundsMax {
			for _, c := range pending {
				c.failed(fmt.Errorf("%w: no answer after %d rounds", budget.ErrUnavailable, roundsMax))
			}
			return
		}
		pending = b.round(ctx, pending)
	}
}

func (b *Batch) round(ctx context.Context, pending []call) (again []call) {
	pipe := b.store.client.Pipeline()
	sent := make([]*redis.Cmd, len(pending))
	for i, c := range pending {
		script, keys, args := c.command()
		sent[i] = pipe.EvalSha(ctx, script.sha, keys, args...)
	}
	_, _ = pipe.Exec(ctx) // each command carries its own error
	unloaded := false
	for i, c := range pending {
		repeat, err := take(c, sent[i])
		if isNoScript(err) {
			unloaded, repeat, err = true, true, nil
		}
		if err != nil {
			c.failed(err)
		} else if repeat {
			again = append(again, c)
		}
	}
	if unloaded {
		if err := b.store.Load(ctx); err != nil {
			for _, c := range again {
				c.failed(err)
			}
			return nil
		}
	}
	return again
}

func take(c call, sent *redis.Cmd) (again bool, err error) {
	if err := sent.Err(); err != nil {
		if isNoScript(err) {
			return false, err
		}
		return false, redisError(err)
	}
	raw, ok := sent.Val().([]any)
	if !ok || len(raw) == 0 {
		return false, fmt.Errorf("redisx: script answered %T", sent.Val())
	}
	values := make([]string, len(raw))
	for i, v := range raw {
		text, ok := v.(string)
		if !ok {
			return false, fmt.Errorf("redisx: script answered %T at %d", v, i)
		}
		values[i] = text
	}
	if values[0] == "unavailable" {
		return false, fmt.Errorf("%w: %s", budget.ErrUnavailable, strings.Join(values[1:], " "))
	}
	return c.reply(values)
}

func isNoScript(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && strings.HasPrefix(answer.Error(), "NOSCRIPT")
}

// Pending is the answer to come of a call that decides something.
type Pending struct {
	Decision budget.Decision
	Err      error
}

func (p *Pending) failed(err error) { p.Err = err }

// one runs a single call.
func (s *Store) one(ctx context.Context, c call) {
	b := s.Batch()
	b.calls = append(b.calls, c)
	b.Run(ctx)
}
