package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	"tallystick/pkg/events"
)

const redisData = "redis"

// aof is the file that Redis appends to, and its size.
func (s *system) aof() (path string, size int64) {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, redisData, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		s.Fatalf("AOF: %v, %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		s.Fatal(err)
	}
	return files[0], info.Size()
}

// rebuilt is the newest event of an org's rebuilds, as the stream EVENTS has
// it on disk, where it is not compressed: nobody outside the workers may read it.
func (s *system) rebuilt(org string) (found events.PartitionRebuilt) {
	s.Helper()
	pattern := regexp.MustCompile(`\{"v":1,"type":"tally\.event\.v1\.partition_rebuilt","id":"[^"]*","org":"` + org + `".*?"duration_ms":\d+\}`)
	s.eventually("the event of the rebuild", 30*time.Second, func() error {
		n := 0
		err := filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".blk" || filepath.Base(filepath.Dir(filepath.Dir(path))) != "EVENTS" {
				return nil //nolint:nilerr // the server makes and removes files
			}
			block, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, text := range pattern.FindAll(block, -1) {
				if err := json.Unmarshal(text, &found); err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err == nil && n == 0 {
			err = fmt.Errorf("none of %s", org)
		}
		return err
	})
	return found
}

// acknowledged is what an agent was told.
type acknowledged struct {
	verb, key string
	body, out object
}

// history is what an agent did, with what that should have left.
type history struct {
	*agent
	acked       []acknowledged
	parts       int
	held, spent int64
}

func (h *history) do(want, verb, key string, body object) {
	h.Helper()
	h.acked = append(h.acked, acknowledged{verb, key, body, h.tells(want, verb, key, body)})
}

// work does some of everything, and waits until the ledger has it.
func (h *history) work(part string) {
	h.Helper()
	for i := range 6 {
		key := fmt.Sprint(part, i)
		h.do("allowed", "reserve", key, reserve(10))
		switch i {
		case 0, 1:
			h.do("settled", "settle", "s"+key, object{"key": key, "actual": usd(7)})
			h.spent += 7
		case 2:
			h.do("released", "release", "r"+key, object{"key": key})
		default:
			h.held += 10
		}
	}
	h.do("charged", "charge", part, object{"actual": usd(3)})
	h.spent += 3
	h.parts++
	h.carried(h.Org, "charged", h.parts)
}

// again repeats everything: each answer is what it was, and nothing is spent
// or held twice.
func (h *history) again() {
	h.Helper()
	for _, was := range h.acked {
		out := h.honest(told(was.out), was.verb, was.key, was.body)
		for _, moment := range []string{"pools", "expires_in_ms"} { // not in a replay
			delete(was.out, moment)
			delete(out, moment)
		}
		if !reflect.DeepEqual(out, was.out) {
			h.Errorf("%s %s was answered %v, now %v", was.verb, was.key, was.out, out)
		}
	}
	equal(h.TB, "figures", h.figures(), fmt.Sprintf("held %d spent %d withheld 0", h.held, h.spent))
}

func (s *system) history() *history {
	s.Helper()
	org := s.org()
	s.pool(org, "p", 1_000_000)
	return &history{agent: s.agent(org, "p")}
}

// repaired: the loss was noticed and repaired without anybody's help, and told.
func (h *history) repaired(wantLost map[string]int64) {
	h.Helper()
	e := h.rebuilt(h.Org)
	if e.Reason != events.RebuildLost || !reflect.DeepEqual(e.Lost.Kinds, wantLost) || e.Restored.Reservations == 0 {
		h.Errorf("the event: %+v, want lost %v", e, wantLost)
	}
	h.eventually("the entry of the rebuild", 10*time.Second, func() error {
		for _, e := range h.entries(h.Org) {
			if e.Kind == "administered" && e.Action == "rebuild" && e.By == "reconciler" {
				return nil
			}
		}
		return fmt.Errorf("none")
	})
	h.lawful(h.Org)
}

// oneWork is what one part of a history leaves on the ledger.
func oneWork() map[string]int64 {
	return map[string]int64{"reserved": 6, "settled": 2, "released": 1, "charged": 1}
}

// TestPowerLossAOFTail: the end of what Redis appended never reached the disk.
func TestPowerLossAOFTail(t *testing.T) {
	t.Parallel()
	s := start(t)
	h := s.history()
	h.work("before")
	path, whole := s.aof()
	h.work("lost")
	s.powerOff()
	h.nc.Close()
	if err := os.Truncate(path, whole+5); err != nil { // in the middle of a command
		t.Fatal(err)
	}
	s.up()
	h.dial()
	h.again()
	h.repaired(oneWork())
}

// TestPowerLossOlderRedis: an older copy of Redis's data is put back.
func TestPowerLossOlderRedis(t *testing.T) {
	t.Parallel()
	s := start(t)
	h := s.history()
	h.work("before")
	kept := s.copied(redisData)
	h.work("lost")
	s.powerOff()
	h.nc.Close()
	s.restore(kept, redisData)
	s.up()
	h.dial()
	h.again()
	h.repaired(oneWork())
}

// TestPowerLossNoRedis: Redis's disk is gone.
func TestPowerLossNoRedis(t *testing.T) {
	t.Parallel()
	s := start(t)
	h := s.history()
	h.work("lost")
	s.powerOff()
	h.nc.Close()
	s.restore(t.TempDir(), redisData)
	s.up()
	h.dial()
	h.again()
	if e := s.rebuilt(h.Org); e.Reason != events.RebuildEmptied || e.Lost.Kinds["reserved"] != 6 {
		t.Errorf("the event: %+v", e)
	}
	h.lawful(h.Org)
}
