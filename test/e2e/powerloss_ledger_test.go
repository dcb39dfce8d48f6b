package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stores are the parts of a data directory that a disk could lose: both
// stores. The anchor file is not among them.
const (
	natsStore  = "nats"
	redisStore = "redis"
)

// keep copies a store while nothing runs.
func (s *system) keep(store string) (copied string) {
	s.Helper()
	copied = filepath.Join(s.TempDir(), store)
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(s.dir, store))); err != nil {
		s.Fatal(err)
	}
	return copied
}

// putBack replaces a store by an older copy of it.
func (s *system) putBack(store, copied string) {
	s.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, store)); err != nil {
		s.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(s.dir, store), os.DirFS(copied)); err != nil {
		s.Fatal(err)
	}
}

// down stops the system and waits.
func (s *system) down() {
	s.Helper()
	s.signal(syscall.SIGTERM)
}

// spend settles n charges and waits until the ledger has them.
func (a *agent) spend(first, n int) {
	a.Helper()
	for i := range n {
		key := fmt.Sprint("spend-", first+i)
		a.eventually(key, 20*time.Second, func() error {
			if out := a.call("charge", key, object{"actual": usd(1)}); told(out) != "charged" {
				return fmt.Errorf("%v", out)
			}
			return nil
		})
	}
	last := fmt.Sprint("spend-", first+n-1)
	a.eventually("on the ledger", 20*time.Second, func() error {
		if all := a.entries(a.Org); len(all) == 0 || all[len(all)-1].Key != last {
			return fmt.Errorf("%d entries", len(all))
		}
		return nil
	})
}

// signed writes the checkpoint of what the ledger has now to a file outside.
func (s *system) signed(org string) (path string) {
	s.Helper()
	text, _ := s.must("ledger", "checkpoint", "--org", org, "--now")["checkpoint"].(string)
	path = filepath.Join(s.TempDir(), "checkpoint")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil || text == "" {
		s.Fatal(err, text)
	}
	return path
}

// TestOlderLedgerStore: the JetStream store of an earlier time comes back
// under a newer Redis. The ledger is refilled by itself, bit by bit.
func TestOlderLedgerStore(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	a.spend(0, 5)
	s.down()
	older := s.keep(natsStore)
	s.up()
	a.dial()
	a.spend(5, 20)
	a.call("reserve", "held", reserve(7))
	s.lawful(org)
	checkpoint := s.signed(org)
	s.down()
	s.putBack(natsStore, older)
	s.up()
	s.lawful(org)
	doc, code, text := s.run("ledger", "verify", "--org", org, "--against", checkpoint)
	if code != 0 || doc["verdict"] != "ok" {
		t.Errorf("verify against the checkpoint of before: exit %d: %s", code, text)
	}
	a.dial()
	if out := a.call("settle", "s", object{"key": "held", "actual": usd(7)}); told(out) != "settled" {
		t.Error(out)
	}
	if got := a.figures(); got != "held 0 spent 32 withheld 0" {
		t.Error(got)
	}
	s.lawful(org)
}

// TestBothStoresOlder: only the anchor file tells. The scribe halts with the
// reason; behind an accepted loss everything goes on from the older time.
func TestBothStoresOlder(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	a.spend(0, 5)
	s.down()
	ledger, redis := s.keep(natsStore), s.keep(redisStore)
	s.up()
	a.dial()
	a.spend(5, 20)
	checkpoint := s.signed(org)
	s.down()
	s.putBack(natsStore, ledger)
	s.putBack(redisStore, redis)
	s.up()
	s.halts(org)
	s.accept(org, checkpoint)
	a.dial()
	if got := a.figures(); got != "held 0 spent 5 withheld 0" {
		t.Error(got)
	}
	a.spend(100, 3)
}

// halts waits until the halt is on record, which is when it can be accepted.
func (s *system) halts(org string) {
	s.Helper()
	s.eventually("halted", 20*time.Second, func() error {
		_, code, text := s.run("ledger", "accept-loss", "--org", "no-such-org", "--reason", "looking")
		if code == 2 && strings.Contains(text, org) {
			return nil
		}
		return fmt.Errorf("exit %d: %s", code, text)
	})
}

// accept accepts the loss: drift is 0, and verify names the gap.
func (s *system) accept(org, checkpoint string) {
	s.Helper()
	s.must("ledger", "accept-loss", "--all", "--reason", "a test lost it")
	s.eventually("drift 0", 20*time.Second, func() error {
		if doc, code, text := s.run("reconcile", "--once", "--org", org); code != 0 || doc["verdict"] != "ok" {
			return fmt.Errorf("exit %d: %s", code, text)
		}
		return nil
	})
	s.eventually("a gap", 20*time.Second, func() error {
		doc, code, text := s.run("ledger", "verify", "--org", org, "--against", checkpoint)
		if code != 8 || doc["verdict"] != "gap" {
			return fmt.Errorf("exit %d: %s", code, text)
		}
		return nil
	})
}

// flip turns one bit in the last block of the ledger, at a part of its length.
func (s *system) flip(part float64) {
	s.Helper()
	blocks, err := filepath.Glob(filepath.Join(s.dir, natsStore, "jetstream", "*", "streams", "LEDGER", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		s.Fatalf("no block of the ledger: %v", err)
	}
	path := blocks[len(blocks)-1]
	b, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	b[int(part*float64(len(b)))] ^= 0x10
	if err := os.WriteFile(path, b, 0o600); err != nil {
		s.Fatal(err)
	}
}

// TestFlippedBitInTheMiddle: one entry is gone, the end is there. Reconcile
// says by how much, verify which one, and no checkpoint is signed.
func TestFlippedBitInTheMiddle(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	a.spend(0, 25)
	checkpoint := s.signed(org)
	s.down()
	s.flip(0.5)
	s.up()
	s.eventually("detected", 20*time.Second, func() error {
		doc, code, text := s.run("ledger", "verify", "--org", org, "--against", checkpoint)
		if code != 8 || doc["verdict"] != "missing" {
			return fmt.Errorf("verify: exit %d: %s", code, text)
		}
		if _, code, text := s.run("reconcile", "--once", "--org", org); code != 8 || !strings.Contains(text, `"drift":1`) {
			return fmt.Errorf("reconcile: exit %d: %s", code, text)
		}
		return nil
	})
	if _, code, text := s.run("ledger", "checkpoint", "--org", org, "--now"); code == 0 {
		t.Errorf("it was signed: %s", text)
	}
}
