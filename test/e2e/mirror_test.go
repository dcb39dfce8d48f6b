package e2e

import (
	"fmt"
	"testing"
	"time"
)

// The mirror in account AUDIT holds what the ledger holds, and verifies by
// itself.
func TestMirror(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.register(org, "p")
	if doc, code, text := a.run("charge", "--key", "c", "--actual", "usd_microcents=1"); code != 0 {
		t.Fatalf("charge: %v: %s", doc, text)
	}
	want := 0
	s.eventually("the mirror has the charge and all before", 20*time.Second, func() error {
		want = len(s.entries(org))
		mirrored := s.entries(org, "--mirror")
		if n := len(mirrored); n == 0 || n != want || mirrored[n-1].Kind != "charged" {
			return fmt.Errorf("%d of %d entries", n, want)
		}
		return nil
	})
	doc, code, text := s.run("ledger", "verify", "--mirror", "--org", org)
	if code != 0 || doc["verdict"] != "ok" || doc["entries"] != float64(want) {
		t.Errorf("verify: exit %d: %s", code, text)
	}
	if _, code, _ := s.run("ledger", "verify", "--mirror", "--file", "x"); code != 2 {
		t.Errorf("--mirror with --file: exit %d", code)
	}
}
