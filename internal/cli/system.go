package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tallystick/internal/allinone"
	"tallystick/internal/app"
	"tallystick/internal/demo"
	"tallystick/pkg/events"
)

func (e *environment) upCommand() *cobra.Command {
	cfg := allinone.UpConfig{}
	var level, format string
	c := &cobra.Command{
		Use:   "up --data DIR",
		Short: "Run the whole system: NATS, Redis and every worker in one process",
		Long: `Runs embedded NATS with JetStream, a private redis-server child and every worker,
all with their data in DIR. Prints "ready" once all workers answer, and writes
DIR/up.json for the other commands. SIGTERM drains; starting again on the same
directory continues where it stopped, also after kill -9.`,
		Example: "  tallystick up --data ./data\n  tallystick up --data ./data --nats 127.0.0.1:4222 --http 127.0.0.1:8080",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.DataDir = e.dataDir(); cfg.DataDir == "" {
				return usagef("up wants --data DIR: where it keeps everything")
			}
			log, err := e.logger(level, format)
			if err != nil {
				return err
			}
			cfg.Log = log
			cfg.NoDailyReports = cfg.NoDailyReports || e.env("TALLY_NO_DAILY_REPORTS") == "true"
			return e.up(cmd.Context(), cfg)
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.NATSAddr, "nats", "127.0.0.1:4222", "`HOST:PORT` for clients; port 0 picks a free one")
	f.StringVar(&cfg.RedisURL, "redis", "", "`URL` of a Redis to use instead of a private one")
	f.StringVar(&cfg.HTTPAddr, "http", "127.0.0.1:0", "`HOST:PORT` for /healthz, /readyz and /metrics; port 0 picks a free one")
	f.BoolVar(&cfg.NoDailyReports, "no-daily-reports", false, "make no report of each day by itself (TALLY_NO_DAILY_REPORTS=true)")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error (TALLY_LOG)")
	f.StringVar(&format, "log-format", "auto", "auto, json or console (TALLY_LOG_FORMAT)")
	return c
}

func (e *environment) logger(level, format string) (zerolog.Logger, error) {
	if v := e.env("TALLY_LOG"); v != "" && level == "info" {
		level = v
	}
	if v := e.env("TALLY_LOG_FORMAT"); v != "" && format == "auto" {
		format = v
	}
	if err := app.CheckLogging(level, format); err != nil {
		return zerolog.Nop(), usagef("%v", err)
	}
	f, ok := e.err.(*os.File)
	if !ok {
		return zerolog.New(e.err), nil
	}
	return app.NewLogger(f, level, format), nil
}

func (e *environment) up(ctx context.Context, cfg allinone.UpConfig) error {
	e.note("starting on %s", cfg.DataDir)
	sys, err := allinone.Start(ctx, cfg)
	if err != nil {
		return err
	}
	a := sys.Address()
	if e.json() {
		// The admin token stays in up.json: stdout tends to end up in logs.
		err = e.document(map[string]any{"outcome": "ready", "nats_url": a.NATSURL, "http_url": a.HTTPURL, "pid": a.PID})
	} else {
		_, err = fmt.Fprintf(e.out, "ready\n  nats   %s\n  http   %s\n  data   %s\n", a.NATSURL, a.HTTPURL, cfg.DataDir)
	}
	if err == nil {
		err = sys.Wait(ctx)
	}
	e.note("draining")
	return errors.Join(err, sys.Stop())
}

func (e *environment) demoCommand() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use: "demo", Short: "The story in under a minute, on a throw-away directory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			dir, err := os.MkdirTemp("", "tallystick-demo-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			log := zerolog.Nop()
			if verbose {
				if log, err = e.logger("debug", "auto"); err != nil {
					return err
				}
			}
			fmt.Fprintln(e.out, "Starting NATS, Redis and every worker in one process …")
			sys, err := allinone.Start(ctx, allinone.UpConfig{DataDir: dir, NATSAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", Log: log})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, sys.Stop()) }()
			a := sys.Address()
			err = demo.Run(ctx, demo.Config{NATSURL: a.NATSURL, RedisURL: a.RedisURL, AdminToken: a.AdminToken, Out: e.out, Colour: e.colour()})
			if errors.Is(err, demo.ErrBroken) {
				return &exitError{events.ExitFailure, err.Error()}
			}
			return err
		},
	}
	c.Flags().BoolVar(&verbose, "verbose", false, "show the workers' logs")
	return c
}

// colour: only for a person at a terminal who has not asked for none.
func (e *environment) colour() bool {
	return !e.noColor && e.env("NO_COLOR") == "" && e.env("TERM") != "dumb" && terminal(e.out)
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
