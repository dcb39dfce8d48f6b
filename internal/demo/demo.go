// Package demo tells the story of Tallystick on a running system, through the
// public contract alone: a race for a pool that can pay for half, the same
// race without a budget authority, a crash that holds money, a retry, a theft,
// and the audit. Every promise it makes is checked.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/client"
)

// Config names the system to tell the story on.
type Config struct {
	NATSURL    string
	RedisURL   string
	AdminToken string
	Out        io.Writer
	Colour     bool
}

// ErrBroken means that a promise was not kept; the table says which.
var ErrBroken = errors.New("a promise was not kept")

// Figures of the story, in units of 1e-8 USD.
const (
	unit       = "usd_microcents"
	usd        = int64(100_000_000)
	agents     = 20
	price      = usd      // what each agent wants
	poolCap    = 10 * usd // what the pool can pay
	org        = "demo"
	pool       = "research"
	lateWindow = 2 * time.Second
	holdTTL    = time.Second
	patience   = 15 * time.Second // for what happens by itself
)

// story is one telling.
type story struct {
	cfg     Config
	op      *client.Operator
	redis   *redis.Client
	swarm   []*client.Client
	rows    []row
	chapter int
}

// row is one promise and what was seen.
type row struct {
	promise, seen string
	kept          bool
}

// Run tells the story. It returns [ErrBroken] when a promise was not kept.
func Run(ctx context.Context, cfg Config) (err error) {
	s := &story{cfg: cfg}
	defer s.close()
	opt, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		return fmt.Errorf("demo: redis: %w", err)
	}
	opt.PoolSize = agents
	s.redis = redis.NewClient(opt)
	if s.op, err = client.ConnectOperator(cfg.NATSURL, cfg.AdminToken); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	for _, chapter := range []func(context.Context) error{s.setUp, s.race, s.naive, s.retry, s.theft, s.crash, s.audit} {
		if err := chapter(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return s.table()
}

func (s *story) close() {
	for _, c := range s.swarm {
		c.Close()
	}
	if s.op != nil {
		s.op.Close()
	}
	if s.redis != nil {
		_ = s.redis.Close()
	}
}

// title opens a chapter.
func (s *story) title(text string) {
	s.chapter++
	s.say("")
	s.say("%s", s.paint(bold, fmt.Sprintf("%d. %s", s.chapter, text)))
}

func (s *story) say(format string, args ...any) {
	fmt.Fprintf(s.cfg.Out, format+"\n", args...)
}

// promise notes what was promised and what was seen.
func (s *story) promise(kept bool, promise, seen string, args ...any) {
	r := row{promise, fmt.Sprintf(seen, args...), kept}
	s.rows = append(s.rows, r)
	s.say("   %s %s", s.mark(kept), r.seen)
}

const (
	bold  = "1"
	green = "32"
	red   = "31"
)

func (s *story) paint(code, text string) string {
	if !s.cfg.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *story) mark(kept bool) string {
	if kept {
		return s.paint(green, "✓")
	}
	return s.paint(red, "✗")
}

// table ends the story.
func (s *story) table() error {
	width, broken := len("promise"), 0
	for _, r := range s.rows {
		width = max(width, len(r.promise))
		if !r.kept {
			broken++
		}
	}
	s.say("")
	s.say("%s", s.paint(bold, fmt.Sprintf("   %-*s  %s", width, "promise", "what happened")))
	for _, r := range s.rows {
		s.say(" %s %-*s  %s", s.mark(r.kept), width, r.promise, r.seen)
	}
	s.say("")
	if broken > 0 {
		s.say("%s", s.paint(red, fmt.Sprintf("%d of %d promises were not kept.", broken, len(s.rows))))
		return ErrBroken
	}
	s.say("%s", s.paint(green, fmt.Sprintf("All %d promises were kept.", len(s.rows))))
	return nil
}

// dollars writes whole and hundredths: the story has no smaller figures.
func dollars(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s$%d.%02d", sign, n/usd, n%usd/(usd/100))
}
