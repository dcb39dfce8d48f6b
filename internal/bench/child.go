package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// loadGrace is how much longer than its windows a load may take.
const loadGrace = 45 * time.Second

// generate runs a load in a child process and measures, at the edges of its
// windows, what Redis and this process used meanwhile. edge, where given, is
// called at the edges too.
func (b *run) generate(ctx context.Context, spec loadSpec, store *redis.Client, edge func(begin bool) error) (out []window, err error) {
	ctx, cancel := context.WithTimeout(ctx, spec.Warm+time.Duration(spec.Windows)*spec.Window+loadGrace)
	defer cancel()
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.cfg.Load[0], b.cfg.Load[1:]...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &said
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	out, err = watch(ctx, lines, store, edge)
	if err != nil {
		cancel()
	}
	if werr := cmd.Wait(); werr != nil {
		return nil, fmt.Errorf("load generator: %w: %s", errors.Join(err, werr), bytes.TrimSpace(said.Bytes()))
	}
	return out, err
}

func watch(ctx context.Context, lines io.Reader, store *redis.Client, edge func(begin bool) error) (out []window, err error) {
	var w window
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		var e loadEvent
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("load generator said %.80q: %w", scan.Bytes(), err)
		}
		if e.Edge == edgeStats {
			w.p50, w.p99 = e.P50, e.P99
			out, w = append(out, w), window{}
			continue
		}
		cpu, err := redisCPU(ctx, store)
		if err != nil {
			return nil, err
		}
		if e.Edge == edgeBegin {
			w.store, w.own = -cpu, -ownCPU()
		} else {
			w.store, w.own = w.store+cpu, w.own+ownCPU()
			w.count, w.took, w.client = e.Count, e.Took, e.CPU
			w.allowed, w.failed, w.firstFailure = e.Allowed, e.Failed, e.Failure
		}
		if edge != nil {
			if err := edge(e.Edge == edgeBegin); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// failures says how many answers were errors, and what the first was.
func failures(windows []window) string {
	n, first := 0, ""
	for _, w := range windows {
		n += w.failed
		if first == "" {
			first = w.firstFailure
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d errors, first %.120s", n, first)
}
