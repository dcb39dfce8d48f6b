package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tallystick/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func noEnv(string) string { return "" }

func TestLoadPrecedence(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		return map[string]string{"TALLY_NATS_URL": "nats://env:1", "TALLY_REDIS_URL": "redis://env:2", "TALLY_PARTITIONS": "4"}[name]
	}
	c, err := Load("reserver", []string{"--nats", "nats://flag:1"}, env, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.NATSURL != "nats://flag:1" || c.RedisURL != "redis://env:2" || c.Partitions != 4 || c.LogLevel != "info" {
		t.Fatalf("got %+v", c)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"unexpected argument": {"now"},
		"unknown log level":   {"--log-level", "loud"},
		"unknown log format":  {"--log-format", "xml"},
		"partitions must be":  {"--partitions", "0"},
		"no NATS address":     {"--nats", ""},
	}
	for want, args := range cases {
		if _, err := Load("reserver", args, noEnv, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
	bad := func(name string) string {
		if name == "TALLY_PARTITIONS" {
			return "many"
		}
		return ""
	}
	if _, err := Load("reserver", nil, bad, io.Discard); err == nil {
		t.Error("TALLY_PARTITIONS=many is taken")
	}
}

func TestLoadHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, err := Load("settler", []string{"--help"}, noEnv, &out)
	if !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v, want ErrHelp", err)
	}
	for _, want := range []string{"settler", "TALLY_CREDENTIALS", "-redis", "SIGTERM"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help does not mention %s", want)
		}
	}
}

func TestLogsHideTokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	token := "tly_" + strings.Repeat("a1B2c3D", 7)
	for _, format := range []string{"json", "console", "auto"} {
		log := NewLogger(f, "debug", format)
		log.Info().Str("field", token).Err(errors.New("with " + token)).Msg("said " + token)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte(token[4:])) || bytes.Count(b, []byte("tly_[redacted]")) != 9 {
		t.Fatalf("tokens are not hidden: %s", b)
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	h := NewHealth()
	fails := errors.New("is away")
	var redis error
	h.Add("redis", func(context.Context) error { return redis })
	srv, err := ServeHTTP("127.0.0.1:0", h, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+srv.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	if code, _ := get("/readyz"); code != http.StatusOK {
		t.Errorf("ready answers %d", code)
	}
	redis = fails
	code, body := get("/readyz")
	var answer struct {
		Ready    bool
		Problems map[string]string
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	if code != http.StatusServiceUnavailable || answer.Problems["redis"] != "is away" {
		t.Errorf("not ready answers %d %s", code, body)
	}
	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("a process with a lost dependency is alive, but /healthz answers %d", code)
	}
	redis = nil
	h.Drain()
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
		t.Errorf("draining answers %d %s", code, body)
	}
	if code, _ := get("/metrics"); code != http.StatusOK {
		t.Errorf("/metrics answers %d", code)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRedisVersions(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]bool{"7.0.15": true, "7.2.4": true, "8.0.0": true, "10.1": true, "6.2.7": false, "": false, "x.y": false} {
		if atLeast7(v) != want {
			t.Errorf("atLeast7(%q) is %v", v, !want)
		}
	}
}
