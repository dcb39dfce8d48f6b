package redisx

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// overdue runs the script on the bench's agent.
func (b *bench) overdue(most int64) string {
	b.Helper()
	p := b.store.Partition(b.org)
	c := &overdueCall{store: b.store, partition: p, live: b.store.keysOf(b.org).live(b.org, b.agent.ID), most: most}
	b.store.one(b.Context(), c)
	if c.err != nil {
		b.Fatal(c.err)
	}
	return fmt.Sprint(len(c.due))
}

// bound is what expiring says of the bench's agent, against its clock.
func (b *bench) bound() string {
	b.Helper()
	k := b.store.keysOf(b.org)
	score, err := b.client.ZScore(b.Context(), k.expiring, k.live(b.org, b.agent.ID)).Result()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+d", int64(score)-b.nowMS)
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	runRows(t, []row{
		{"the oldest first, as many as asked", func(b *bench) string {
			p := b.pool("p", PolicyLimit{Cap: 100})
			for range 3 {
				b.hold(10, p)
			}
			b.advance(time.Minute)
			return b.overdue(2) + " " + b.overdue(5) + " " + b.bound()
		}, "2 3 +0", "expiring +0; expiring +0; expiring +0; live 3; opened p; p cap 100 held 30 spent 0 withheld 0; record held; record held; record held; entries policy_changed reserved reserved reserved"},
		{"put back to the next deadline", func(b *bench) string {
			p := b.pool("p", PolicyLimit{Cap: 100})
			h := b.hold(10, p)
			b.advance(30 * time.Second)
			b.hold(10, p)
			out := told(b.settle(b.settleArgs(h, 10))) + " " + b.bound()
			b.advance(30 * time.Second)
			return out + " " + b.overdue(5) + " " + b.bound()
		}, "settled charged usd_microcents=10 returned usd_microcents=0 +30000 0 +30000", "expiring +30000; live 1; opened p; p cap 100 held 10 spent 10 withheld 0; record held; record settled 24h; entries policy_changed reserved reserved settled"},
		{"out of the index", func(b *bench) string {
			h := b.hold(10, b.pool("p", PolicyLimit{Cap: 100}))
			b.settleArgs(h, 10)
			out := told(b.settle(b.settleArgs(h, 10)))
			return out + " " + b.overdue(5) + " " + b.bound()
		}, "settled charged usd_microcents=10 returned usd_microcents=0 0 " + redis.Nil.Error(), "opened p; p cap 100 held 0 spent 10 withheld 0; record settled 24h; entries policy_changed reserved settled"},
		{"an earlier deadline moves it forward, a later one does not", func(b *bench) string {
			p := b.pool("p", PolicyLimit{Cap: 100})
			out := ""
			for _, ttl := range []time.Duration{time.Minute, 10 * time.Second, 2 * time.Minute} {
				a := b.reserveArgs(b.key(), 10, p)
				a.TTL = ttl
				if _, err := b.reserve(a); err != nil {
					b.Fatal(err)
				}
				out += b.bound() + " "
			}
			return out
		}, "+60000 +10000 +10000 ", "expiring +10000; expiring +120000; expiring +60000; live 3; opened p; p cap 100 held 30 spent 0 withheld 0; record held; record held; record held; entries policy_changed reserved reserved reserved"},
	})
}

// TestNobodyIsForgotten: whatever is done in whatever order, what is held and
// overdue is found, and the index never says later than the first deadline.
func TestNobodyIsForgotten(t *testing.T) {
	t.Parallel()
	shared := newBench(t)
	limit := shared.pool("p", PolicyLimit{Cap: 1 << 40})
	rapid.Check(t, func(rt *rapid.T) {
		b := *shared
		b.agent.ID = uuid.NewString()
		held := map[string]ReserveArgs{}
		deadline := map[string]int64{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "action") {
			case 0, 1:
				a := b.reserveArgs(b.key(), 1, limit)
				a.Execution = uuid.NewString()
				a.TTL = time.Duration(rapid.IntRange(1, 100).Draw(rt, "ttl")) * time.Second
				if d, err := b.reserve(a); err != nil || d.Denial != nil {
					rt.Fatal(d, err)
				}
				held[a.Execution], deadline[a.Execution] = a, b.nowMS+a.TTL.Milliseconds()
			case 2:
				for id, a := range held {
					if _, err := b.settle(b.settleArgs(a, 1)); err != nil {
						rt.Fatal(err)
					}
					delete(held, id)
					break
				}
			case 3:
				b.overdue(100)
			}
			first, ok := int64(0), false
			for id := range held {
				if !ok || deadline[id] < first {
					first, ok = deadline[id], true
				}
			}
			k := b.store.keysOf(b.org)
			score, err := b.client.ZScore(b.Context(), k.expiring, k.live(b.org, b.agent.ID)).Result()
			if ok && (err != nil || int64(score) > first) {
				rt.Fatalf("the first deadline is %d, the index says %v, %v", first, score, err)
			}
		}
	})
}
