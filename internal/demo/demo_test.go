package demo

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tallystick/internal/allinone"
)

// The demo is the project's first promise to a reader: every line of it must
// come out kept, and soon.
func TestDemoKeepsItsPromises(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sys, err := allinone.Start(ctx, allinone.UpConfig{DataDir: t.TempDir(), NATSAddr: "127.0.0.1:0", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sys.Stop(); err != nil {
			t.Error(err)
		}
	}()
	a := sys.Address()
	var out bytes.Buffer
	if err := Run(ctx, Config{NATSURL: a.NATSURL, RedisURL: a.RedisURL, AdminToken: a.AdminToken, Out: &out}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !bytes.Contains(out.Bytes(), []byte("All 11 promises were kept.")) {
		t.Errorf("the demo told another story:\n%s", out.String())
	}
}

func TestBrokenPromiseFails(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &story{cfg: Config{Out: &out}}
	s.promise(true, "a", "fine")
	s.promise(false, "b", "not")
	if err := s.table(); !errors.Is(err, ErrBroken) || !bytes.Contains(out.Bytes(), []byte("1 of 2 promises")) {
		t.Errorf("got %v: %s", err, out.String())
	}
}
