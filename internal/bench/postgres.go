package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	rowPostgres     = "Postgres: one transaction with SELECT FOR UPDATE"
	postgresStart   = 30 * time.Second
	postgresPoll    = 50 * time.Millisecond
	postgresThreads = 2
)

// schemaSQL is a budget as one would write it: one row of money, one row for
// each reservation.
const schemaSQL = `CREATE TABLE pool (id int PRIMARY KEY, remaining bigint NOT NULL);
CREATE TABLE reservation (id uuid PRIMARY KEY, agent text NOT NULL, amount bigint NOT NULL, state text NOT NULL, expires timestamptz NOT NULL);
INSERT INTO pool VALUES (1, 9007199254740991);`

const reserveSQL = `BEGIN;
SELECT remaining FROM pool WHERE id = 1 FOR UPDATE \gset
\if :remaining >= 250000
UPDATE pool SET remaining = remaining - 250000 WHERE id = 1;
INSERT INTO reservation VALUES (gen_random_uuid(), 'agent', 250000, 'held', now() + interval '10 minutes');
\endif
END;
`

// postgresServer is a private server on a unix socket, with its defaults:
// every commit is on disk before it is answered.
type postgresServer struct {
	bin, dir string
	pid      int
	stop     func() error
	script   string
	files    int
}

// postgres measures the transaction, where a server is installed.
func (b *run) postgres(ctx context.Context) (err error) {
	p, err := startPostgres(ctx, filepath.Join(b.cfg.Dir, "postgres"))
	if errors.Is(err, fs.ErrNotExist) {
		b.add(Row{Group: groupHand, Name: rowPostgres, Note: "not installed"})
		return nil
	}
	if err != nil {
		// Somebody else's software: its trouble is a row, not a failure.
		b.add(Row{Group: groupHand, Name: rowPostgres, Note: fmt.Sprintf("does not start: %.200s", err)})
		return nil
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if _, err := p.sql(ctx, schemaSQL); err != nil {
		return err
	}
	var windows []window
	for range b.cfg.Windows {
		// pgbench counts in whole seconds.
		w, err := p.load(ctx, "-T", strconv.Itoa(max(1, int(b.cfg.Window.Seconds()))))
		if err != nil {
			return err
		}
		windows = append(windows, w)
	}
	if _, err := p.sql(ctx, fmt.Sprintf("TRUNCATE reservation; UPDATE pool SET remaining = %d", raceCap*benchAmount)); err != nil {
		return err
	}
	if _, err := p.load(ctx, "-t", strconv.Itoa(2*raceCap/handClients)); err != nil {
		return err
	}
	text, err := p.sql(ctx, "SELECT count(*) FROM reservation")
	if err != nil {
		return err
	}
	given, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return err
	}
	r := rowOf(groupHand, rowPostgres, handClients, windows)
	r.Note = raceVerdict(given)
	b.add(r)
	return nil
}

// findPostgres is the newest installation's folder of programs, or
// fs.ErrNotExist.
func findPostgres() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // Debian's place
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		path, err := exec.LookPath("postgres")
		if err != nil {
			return "", fs.ErrNotExist
		}
		found = []string{path}
	}
	dir := filepath.Dir(found[len(found)-1])
	for _, tool := range []string{"initdb", "pgbench", "psql"} {
		if _, err := os.Stat(filepath.Join(dir, tool)); err != nil {
			return "", fs.ErrNotExist
		}
	}
	return dir, nil
}

func startPostgres(ctx context.Context, dir string) (*postgresServer, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	p := &postgresServer{bin: bin, dir: dir, script: filepath.Join(dir, "reserve.sql")}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.script, []byte(reserveSQL), 0o600); err != nil {
		return nil, err
	}
	if err := giveAway(dir); err != nil {
		return nil, err
	}
	if _, err := p.tool(ctx, "initdb", "-D", filepath.Join(dir, "data"), "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-instructions"); err != nil {
		return nil, err
	}
	server := p.command(context.WithoutCancel(ctx), "postgres", "-D", filepath.Join(dir, "data"), "-k", dir,
		"-c", "listen_addresses=", "-c", "unix_socket_permissions=0700")
	var said bytes.Buffer
	server.Stderr = &said
	if err := server.Start(); err != nil {
		return nil, err
	}
	p.pid = server.Process.Pid
	p.stop = func() error {
		// Its quick end: clients are cut, everything is written.
		_ = server.Process.Signal(os.Interrupt)
		return server.Wait()
	}
	if err := p.await(ctx); err != nil {
		_ = server.Process.Kill()
		_ = server.Wait()
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	return p, nil
}

func (p *postgresServer) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, postgresStart)
	defer cancel()
	poll := time.NewTicker(postgresPoll)
	defer poll.Stop()
	for {
		_, err := p.sql(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-poll.C:
		}
	}
}

func (p *postgresServer) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.Env = p.dir, []string{"PATH=" + p.bin + ":/usr/bin:/bin", "LC_ALL=C", "HOME=" + p.dir, "PGHOST=" + p.dir, "PGUSER=bench", "PGDATABASE=postgres"}
	cmd.SysProcAttr = unprivileged()
	return cmd
}

func (p *postgresServer) tool(ctx context.Context, name string, args ...string) (string, error) {
	cmd := p.command(ctx, name, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(said.Bytes()))
	}
	return string(out), nil
}

func (p *postgresServer) sql(ctx context.Context, text string) (string, error) {
	return p.tool(ctx, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text)
}

// load runs pgbench and reads its log of transactions.
func (p *postgresServer) load(ctx context.Context, much ...string) (window, error) {
	p.files++
	prefix := filepath.Join(p.dir, "log"+strconv.Itoa(p.files))
	args := append([]string{
		"-n", "-M", "prepared", "-c", strconv.Itoa(handClients), "-j", strconv.Itoa(postgresThreads),
		"-f", p.script, "-l", "--log-prefix", prefix,
	}, much...)
	cmd := p.command(ctx, "pgbench", args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	before := childrenCPU(p.pid)
	if out, err := cmd.Output(); err != nil {
		return window{}, fmt.Errorf("pgbench: %w: %s%s", err, out, said.Bytes())
	}
	w := window{store: childrenCPU(p.pid) - before, client: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	logs, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return window{}, err
	}
	return w, w.readLogs(logs)
}

// readLogs takes pgbench's lines: client, number, time in µs, script, and when
// it ended in seconds and µs.
func (w *window) readLogs(logs []string) error {
	var took []time.Duration
	first, last := time.Duration(1<<62), time.Duration(0)
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			var client, number, script int
			var us, seconds, micro int64
			if _, err := fmt.Sscan(line, &client, &number, &us, &script, &seconds, &micro); err != nil {
				return fmt.Errorf("pgbench's log %q: %w", line, err)
			}
			d, end := time.Duration(us)*time.Microsecond, time.Duration(seconds)*time.Second+time.Duration(micro)*time.Microsecond
			took = append(took, d)
			first, last = min(first, end-d), max(last, end)
		}
	}
	slices.Sort(took)
	w.count, w.took, w.p50, w.p99 = len(took), last-first, quantile(took, 0.5), quantile(took, 0.99)
	return nil
}
