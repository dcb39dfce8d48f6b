package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tallystick/pkg/redisx"
)

// bareScript is what the idea is at its barest: look, compare, take, note who.
// No several limits, no denial that stays, no deadline index, no ledger.
const bareScript = `local spent = tonumber(redis.call('GET', KEYS[1]) or '0')
local amount = tonumber(ARGV[1])
local cap = tonumber(ARGV[2])
if spent + amount > cap then
  return {'denied', tostring(spent)}
end
redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'agent', ARGV[3], 'amount', ARGV[1], 'state', 'held')
redis.call('EXPIRE', KEYS[2], ARGV[4])
return {'allowed', tostring(spent)}
`

// Names of rows that others refer to.
const (
	rowRaw  = "reserve.lua, pipelined EVALSHA"
	rowBare = "bare script of 12 lines, same"
)

// pipelines are what redis-benchmark is tried with: connections and depth.
var pipelines = [...][2]int{{8, 64}, {4, 128}, {2, 256}} //nolint:gochecknoglobals // a constant

// randomKeys is the largest range redis-benchmark draws from.
const randomKeys = "2147483647"

// rawRuns are the windows of the two scripts, taken again between the other
// rows: what the machine does meanwhile hits both sides of a ratio.
type rawRuns struct {
	probe    *prober
	commands [2]redisx.Command // reserve.lua, bare
	windows  [2][]window
}

// raw measures the scripts through redis-benchmark.
func (b *run) raw(ctx context.Context) error {
	tool, err := findTool(exec.LookPath)
	if err != nil {
		return err
	}
	b.raws.probe = &prober{run: b, tool: tool}
	if b.raws.commands, err = b.rawCommands(ctx); err != nil {
		return err
	}
	if err := b.raws.probe.choose(ctx, b.raws.commands[0]); err != nil {
		return err
	}
	for range b.cfg.Windows {
		if err := b.rawAgain(ctx); err != nil {
			return err
		}
	}
	for _, r := range b.rawRows() {
		b.add(r)
	}
	return nil
}

// rawCommands are the calls to repeat. Twelve digits of each execution are
// redis-benchmark's; the rest is fixed.
func (b *run) rawCommands(ctx context.Context) (out [2]redisx.Command, err error) {
	const random = "0198f3b2-7c1d-8e2f-9a3b-__rand_int__"
	const key = "00000000-0001-0001-0000-__rand_int__"
	reserve, id := b.redis.command(key), b.redis.reserve(key, 0).Execution
	for _, list := range [][]string{reserve.Keys, reserve.Args} {
		for i := range list {
			list[i] = strings.ReplaceAll(list[i], id, random)
		}
	}
	sha, err := b.redis.client.ScriptLoad(ctx, bareScript).Result()
	return [2]redisx.Command{reserve, {
		SHA: sha, Keys: []string{"bp:" + b.redis.agent.Org + ":" + benchPool, "reservation:" + random},
		Args: []string{strconv.Itoa(benchAmount), strconv.FormatInt(unlimited, 10), b.redis.agent.ID, "600"},
	}}, err
}

// rawAgain measures one more window of each script.
func (b *run) rawAgain(ctx context.Context) error {
	for i, c := range b.raws.commands {
		w, err := b.raws.probe.window(ctx, c, b.cfg.Window)
		if err != nil {
			return err
		}
		b.raws.windows[i] = append(b.raws.windows[i], w)
	}
	return b.redis.reset(ctx)
}

func (b *run) rawRows() (rows [2]Row) {
	p := b.raws.probe
	for i, name := range []string{rowRaw, rowBare} {
		rows[i] = rowOf("raw Redis", name, p.connections*p.depth, b.raws.windows[i])
		rows[i].Note = fmt.Sprintf("redis-benchmark -c %d -P %d, %d windows", p.connections, p.depth, len(b.raws.windows[i]))
	}
	return rows
}

