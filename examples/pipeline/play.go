package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// stageProcess is one stage, running; lines are what it says.
type stageProcess struct {
	cmd   *exec.Cmd
	lines chan string
}

// start runs this program again as one stage. Its lines are shown, and passed
// on.
func start(name string, s stage) (*stageProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &stageProcess{cmd: exec.Command(self, name), lines: make(chan string, 1024)}
	p.cmd.Env = append(os.Environ(), "TALLY_URL="+s.url, "TALLY_TOKEN="+s.token, "SETTLER="+s.settler, "RESULTS="+s.results)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			fmt.Fprintf(os.Stdout, "  %-7s %s\n", name, in.Text())
			p.lines <- in.Text()
		}
	}()
	return p, nil
}

// end sends a signal and waits until the process has ended.
func (p *stageProcess) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // it may have ended by itself
	for range p.lines {
	}
	_ = p.cmd.Wait() // how it ended is what the signal says
}

// until waits for the n-th line that begins with a word.
func (p *stageProcess) until(ctx context.Context, word string, n int) error {
	for n > 0 {
		select {
		case line, open := <-p.lines:
			if !open {
				return fmt.Errorf("the stage has ended before it said %q", word)
			}
			if strings.HasPrefix(line, word) {
				n--
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// cast is who takes part.
type cast struct {
	url                          string
	org                          string
	submitter, settler, pipeline string // tokens
	settlerID                    string
}

// play sets the scene with an operator's token, plays, and checks.
func play(ctx context.Context, data string) error {
	c, err := scene(ctx, data)
	if err != nil {
		return err
	}
	results, err := os.MkdirTemp("", "tallystick-results-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(results) }()

	say("submit stores %d reserve commands and ends:", jobs)
	sub, err := start("submit", stage{url: c.url, token: c.submitter, settler: c.settlerID})
	if err != nil {
		return err
	}
	err = sub.until(ctx, "submitted", 1)
	sub.end(syscall.SIGTERM)
	if err != nil {
		return err
	}
	say("work and settle start later:")
	settling, err := start("settle", stage{url: c.url, token: c.settler, results: results})
	if err != nil {
		return err
	}
	defer settling.end(syscall.SIGTERM)
	worker := stage{url: c.url, token: c.pipeline, results: results}
	first, err := start("work", worker)
	if err != nil {
		return err
	}
	err = first.until(ctx, "working", 5)
	first.end(syscall.SIGKILL)
	if err != nil {
		return err
	}
	say("work was killed with a job in hand; its decision comes again after 30 seconds. Work starts again:")
	second, err := start("work", worker)
	if err != nil {
		return err
	}
	defer second.end(syscall.SIGTERM)
	if err := settling.until(ctx, "settled", jobs-1); err != nil {
		return err
	}
	return check(ctx, c)
}

// scene makes an org with a pool, two agents and a pipeline identity.
func scene(ctx context.Context, data string) (c cast, err error) {
	text, err := os.ReadFile(filepath.Join(data, "up.json"))
	if err != nil {
		return c, fmt.Errorf("is `tallystick up --data %s` running? %w", data, err)
	}
	var up struct {
		URL   string `json:"nats_url"`
		Token string `json:"admin_token"`
	}
	if err := json.Unmarshal(text, &up); err != nil {
		return c, err
	}
	op, err := client.ConnectOperator(up.URL, up.Token)
	if err != nil {
		return c, err
	}
	defer op.Close()
	c.url, c.org = up.URL, fmt.Sprintf("pipe-%d", time.Now().UnixNano())
	ask := func(verb string, req, answer any) {
		if err != nil {
			return
		}
		var body []byte
		if body, err = op.Do(ctx, verb, "", req); err == nil {
			err = json.Unmarshal(body, answer)
		}
	}
	most := int64(limit)
	var nothing any
	var submitter, settler events.AgentRegisterAnswer
	var pipeline events.PipelineCreateAnswer
	ask(events.AdminOrgCreate, events.OrgCreate{Org: c.org}, &nothing)
	ask(events.AdminPoolCreate, events.PoolCreate{Org: c.org, Pool: "p", Limits: []events.LimitSpec{{Unit: unit, Cap: &most}}}, &nothing)
	ask(events.AdminAgentRegister, events.AgentRegister{Org: c.org, Name: "submitter", Pool: "p"}, &submitter)
	ask(events.AdminAgentRegister, events.AgentRegister{Org: c.org, Name: "settler", Pool: "p"}, &settler)
	ask(events.AdminPipelineCreate, events.PipelineCreate{Org: c.org, Name: "work"}, &pipeline)
	c.submitter, c.settler, c.settlerID, c.pipeline = submitter.Token, settler.Token, settler.Agent, pipeline.Token
	return c, err
}

// check asks Tallystick what became of each job and of the money.
func check(ctx context.Context, c cast) error {
	a, err := client.Connect(ctx, client.Config{URL: c.url, Token: c.submitter})
	if err != nil {
		return err
	}
	defer a.Close()
	var want int64
	for n := 1; n < jobs; n++ {
		r, err := a.ReservationByKey(ctx, jobName(n))
		if err != nil {
			return fmt.Errorf("%s: %w", jobName(n), err)
		}
		if r.State != "settled" || r.Charged[unit] != cost(n) {
			return fmt.Errorf("%s is %s and cost %d, want settled and %d", jobName(n), r.State, r.Charged[unit], cost(n))
		}
		want += cost(n)
	}
	var e *events.Error
	if _, err := a.ReservationByKey(ctx, jobName(jobs)); !errors.As(err, &e) || e.Code != events.CodeNotFound {
		return fmt.Errorf("%s, which was more than there is: %w", jobName(jobs), err)
	}
	b, err := a.Balance(ctx, events.Balance{})
	if err != nil {
		return err
	}
	if len(b.Pools) != 1 || b.Pools[0].Held != 0 || b.Pools[0].Spent != want {
		return fmt.Errorf("the balance is %+v, want held 0 and spent %d", b.Pools, want)
	}
	say("%d jobs settled exactly once, 1 denied; held 0, spent %d of %d. org %s", jobs-1, want, limit, c.org)
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// throwAway runs what follows on a system of its own.
func throwAway(ctx context.Context, binary string, then func(context.Context, string) error) (err error) {
	dir, err := os.MkdirTemp("", "tallystick-pipeline-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	up := exec.Command(binary, "up", "--data", dir, "--nats", "127.0.0.1:0", "--log-level", "error")
	up.Stderr = os.Stderr
	out, err := up.StdoutPipe()
	if err != nil {
		return err
	}
	if err := up.Start(); err != nil {
		return err
	}
	defer func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		err = errors.Join(err, up.Wait())
	}()
	if in := bufio.NewScanner(out); !in.Scan() || in.Text() != "ready" {
		return fmt.Errorf("%s up did not get ready", binary)
	}
	return then(ctx, dir)
}
