package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/budget"
)

// restoreChunk bounds one pipeline of a rebuild.
const restoreChunk = 500

const fenceField = "fence"

// Fence makes every script of a partition answer unavailable until Unfence.
// Rebuild is its own reason; another fence is taken over.
func (s *Store) Fence(ctx context.Context, partition int, reason string) error {
	return redisError(s.client.HSet(ctx, s.partitions[partition].revoked, fenceField, reason).Err())
}

// Unfence opens a partition again.
func (s *Store) Unfence(ctx context.Context, partition int) error {
	return redisError(s.client.HDel(ctx, s.partitions[partition].revoked, fenceField).Err())
}

// Fenced is the reason of a partition's fence, "" where there is none.
func (s *Store) Fenced(ctx context.Context, partition int) (string, error) {
	reason, err := s.client.HGet(ctx, s.partitions[partition].revoked, fenceField).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return reason, redisError(err)
}

// Wipe removes everything of a fenced partition but its outbox, its anchor and
// the fence.
func (s *Store) Wipe(ctx context.Context, partition int) error {
	k := &s.partitions[partition]
	revoked, err := s.client.HKeys(ctx, k.revoked).Result()
	if err != nil {
		return redisError(err)
	}
	fields := make([]string, 0, len(revoked))
	for _, f := range revoked {
		if f != fenceField {
			fields = append(fields, f)
		}
	}
	if len(fields) == len(revoked) {
		return fmt.Errorf("redisx: partition %d is not fenced", partition)
	}
	if len(fields) > 0 {
		if err := s.client.HDel(ctx, k.revoked, fields...).Err(); err != nil {
			return redisError(err)
		}
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return redisError(cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			return wipeNode(ctx, c, k)
		}))
	}
	return redisError(wipeNode(ctx, s.client, k))
}

// wiped are the key families that a rebuild writes anew, or that do not
// survive one.
var wiped = [...]string{
	"bp", "reservation", "expiring", "lapsing", "live", "opened", "concurrency", "similar", "epoch", "outstanding", "quarantine",
	"tree", "children", "registration",
}

