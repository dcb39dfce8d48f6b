package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/checkpoint"
	"tallystick/internal/topology"
)

// The signing key is a file of its own: no worker's credentials hold it.
func TestCheckpointKeyIsInNobodysCredentials(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "creds")
	if _, err := writeCredentials(dir, "127.0.0.1:4222", "jetstream"); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, checkpoint.KeyFile)
	if err := checkpoint.NewKeys(key).Check(); err != nil {
		t.Error(err)
	}
	secret, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, worker := range append(topology.Workers(), topology.Setup) {
		b, err := os.ReadFile(filepath.Join(dir, worker+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, bytes.TrimSpace(secret)) || strings.Contains(string(b), "PRIVATE+KEY") {
			t.Errorf("%s holds the key", worker)
		}
		if has := strings.Contains(string(b), `"audit"`); has != (worker == topology.Reconciler || worker == topology.Setup) {
			t.Errorf("%s: account AUDIT: %v", worker, has)
		}
	}
}
