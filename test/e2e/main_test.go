// Package e2e drives the whole system from outside: the built binary, a bare
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

var binary string //nolint:gochecknoglobals // built once by TestMain

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "tally-e2e")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "tallystick")
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "../../cmd/tallystick")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Printf("build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}
