package allinone

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func start(t *testing.T, dir string) *System {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := Start(ctx, UpConfig{DataDir: dir, NATSAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUpAnnouncesAndContinues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	path := filepath.Join(dir, "up.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("up.json: %v, mode %v", err, info.Mode())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var a Address
	if err := json.Unmarshal(b, &a); err != nil || a != s.Address() || a.PID != os.Getpid() {
		t.Errorf("up.json is %s (%v), want %+v", b, err, s.Address())
	}
	ready(t, a.HTTPURL)
	if _, err := Start(t.Context(), UpConfig{DataDir: dir, NATSAddr: "127.0.0.1:0", Log: zerolog.Nop()}); err == nil || !strings.Contains(err.Error(), "another tallystick runs") {
		t.Errorf("a second one on the same directory: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the refused start took up.json away: %v", err)
	}
	org(t, a)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("up.json is there after the end: %v", err)
	}

	s = start(t, dir)
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if s.Address().AdminToken == a.AdminToken {
		t.Error("the operator's token survived a restart")
	}
	if _, err := client.ConnectOperator(s.Address().NATSURL, a.AdminToken); err == nil {
		t.Error("the operator's old token still opens the door")
	}
	op, err := client.ConnectOperator(s.Address().NATSURL, s.Address().AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	body, err := op.Do(t.Context(), events.AdminPoolShow, "", map[string]any{"org": "acme"})
	if err != nil || !strings.Contains(string(body), `"cap":77`) {
		t.Errorf("the pool after a restart: %s, %v", body, err)
	}
}

func ready(t *testing.T, url string) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s answers %d (%v)", path, resp.StatusCode, err)
		}
	}
}

func org(t *testing.T, a Address) {
	t.Helper()
	op, err := client.ConnectOperator(a.NATSURL, a.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	if _, err := op.Do(t.Context(), events.AdminOrgCreate, "", map[string]any{"org": "acme"}); err != nil {
		t.Fatal(err)
	}
	_, err = op.Do(t.Context(), events.AdminPoolCreate, "", map[string]any{"org": "acme", "pool": "p", "limits": []any{map[string]any{"unit": "calls", "cap": 77}}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUpSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]UpConfig{
		"no data directory": {NATSAddr: "127.0.0.1:0"},
		"no NATS address":   {DataDir: t.TempDir()},
		"redis address":     {DataDir: t.TempDir(), NATSAddr: "127.0.0.1:0", RedisURL: "http://x"},
	} {
		if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
