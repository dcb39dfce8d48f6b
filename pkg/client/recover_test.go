package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// settles serves a broker that answers every settle with what is stored.
func (f *fake) settles(first *nats.Msg) *atomic.Pointer[nats.Msg] {
	f.t.Helper()
	var answer atomic.Pointer[nats.Msg]
	answer.Store(first)
	f.broker(map[string]script{"settle": func(int, *nats.Msg) *nats.Msg { return answer.Load() }})
	return &answer
}

// undelivered leaves a settle in a journal whose broker did not answer.
func (f *fake) undelivered(cfg client.Config) {
	f.t.Helper()
	c := f.connectWith(cfg)
	err := c.Hold(f.t.Context(), "job", ten(), func(_ context.Context, h *client.Hold) error {
		h.Spent(map[string]int64{"usd_microcents": 7})
		return nil
	})
	if !errors.Is(err, &events.Error{Code: events.CodeUnavailable}) {
		f.t.Fatalf("got %v, want unavailable", err)
	}
	c.Close()
}

func TestRecoverDeliversUnderTheSameKey(t *testing.T) {
	t.Parallel()
	f := start(t)
	answer := f.settles(failure(events.Unavailable(1)))
	cfg := f.config()
	cfg.JournalDir, cfg.Attempts = t.TempDir(), 2
	f.undelivered(cfg)
	c := f.connectWith(cfg) // tries once more, in vain
	if all, err := c.Recover(t.Context()); len(all) != 1 || !errors.Is(err, &events.Error{Code: events.CodeUnavailable}) {
		t.Fatalf("got %+v, %v", all, err)
	}
	answer.Store(body(`{"outcome":"late_settled","charged":{},"returned":{}}`))
	if _, err := c.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := pages(t, cfg.JournalDir); len(left) != 0 {
		t.Fatalf("%q are left", left)
	}
	settles := f.asked()[1:]
	for _, s := range settles {
		if s != settles[0] {
			t.Errorf("asked %s, then %s", settles[0], s)
		}
	}
	if all, err := c.Recover(t.Context()); len(all) != 0 || err != nil {
		t.Fatalf("again: %+v, %v", all, err)
	}
}

// Nobody has to call Recover: the client tries until it is closed.
func TestRecoveryIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := start(t)
	answer := f.settles(failure(events.Unavailable(1)))
	cfg := f.config()
	cfg.JournalDir, cfg.Attempts = t.TempDir(), 1
	heard := make(chan client.Recovered, 100)
	cfg.OnRecovered = func(r client.Recovered) { heard <- r }
	f.undelivered(cfg)
	f.connectWith(cfg)
	if r := <-heard; !errors.Is(r.Err, &events.Error{Code: events.CodeUnavailable}) {
		t.Fatalf("heard %+v", r)
	}
	answer.Store(body(`{"outcome":"settled","charged":{},"returned":{}}`))
	for r := range heard {
		if r.Err == nil {
			break
		}
	}
	if left := pages(t, cfg.JournalDir); len(left) != 0 {
		t.Fatalf("%q are left", left)
	}
}

func TestRunningClientDeliversWhatItLeft(t *testing.T) {
	t.Parallel()
	f := start(t)
	answer := f.settles(failure(events.Unavailable(1)))
	cfg := f.config()
	cfg.JournalDir, cfg.Attempts = t.TempDir(), 1
	heard := make(chan client.Recovered, 100)
	cfg.OnRecovered = func(r client.Recovered) { heard <- r }
	c := f.connectWith(cfg)
	if err := c.Hold(t.Context(), "job", ten(), func(context.Context, *client.Hold) error { return nil }); err == nil {
		t.Fatal("settled")
	}
	answer.Store(body(`{"outcome":"settled","charged":{},"returned":{}}`))
	if r := <-heard; r.Err != nil || r.Key != "job" {
		t.Fatalf("heard %+v", r)
	}
}

func TestOneHoldDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	f := start(t)
	var broken atomic.Bool
	f.broker(map[string]script{"settle": func(_ int, m *nats.Msg) *nats.Msg {
		switch {
		case !broken.Load():
			return failure(events.Unavailable(1))
		case m.Header.Get(events.HeaderKey) == "0":
			return failure(events.Internal("x"))
		}
		return body(`{"outcome":"settled","charged":{},"returned":{}}`)
	}})
	cfg := f.config()
	cfg.JournalDir, cfg.Attempts = t.TempDir(), 1
	c := f.connectWith(cfg)
	for _, key := range []string{"0", "1"} {
		if err := c.Hold(t.Context(), key, ten(), func(context.Context, *client.Hold) error { return nil }); err == nil {
			t.Fatal("settled")
		}
	}
	broken.Store(true)
	if _, err := c.Recover(t.Context()); !errors.Is(err, &events.Error{Code: events.CodeInternal}) {
		t.Fatalf("got %v, want internal", err)
	}
	if left := pages(t, cfg.JournalDir); len(left) != 1 {
		t.Fatalf("%q are left, want the one that met a bug", left)
	}
}

func TestRefusedRecoveryIsToldOnce(t *testing.T) {
	t.Parallel()
	cases := map[string]*nats.Msg{
		"not found":       failure(events.NotFound("reservation")),
		"overrun":         body(`{"outcome":"denied","reason":"overrun"}`),
		"settled already": failure(events.AlreadySettled()),
	}
	for name, refusal := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			answer := f.settles(failure(events.Unavailable(1)))
			cfg := f.config()
			cfg.JournalDir, cfg.Attempts = t.TempDir(), 1
			f.undelivered(cfg)
			answer.Store(refusal)
			for _, want := range []int{1, 0} {
				var heard []client.Recovered
				cfg.OnRecovered = func(r client.Recovered) { heard = append(heard, r) }
				f.connectWith(cfg).Close()
				if len(heard) != want || want == 1 && heard[0].Err == nil {
					t.Fatalf("heard %+v, want %d", heard, want)
				}
			}
			if left := pages(t, cfg.JournalDir); len(left) != 1 || !strings.HasSuffix(left[0], ".refused") {
				t.Fatalf("%q are left", left)
			}
		})
	}
}

func TestCorruptJournalIsSetAside(t *testing.T) {
	t.Parallel()
	f := start(t)
	answer := f.settles(failure(events.Unavailable(1)))
	cfg := f.config()
	cfg.JournalDir, cfg.Attempts = t.TempDir(), 1
	f.undelivered(cfg)
	answer.Store(body(`{"outcome":"settled","charged":{},"returned":{}}`))
	good := pages(t, cfg.JournalDir)[0]
	data, err := os.ReadFile(filepath.Join(cfg.JournalDir, good))
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]string{
		"000.hold": strings.Replace(string(data), `"usd_microcents":7`, `"usd_microcents":8`, 1),
		"001.hold": string(data[:len(data)/2]),
		"002.hold": "",
		// Never renamed, so never relied on.
		"003.hold.tmp": "half",
	}
	for name, text := range bad {
		if err := os.WriteFile(filepath.Join(cfg.JournalDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var heard []client.Recovered
	cfg.OnRecovered = func(r client.Recovered) { heard = append(heard, r) }
	f.connectWith(cfg)
	if len(heard) != 4 || heard[3].Err != nil {
		t.Fatalf("heard %+v", heard)
	}
	for i, r := range heard[:3] {
		if r.Err == nil || !strings.Contains(r.Err.Error(), ".corrupt") {
			t.Errorf("heard %+v", r)
		}
		name := fmt.Sprintf("%03d.hold", i)
		kept, err := os.ReadFile(filepath.Join(cfg.JournalDir, name+".corrupt"))
		if err != nil || string(kept) != bad[name] {
			t.Errorf("kept %q, %v", kept, err)
		}
	}
	if left := pages(t, cfg.JournalDir); len(left) != 3 {
		t.Fatalf("%q are left", left)
	}
}

func TestJournalOfAnotherAgentIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.settles(failure(events.Unavailable(1)))
	cfg := f.config()
	cfg.JournalDir, cfg.Attempts = t.TempDir(), 1
	f.undelivered(cfg)
	f.serve(events.Rpc(org, childAgent, "*"), func(int, *nats.Msg) *nats.Msg { return failure(events.NotFound("reservation")) })
	before := len(f.asked())
	cfg.Token = childToken
	all, err := f.connectWith(cfg).Recover(t.Context())
	if len(all) != 1 || err == nil || !strings.Contains(err.Error(), agent) || len(f.asked()) != before || len(pages(t, cfg.JournalDir)) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
}
