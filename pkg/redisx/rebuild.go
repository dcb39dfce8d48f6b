package redisx

import (
	"context"
	"errors"
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

// LimitState is everything Redis holds of one limit.
type LimitState struct {
	budget.Counter
	budget.Counters
	Rev, Opens, Closes    int64
	Epsilon, LateWindowMS int64
	OnOverrun, State      string
}

// Limits writes limits.
func (r *Restore) Limits(ctx context.Context, limits []LimitState) error {
	k := r.keys
	return r.inChunks(ctx, len(limits), func(pipe redis.Pipeliner, i int) {
		l := limits[i]
		rev := strconv.FormatInt(l.Rev, 10)
		pipe.HSet(ctx, k.limit(l.Org, l.LimitID), "cap", l.Cap, "adj", l.Adj, "held", l.Held, "spent", l.Spent,
			"withheld", l.Withheld, "rev", rev, "opens", l.Opens, "closes", l.Closes, "state", l.State,
			"epsilon", l.Epsilon, "on_overrun", l.OnOverrun, "late_window", l.LateWindowMS)
		pipe.HSet(ctx, k.opened, fieldOf(l.Org, l.LimitID), rev)
	})
}

// Restored counts what a restore of records has written of one org.
type Restored struct {
	Records, Held, Slots int
}

// Records writes execution records with what hangs on them: deadlines, the
// holder's live set, slots. Records past their retention are left out.
func (r *Restore) Records(ctx context.Context, records map[string]string) (byOrg map[string]*Restored, err error) {
	now, err := r.store.client.Time(ctx).Result()
	if err != nil {
		return nil, redisError(err)
	}
	executions := make([]string, 0, len(records))
	for execution := range records {
		executions = append(executions, execution)
	}
	kept := make([]*Record, len(executions)) // a chunk may be queued again
	err = r.inChunks(ctx, len(executions), func(pipe redis.Pipeliner, i int) {
		kept[i] = restoreRecord(ctx, pipe, r.keys, executions[i], records[executions[i]], now)
	})
	byOrg = map[string]*Restored{}
	for _, record := range kept {
		if record == nil {
			continue
		}
		n := byOrg[record.Org]
		if n == nil {
			n = &Restored{}
			byOrg[record.Org] = n
		}
		n.Records++
		if record.State == budget.StateHeld {
			n.Held++
			n.Slots += len(record.Slots)
		}
	}
	return byOrg, err
}

func restoreRecord(ctx context.Context, pipe redis.Pipeliner, k *partitionKeys, execution, text string, now time.Time) *Record {
	r, err := ParseRecord(text)
	if err != nil {
		pipe.HSet(ctx, k.quarantine, execution, "record_corrupt")
		return nil
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
		return nil
	}
	pipe.Set(ctx, k.record(execution), text, kept)
	return &r
}

// Withheld reports whether an expired record's amounts are withheld until its
// late window ends, rather than charged.
func (r Record) Withheld() bool {
	return r.State == budget.StateExpired && len(r.Resolution) > 1 && r.Resolution[0] == "expire" && r.Resolution[1] == "1"
}

// Revoked writes the revoked agents with the time of their end.
func (r *Restore) Revoked(ctx context.Context, agents map[string]time.Time) error {
	if len(agents) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(agents))
	for agent, at := range agents {
		args = append(args, agent, strconv.FormatInt(at.UnixMilli(), 10))
	}
	return r.write(ctx, func(pipe redis.Pipeliner) { pipe.HSet(ctx, r.keys.revoked, args...) })
}

// Outbox makes an outbox give out only ids above id, so that no new
// entry looks older than what is on the ledger, and writes the anchor.
func (r *Restore) Outbox(ctx context.Context, a Anchor) error {
	last, outbox := "0-0", r.keys.outbox
	info, err := r.store.client.XInfoStream(ctx, outbox).Result()
	if err != nil && !isNoSuchKey(err) {
		return redisError(err)
	}
	if err == nil {
		last = info.LastGeneratedID
	}
	return r.write(ctx, func(pipe redis.Pipeliner) {
		if a.Position != "" && idLess(last, a.Position) {
			// The group makes an empty stream where there is none.
			pipe.XGroupCreateMkStream(ctx, outbox, "rebuild", "$")
			pipe.XGroupDestroy(ctx, outbox, "rebuild")
			pipe.Do(ctx, "XSETID", outbox, a.Position)
		}
		pipe.HSet(ctx, r.keys.scribe, "position", a.Position, "stream_seq", strconv.FormatUint(a.StreamSeq, 10), "hash", a.Hash)
	})
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

func (r *Restore) inChunks(ctx context.Context, n int, add func(pipe redis.Pipeliner, i int)) error {
	for start := 0; start < n; start += restoreChunk {
		err := r.write(ctx, func(pipe redis.Pipeliner) {
			for i := start; i < min(n, start+restoreChunk); i++ {
				add(pipe, i)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
