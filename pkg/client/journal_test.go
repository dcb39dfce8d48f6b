package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

const (
	crashURL   = "CLIENT_TEST_CRASH_URL"
	crashDir   = "CLIENT_TEST_CRASH_DIR"
	crashStage = "CLIENT_TEST_CRASH_STAGE"
)

// crash is the process that will be killed: it gets as far as the stage says,
// tells so, and waits for its end.
func crash(url, dir, stage string) {
	c, err := client.Connect(context.Background(), client.Config{URL: url, Token: token, JournalDir: dir, Timeout: 100 * time.Millisecond})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	err = c.Hold(context.Background(), "job", ten(), func(_ context.Context, h *client.Hold) error {
		switch stage {
		case "dispatched":
			if err := h.Dispatched(); err != nil {
				return err
			}
		case "spent":
			h.Spent(map[string]int64{"usd_microcents": 7})
			fmt.Println("ready")
			return nil // and the settle gets no answer
		}
		fmt.Println("ready")
		select {}
	})
	fmt.Println("error:", err)
	os.Exit(1)
}

// killed runs a process to a stage and kills it.
func (f *fake) killed(dir, stage string, ready func()) {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashURL+"="+f.url, crashDir+"="+dir, crashStage+"="+stage)
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	ready()
	if err := cmd.Process.Kill(); err != nil {
		f.t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	if line != "ready\n" {
		f.t.Fatalf("the process said %q", line)
	}
}

func pages(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Name() != "lock" {
			names = append(names, f.Name())
		}
	}
	return names
}

func TestJournalOfAKilledProcess(t *testing.T) {
	t.Parallel()
	cases := []struct{ stage, want string }{
		{"held", `release job {"key":"job"}`},
		{"dispatched", `settle job {"reservation":"` + reservation + `"}`},
		{"spent", `settle job {"reservation":"` + reservation + `","actual":{"usd_microcents":7}}`},
	}
	for _, tc := range cases {
		t.Run(tc.stage, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			settles := make(chan bool, 100)
			dead := make(chan bool)
			f.broker(map[string]script{"settle": func(int, *nats.Msg) *nats.Msg {
				select {
				case <-dead:
					return body(`{"outcome":"settled","charged":{},"returned":{}}`)
				default:
					settles <- true
					return nil
				}
			}})
			dir := t.TempDir()
			f.killed(dir, tc.stage, func() {
				if tc.stage == "spent" {
					<-settles
				}
			})
			close(dead)
			var heard []client.Recovered
			cfg := f.config()
			cfg.JournalDir, cfg.OnRecovered = dir, func(r client.Recovered) { heard = append(heard, r) }
			f.connectWith(cfg)
			if f.last() != tc.want {
				t.Fatalf("delivered %s, want %s", f.last(), tc.want)
			}
			if len(heard) != 1 || heard[0].Err != nil || heard[0].Key != "job" || !strings.HasPrefix(tc.want, heard[0].Verb) {
				t.Fatalf("heard %+v", heard)
			}
			if left := pages(t, dir); len(left) != 0 {
				t.Fatalf("%q are left", left)
			}
		})
	}
}

