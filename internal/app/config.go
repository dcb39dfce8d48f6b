// Package app is the process shell of a worker: configuration from flags and
// environment, the logger, the connections to NATS and Redis, the probes over
// HTTP, signals, and the wiring of each role. A worker run alone and the same
// worker inside `tallystick up` go through the same functions here, with the
// same credentials and so with the same rights.
package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/topology"
)

// Defaults of a worker's configuration.
const (
	DefaultNATSURL      = "nats://127.0.0.1:4222"
	DefaultRedisURL     = "redis://127.0.0.1:6379"
	DefaultPartitions   = 16
	DefaultStartTimeout = 30 * time.Second
	DefaultDrainTimeout = 20 * time.Second
)

// Config is everything one worker process is told from outside.
type Config struct {
	Worker          string
	NATSURL         string
	RedisURL        string
	CredentialsPath string // JSON file written by `tallystick credentials`
	HTTPAddr        string // empty: no HTTP
	LogLevel        string
	LogFormat       string // json, console or auto
	DataDir         string // where a worker keeps what must outlive both stores
	CheckpointKey   string // signs checkpoints; the reconciler's alone
	CheckpointDir   string // where the newest checkpoints are files too
	Partitions      int    // fixed at install
	StartTimeout    time.Duration
	DrainTimeout    time.Duration
}

// Validate returns every problem at once.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(c.Worker != "", "no worker name")
	need(c.NATSURL != "", "no NATS address: set --nats or TALLY_NATS_URL")
	need(c.RedisURL != "", "no Redis address: set --redis or TALLY_REDIS_URL")
	need(c.Partitions >= 1 && c.Partitions <= 99, "partitions must be 1 to 99, not %d", c.Partitions)
	need(c.StartTimeout > 0 && c.DrainTimeout > 0, "time-outs must be positive")
	return errors.Join(append(errs, CheckLogging(c.LogLevel, c.LogFormat))...)
}

// Load reads a worker's configuration. Flags win over the environment, the
// environment over defaults. It returns [flag.ErrHelp] when help was asked
// for and printed.
func Load(worker string, args []string, env func(string) string, out io.Writer) (Config, error) {
	c := Config{Worker: worker}
	or := func(name, def string) string {
		if v := env(name); v != "" {
			return v
		}
		return def
	}
	fs := flag.NewFlagSet(worker, flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&c.NATSURL, "nats", or("TALLY_NATS_URL", or("NATS_URL", DefaultNATSURL)), "NATS server `URL` (TALLY_NATS_URL)")
	fs.StringVar(&c.RedisURL, "redis", or("TALLY_REDIS_URL", or("REDIS_URL", DefaultRedisURL)), "Redis `URL`: redis://, rediss:// or unix:// (TALLY_REDIS_URL)")
	fs.StringVar(&c.CredentialsPath, "credentials", or("TALLY_CREDENTIALS", ""), "`FILE` with this worker's passwords and keys (TALLY_CREDENTIALS)")
	fs.StringVar(&c.HTTPAddr, "http", or("TALLY_HTTP", ""), "`HOST:PORT` for /healthz, /readyz and /metrics; empty: none (TALLY_HTTP)")
	fs.StringVar(&c.LogLevel, "log-level", or("TALLY_LOG", "info"), "debug, info, warn or error (TALLY_LOG)")
	fs.StringVar(&c.LogFormat, "log-format", or("TALLY_LOG_FORMAT", "auto"), "auto, json or console (TALLY_LOG_FORMAT)")
	fs.StringVar(&c.DataDir, "data", or("TALLY_DATA", ""), "`DIR` for what must outlive both stores, such as the scribe's anchor (TALLY_DATA)")
	if worker == topology.Reconciler { // no other worker may know of it
		fs.StringVar(&c.CheckpointKey, "checkpoint-key", or("TALLY_CHECKPOINT_KEY", ""), "`FILE` with the key that signs checkpoints, its .pub beside it; empty: none are signed (TALLY_CHECKPOINT_KEY)")
		fs.StringVar(&c.CheckpointDir, "checkpoint-dir", or("TALLY_CHECKPOINT_DIR", ""), "`DIR` for the newest checkpoints as files; empty: none (TALLY_CHECKPOINT_DIR)")
	}
	fs.DurationVar(&c.StartTimeout, "start-timeout", DefaultStartTimeout, "how long to wait for NATS and Redis at start")
	fs.DurationVar(&c.DrainTimeout, "drain-timeout", DefaultDrainTimeout, "how long work in flight may take after SIGTERM")
	var intErrs []error
	fs.IntVar(&c.Partitions, "partitions", intOr(env, "TALLY_PARTITIONS", DefaultPartitions, &intErrs), "number of partitions, fixed at install (TALLY_PARTITIONS)")
	fs.Usage = func() {
		fmt.Fprintf(out, "%s is one worker of Tallystick, a budget authority for AI agents.\n\n", worker)
		fmt.Fprintf(out, "Usage:\n  %[1]s --nats nats://127.0.0.1:4222 --redis redis://127.0.0.1:6379 --credentials creds/%[1]s.json --http 127.0.0.1:9090\n\nFlags (the environment variable in brackets does the same):\n", worker)
		fs.PrintDefaults()
		fmt.Fprintf(out, "\nCredentials come from `tallystick credentials --out DIR`. SIGTERM drains.\n")
	}
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if c.CredentialsPath != "" {
		abs, err := filepath.Abs(c.CredentialsPath)
		if err != nil {
			return c, fmt.Errorf("credentials path: %w", err)
		}
		c.CredentialsPath = abs
	}
	return c, errors.Join(append(intErrs, c.Validate())...)
}

func intOr(env func(string) string, name string, def int, errs *[]error) int {
	v := strings.TrimSpace(env(name))
	if v == "" {
		return def
	}
	n := 0
	if _, err := fmt.Sscanf(v, "%d", &n); err != nil {
		*errs = append(*errs, fmt.Errorf("%s: %q is no number", name, v))
		return def
	}
	return n
}