func wipeNode(ctx context.Context, c redis.Cmdable, k *partitionKeys) error {
	var cursor uint64
	for {
		keys, next, err := c.Scan(ctx, cursor, "*:"+k.tag+"*", 1000).Result()
		if err != nil {
			return err
		}
		doomed := keys[:0]
		for _, key := range keys {
			family, _, _ := strings.Cut(key, ":"+k.tag)
			if slices.Contains(wiped[:], family) {
				doomed = append(doomed, key)
			}
		}
		if len(doomed) > 0 {
			if err := c.Unlink(ctx, doomed...).Err(); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// LimitState is everything Redis holds of one limit.
type LimitState struct {
	budget.Counter
	budget.Counters
	Rev, Opens, Closes    int64
	Epsilon, LateWindowMS int64
	OnOverrun, State      string
}

// RestoreLimits writes limits of a fenced partition.
func (s *Store) RestoreLimits(ctx context.Context, partition int, limits []LimitState) error {
	k := &s.partitions[partition]
	return s.inChunks(ctx, len(limits), func(pipe redis.Pipeliner, i int) {
		l := limits[i]
		rev := strconv.FormatInt(l.Rev, 10)
		pipe.HSet(ctx, k.limit(l.Org, l.LimitID), "cap", l.Cap, "adj", l.Adj, "held", l.Held, "spent", l.Spent,
			"withheld", l.Withheld, "rev", rev, "opens", l.Opens, "closes", l.Closes, "state", l.State,
			"epsilon", l.Epsilon, "on_overrun", l.OnOverrun, "late_window", l.LateWindowMS)
		pipe.HSet(ctx, k.opened, fieldOf(l.Org, l.LimitID), rev)
	})
}

// RestoreRecords writes execution records of a fenced partition with what
// hangs on them: deadlines, the holder's live set, slots. Records past their
// retention are left out. It returns how many were written.
func (s *Store) RestoreRecords(ctx context.Context, partition int, records map[string]string) (int, error) {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return 0, redisError(err)
	}
	k := &s.partitions[partition]
	executions := make([]string, 0, len(records))
	for execution := range records {
		executions = append(executions, execution)
	}
	written := 0
	err = s.inChunks(ctx, len(executions), func(pipe redis.Pipeliner, i int) {
		if restoreRecord(ctx, pipe, k, executions[i], records[executions[i]], now) {
			written++
		}
	})
	return written, err
}

func restoreRecord(ctx context.Context, pipe redis.Pipeliner, k *partitionKeys, execution, text string, now time.Time) bool {
	r, err := ParseRecord(text)
	if err != nil {
		pipe.HSet(ctx, k.quarantine, execution, "record_corrupt")
		return false
	}
	var kept time.Duration // 0 is for ever
	switch r.State {
	case budget.StateHeld:
		deadline := float64(r.ExpiresAt.UnixMilli())
		live := k.live(r.Org, r.Agent)
		pipe.ZAdd(ctx, live, redis.Z{Score: deadline, Member: execution})
		pipe.ZAddLT(ctx, k.expiring, redis.Z{Score: deadline, Member: live})
		for _, slot := range r.Slots {
			pipe.ZAdd(ctx, k.slot(r.Org, slot.Pool, slot.Pattern), redis.Z{Score: deadline, Member: execution})
		}
	case budget.StateExpired:
		kept = r.ExpiresAt.Add(budget.UnsettledKept).Sub(now)
		if r.Withheld() {
			kept = max(kept, r.Till.Add(time.Hour).Sub(now)) // never gone before it lapses
			pipe.ZAdd(ctx, k.lapsing, redis.Z{Score: float64(r.Till.UnixMilli()), Member: execution})
		}
	case budget.StateLapsed:
		kept = r.Till.Add(budget.UnsettledKept).Sub(now)
	default:
		kept = r.Till.Add(budget.ResolvedKept).Sub(now)
	}
	if kept < 0 {
		return false
	}
	pipe.Set(ctx, k.record(execution), text, kept)
	return true
}

// Withheld reports whether an expired record's amounts are withheld until its
// late window ends, rather than charged.
func (r Record) Withheld() bool {
	return r.State == budget.StateExpired && len(r.Resolution) > 1 && r.Resolution[0] == "expire" && r.Resolution[1] == "1"
}

// RestoreRevoked writes the revoked agents of a fenced partition with the time
// of their end.
func (s *Store) RestoreRevoked(ctx context.Context, partition int, agents map[string]time.Time) error {
	if len(agents) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(agents))
	for agent, at := range agents {
		args = append(args, agent, strconv.FormatInt(at.UnixMilli(), 10))
	}
	return redisError(s.client.HSet(ctx, s.partitions[partition].revoked, args...).Err())
}

// AdvanceOutbox makes an outbox give out only ids above id, so that no new
// entry looks older than what is on the ledger, and writes the anchor.
func (s *Store) AdvanceOutbox(ctx context.Context, partition int, a Anchor) error {
	k := &s.partitions[partition]
	if a.Position != "" {
		// The group makes an empty stream where there is none.
		err := s.client.XGroupCreateMkStream(ctx, k.outbox, "rebuild", "$").Err()
		if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
			return redisError(err)
		}
		if err := s.client.XGroupDestroy(ctx, k.outbox, "rebuild").Err(); err != nil {
			return redisError(err)
		}
		info, err := s.client.XInfoStream(ctx, k.outbox).Result()
		if err != nil {
			return redisError(err)
		}
		if idLess(info.LastGeneratedID, a.Position) {
			if err := s.client.Do(ctx, "XSETID", k.outbox, a.Position).Err(); err != nil {
				return redisError(err)
			}
		}
	}
	return redisError(s.client.HSet(ctx, k.scribe, "position", a.Position,
		"stream_seq", strconv.FormatUint(a.StreamSeq, 10), "hash", a.Hash).Err())
}

func idLess(a, b string) bool {
	ams, aseq := idParts(a)
	bms, bseq := idParts(b)
	return ams < bms || ams == bms && aseq < bseq
}

func idParts(id string) (ms, seq uint64) {
	a, b, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(a, 10, 64)
	seq, _ = strconv.ParseUint(b, 10, 64)
	return ms, seq
}

func (s *Store) inChunks(ctx context.Context, n int, add func(pipe redis.Pipeliner, i int)) error {
	for start := 0; start < n; start += restoreChunk {
		pipe := s.client.Pipeline()
		for i := start; i < min(n, start+restoreChunk); i++ {
			add(pipe, i)
		}
		if pipe.Len() == 0 {
			continue
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return redisError(err)
		}
	}
	return nil
}