// While the function runs, one private file without the token is there; when
// the broker has answered, none.
func TestJournalFile(t *testing.T) {
	t.Parallel()
	f := start(t)
	dir := t.TempDir()
	f.broker(map[string]script{"reserve": func(int, *nats.Msg) *nats.Msg {
		if len(pages(t, dir)) != 1 {
			t.Error("the reserve went out before it was written down")
		}
		return body(allowed)
	}})
	cfg := f.config()
	cfg.JournalDir = dir
	c := f.connectWith(cfg)
	err := c.Hold(t.Context(), "job", ten(), func(_ context.Context, h *client.Hold) error {
		if err := h.Dispatched(); err != nil {
			return err
		}
		if all, err := c.Recover(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("recovered a hold that runs: %+v, %v", all, err)
		}
		names := pages(t, dir)
		if len(names) != 1 {
			t.Fatalf("%q are there, want one file", names)
		}
		name := filepath.Join(dir, names[0])
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(data), token) {
			t.Errorf("%v, mode %v: %s", err, info.Mode(), data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if left := pages(t, dir); len(left) != 0 {
		t.Fatalf("%q are left", left)
	}
}

func TestJournalIsEmptyAfterEveryAnswer(t *testing.T) {
	t.Parallel()
	cases := map[string]map[string]script{
		"denied":      {"reserve": func(int, *nats.Msg) *nats.Msg { return body(noBudget) }},
		"refused":     {"reserve": func(int, *nats.Msg) *nats.Msg { return failure(events.UnitUnknown("gold")) }},
		"unknown":     {"reserve": lost},
		"overrun":     {"settle": func(int, *nats.Msg) *nats.Msg { return body(`{"outcome":"denied","reason":"overrun"}`) }},
		"not found":   {"settle": func(int, *nats.Msg) *nats.Msg { return failure(events.NotFound("reservation")) }},
		"all is well": nil,
	}
	for name, scripts := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.broker(scripts)
			cfg := f.config()
			cfg.JournalDir, cfg.Attempts = t.TempDir(), 2
			err := f.connectWith(cfg).Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error { return nil })
			if (err == nil) != (scripts == nil) {
				t.Fatal(err)
			}
			if left := pages(t, cfg.JournalDir); len(left) != 0 {
				t.Fatalf("%q are left", left)
			}
		})
	}
}

func TestJournalHasOneClient(t *testing.T) {
	t.Parallel()
	f := start(t)
	cfg := f.config()
	cfg.JournalDir = t.TempDir()
	first := f.connectWith(cfg)
	if _, err := client.Connect(t.Context(), cfg); !errors.Is(err, client.ErrJournalInUse) {
		t.Fatalf("got %v, want ErrJournalInUse", err)
	}
	first.Close()
	f.connectWith(cfg)
}

func TestFullJournalReservesNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(nil)
	cfg := f.config()
	cfg.JournalDir = t.TempDir()
	for i := range 4096 {
		if err := os.WriteFile(filepath.Join(cfg.JournalDir, fmt.Sprintf("%d.hold.refused", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.connectWith(cfg).Hold(t.Context(), "job", ten(), nil); !errors.Is(err, client.ErrJournalFull) {
		t.Fatalf("got %v, want ErrJournalFull", err)
	}
	if got := f.asked(); len(got) != 0 {
		t.Fatalf("asked %q", got)
	}
}

// Where the mark cannot be written, the paid call must not go out.
func TestUnwrittenDispatchEndsTheFunction(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(nil)
	cfg := f.config()
	cfg.JournalDir = t.TempDir()
	err := f.connectWith(cfg).Hold(t.Context(), "job", ten(), func(ctx context.Context, h *client.Hold) error {
		if err := os.RemoveAll(cfg.JournalDir); err != nil {
			return err
		}
		err := h.Dispatched()
		if err == nil || !errors.Is(context.Cause(ctx), err) {
			t.Errorf("got %v, cause %v", err, context.Cause(ctx))
		}
		return err
	})
	if err == nil || !strings.HasPrefix(f.last(), "release job ") {
		t.Fatalf("%v, then %s", err, f.last())
	}
}

// After Close the directory may be another client's.
func TestClosedJournalIsNotTouched(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.broker(nil)
	cfg := f.config()
	cfg.JournalDir, cfg.Attempts = t.TempDir(), 1
	c := f.connectWith(cfg)
	err := c.Hold(t.Context(), "job", ten(), func(_ context.Context, h *client.Hold) error {
		c.Close()
		return h.Dispatched()
	})
	if err == nil {
		t.Fatal("dispatched without a journal")
	}
	var heard []client.Recovered
	cfg.OnRecovered = func(r client.Recovered) { heard = append(heard, r) }
	f.connectWith(cfg)
	if len(heard) != 1 || heard[0].Err != nil || f.last() != `release job {"key":"job"}` {
		t.Fatalf("heard %+v, last asked %s", heard, f.last())
	}
}
