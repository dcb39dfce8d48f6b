// Package e2e drives the whole system from outside: the built binaries, a bare
// NATS client, a bare Redis client and the command line.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var binaries string //nolint:gochecknoglobals // built once by TestMain

// built is the path of a binary of this module, or of the nats-server that
// its go.mod names.
func built(name string) string { return filepath.Join(binaries, name) }

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "tally-e2e")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		binaries = dir
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "../../cmd/...", "../../examples/...", "github.com/nats-io/nats-server/v2")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Printf("build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}
