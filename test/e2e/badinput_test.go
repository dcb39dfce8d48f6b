package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadInput sends every invalid sample of the contract over the wire: each
// is answered with an error that names what is wrong, and nothing changes.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	a.call("reserve", "held", reserve(10))
	const samples = "../../pkg/events/testdata/invalid"
	sent := 0
	for _, verb := range []string{"reserve", "settle", "release", "extend", "charge", "balance", "reservation", "whoami"} {
		files, err := filepath.Glob(filepath.Join(samples, verb+"--*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("samples of %s: %d, %v", verb, len(files), err)
		}
		for _, file := range files {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sent++
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			a.refuses(t, name, "rpc", verb, name, string(body))
			if verb != "balance" && verb != "reservation" && verb != "whoami" {
				a.refuses(t, name, "cmd", verb, name, string(body))
			}
		}
	}
	for name, key := range map[string]string{
		"none": "", "long": strings.Repeat("k", 256), "NUL": "a\x00b", "bad UTF-8": "a\xffb", "outer space": "\u00a0k",
	} {
		for _, door := range []string{"rpc", "cmd"} {
			a.refuses(t, "key "+name, door, "reserve", key, `{"amounts":{"usd_microcents":1}}`)
		}
	}
	t.Logf("%d samples sent", sent)
	if got := a.figures(); got != "held 10 spent 0 withheld 0" {
		t.Errorf("after bad input: %s", got)
	}
	s.lawful(org)
}

// refuses: a request is answered with an error of the input's kind.
func (a *agent) refuses(t *testing.T, name, door, verb, key, body string) {
	t.Helper()
	reply, err := a.nc.RequestMsg(a.message(door, verb, key, body), requestTimeout)
	if err != nil {
		t.Errorf("%s at %s: %v", name, door, err)
		return
	}
	code := reply.Header.Get("Nats-Service-Error-Code")
	switch code {
	case "invalid_argument", "broker_argument", "payload_too_large", "unit_unknown", "unit_missing":
	default:
		t.Errorf("%s at %s: %q %s", name, door, code, reply.Data)
	}
}
