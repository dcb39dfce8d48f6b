package redisx

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the expanded scripts to testdata") //nolint:gochecknoglobals // flag

// TestGoldenScripts: what Redis is sent. A golden that changed in a diff says
// that a deployed script gets another SHA. A missing one fails.
func TestGoldenScripts(t *testing.T) {
	t.Parallel()
	scripts, err := loadScripts("")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range scripts {
		path := filepath.Join("testdata", name+".golden.lua")
		if *update {
			if err := os.WriteFile(path, []byte(s.source), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%s: %v; run: go test ./pkg/redisx -run Golden -update", name, err)
		} else if string(want) != s.source {
			t.Errorf("%s.lua differs from %s; if that is meant, run: go test ./pkg/redisx -run Golden -update", name, path)
		}
	}
}
