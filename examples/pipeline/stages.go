package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// What the jobs are: each reserves the same and costs its own. The last one
// wants more than there is.
const (
	jobs    = 12
	unit    = "usd_microcents"
	limit   = 100_000
	held    = 1_000
	workFor = 150 * time.Millisecond
)

func jobName(n int) string { return fmt.Sprintf("job-%02d", n) }

func wants(n int) int64 {
	if n == jobs {
		return limit + 1
	}
	return held
}

func cost(n int) int64 { return int64(100 + n) }

// stage is what one process is told.
type stage struct{ url, token, settler, results string }

// submit stores one reserve command per job and ends, before anybody has
// decided. The labels carry what the next stage needs to know.
func submit(ctx context.Context, s stage) error {
	c, err := client.Connect(ctx, client.Config{URL: s.url, Token: s.token})
	if err != nil {
		return err
	}
	defer c.Close()
	for n := 1; n <= jobs; n++ {
		ttl := time.Hour.Milliseconds()
		body, err := json.Marshal(events.Reserve{
			Amounts: map[string]int64{unit: wants(n)}, TTLMS: &ttl, Settler: &s.settler,
			Labels: map[string]string{"job": jobName(n), "n": strconv.Itoa(n)},
		})
		if err != nil {
			return err
		}
		if err := c.Submit(ctx, client.Request{Verb: events.VerbReserve, Key: jobName(n), Body: body, Timeout: 10 * time.Minute}); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, "submitted", jobs)
	return nil
}

// result is what work passes on to settle.
type result struct {
	Job         string `json:"job"`
	Reservation string `json:"reservation"`
	Cost        int64  `json:"cost"`
}

// work reads decisions one by one and acknowledges each when its job is done
// and the result passed on. Killed in between it finds the decision again, and
// the result of its earlier life, if there is one.
func work(ctx context.Context, s stage) error {
	p, err := client.ConnectPipeline(ctx, client.Config{URL: s.url, Token: s.token})
	if err != nil {
		return err
	}
	defer p.Close()
	for {
		d, err := p.Next(ctx)
		var e *events.Error
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &e) && e.Retryable:
			continue
		case err != nil:
			return err
		}
		if d.Verb == events.VerbReserve {
			if err := workOff(ctx, s, d); err != nil {
				return err
			}
		}
		if err := d.Ack(ctx); err != nil {
			fmt.Fprintln(os.Stdout, "not acknowledged, so it comes again:", d.Key)
		}
	}
}

func workOff(ctx context.Context, s stage, d client.Decision) error {
	if d.Err != nil || d.Outcome != "allowed" {
		fmt.Fprintln(os.Stdout, "no money for", d.Key, d.Outcome, d.Reason)
		return nil
	}
	answer, err := events.ParseReserveAnswer(d.Body)
	if err != nil {
		return err
	}
	file := filepath.Join(s.results, answer.Reservation)
	if _, err := os.Stat(file + ".done"); err == nil {
		fmt.Fprintln(os.Stdout, "was done before", d.Key)
		return nil
	}
	fmt.Fprintln(os.Stdout, "working", d.Key)
	if err := pause(ctx, workFor); err != nil {
		return err
	}
	n, err := strconv.Atoi(answer.Labels["n"])
	if err != nil {
		return fmt.Errorf("label n: %w", err)
	}
	text, err := json.Marshal(result{answer.Labels["job"], answer.Reservation, cost(n)})
	if err != nil {
		return err
	}
	// In one step, so that nobody reads half of it.
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file+".done"); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "done", d.Key)
	return nil
}

// settle settles what work has passed on, as the settler that the reserve
// named. The key is the job's, so a repetition is the same settle.
func settle(ctx context.Context, s stage) error {
	c, err := client.Connect(ctx, client.Config{URL: s.url, Token: s.token})
	if err != nil {
		return err
	}
	defer c.Close()
	settled := map[string]bool{}
	for {
		files, err := filepath.Glob(filepath.Join(s.results, "*.done"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if settled[file] {
				continue
			}
			if err := settleOne(ctx, c, file); err != nil {
				return err
			}
			settled[file] = true
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil // told to end
		}
	}
}

func settleOne(ctx context.Context, c *client.Client, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	answer, err := c.Durable().Settle(ctx, "settle-"+r.Job, events.Settle{
		Reservation: &r.Reservation, Actual: map[string]int64{unit: r.Cost},
	})
	if err != nil {
		return fmt.Errorf("settle %s: %w", r.Job, err)
	}
	fmt.Fprintln(os.Stdout, answer.Outcome, r.Job)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