func findTool(look func(string) (string, error)) (string, error) {
	for _, name := range []string{"redis-benchmark", "valkey-benchmark"} {
		if path, err := look(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no redis-benchmark or valkey-benchmark on PATH; Debian has it in redis-tools, Fedora, Alpine and Homebrew beside the server")
}

// prober drives redis-benchmark.
type prober struct {
	run                *run
	tool               string
	connections, depth int
	rates              map[string]float64 // last seen, by SHA
}

// choose keeps the connections and depth that reach the highest rate.
func (p *prober) choose(ctx context.Context, c redisx.Command) error {
	best := 0.0
	p.rates = map[string]float64{}
	connections, depth := 0, 0
	for _, try := range pipelines {
		p.connections, p.depth = try[0], try[1]
		w, err := p.requests(ctx, c, 20_480)
		if err != nil {
			return err
		}
		if rate := float64(w.count) / w.took.Seconds(); rate > best {
			best, connections, depth = rate, try[0], try[1]
		}
	}
	p.connections, p.depth = connections, depth
	return nil
}

// window runs for about as long as asked, on an emptied server.
func (p *prober) window(ctx context.Context, c redisx.Command, d time.Duration) (window, error) {
	if p.rates[c.SHA] == 0 {
		if _, err := p.requests(ctx, c, 20_480); err != nil {
			return window{}, err
		}
	}
	n := min(requestsMax, max(2_048, int(p.rates[c.SHA]*d.Seconds())))
	return p.requests(ctx, c, n)
}

func (p *prober) requests(ctx context.Context, c redisx.Command, n int) (window, error) {
	if err := p.run.redis.reset(ctx); err != nil {
		return window{}, err
	}
	before, err := redisCPU(ctx, p.run.redis.client)
	if err != nil {
		return window{}, err
	}
	password, _ := p.run.redis.user.Password()
	argv := []string{
		"-s", p.run.redis.socket, "--user", p.run.redis.user.Username(), "-a", password, "--csv", "--precision", "3",
		"-c", strconv.Itoa(p.connections), "-P", strconv.Itoa(p.depth), "-n", strconv.Itoa(n), "-r", randomKeys,
		"EVALSHA", c.SHA, strconv.Itoa(len(c.Keys)),
	}
	cmd := exec.CommandContext(ctx, p.tool, append(append(argv, c.Keys...), c.Args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return window{}, fmt.Errorf("redis-benchmark: %w: %s", err, said.String())
	}
	after, err := redisCPU(ctx, p.run.redis.client)
	if err != nil {
		return window{}, err
	}
	w, err := parseBenchmark(out, n)
	w.store, w.client = after-before, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	if err == nil {
		p.rates[c.SHA] = float64(w.count) / w.took.Seconds()
	}
	return w, err
}

// benchmarkLine is the end of redis-benchmark's CSV; what comes before is the
// command, with whatever quotes and line breaks its arguments have.
var benchmarkLine = regexp.MustCompile(`"([0-9.]+)","([0-9.]+)","([0-9.]+)","([0-9.]+)","([0-9.]+)","([0-9.]+)","([0-9.]+)"\s*$`)

// parseBenchmark reads rate, average, minimum, p50, p95, p99 and maximum; all
// but the rate in milliseconds.
func parseBenchmark(out []byte, n int) (window, error) {
	found := benchmarkLine.FindSubmatch(out)
	if found == nil {
		return window{}, fmt.Errorf("redis-benchmark said %.300q", out)
	}
	var v [7]float64
	for i := range v {
		var err error
		if v[i], err = strconv.ParseFloat(string(found[i+1]), 64); err != nil {
			return window{}, fmt.Errorf("redis-benchmark said %.300q: %w", out, err)
		}
	}
	if v[0] <= 0 {
		return window{}, fmt.Errorf("redis-benchmark said %.300q", out)
	}
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return window{
		count: n, took: time.Duration(float64(n) / v[0] * float64(time.Second)), p50: ms(v[3]), p99: ms(v[5]),
	}, nil
}
