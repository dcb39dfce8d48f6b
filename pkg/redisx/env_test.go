package redisx

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"tallystick/internal/testkit"
)

// row is one outcome of a script: what is done, what is answered, and all that
// Redis holds afterwards.
type row struct {
	name  string
	do    func(*bench) string
	want  string
	state string
}

// everywhere runs a test on a plain server, as a user who may touch nothing but
// the keys each script declares, and on a cluster of three, which refuses keys
// of another slot and, from its client, whatever is sent to the wrong node.
func everywhere(t *testing.T, test func(t *testing.T, fresh func(testing.TB) *bench)) {
	// Held here, so that no server ends between two of the tests below.
	testkit.Redis(t)
	testkit.Cluster(t)
	for name, fresh := range map[string]func(testing.TB) *bench{
		"plain": newBench, "own keys": newNarrowBench, "cluster": newClusterBench,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh)
		})
	}
}

// runRows runs each row everywhere.
func runRows(t *testing.T, rows []row) {
	everywhere(t, func(t *testing.T, fresh func(testing.TB) *bench) {
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				b := fresh(t)
				if got := r.do(b); got != r.want {
					t.Errorf("answer %q, want %q", got, r.want)
				}
				if got := b.state(); got != r.state {
					t.Errorf("state\n%s, want\n%s", got, r.state)
				}
			})
		}
	})
}

func newClusterBench(t testing.TB) *bench { return newBenchOn(t, testkit.Cluster(t)) }

// newNarrowBench is a bench whose scripts run as users limited to the declared
// keys of each call, and the test's clock.
func newNarrowBench(t testing.TB) *bench {
	b := newBench(t)
	narrow := &narrowHook{admin: testkit.Redis(t), user: "u" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	narrow.limited = testkit.Redis(t).Conn()
	t.Cleanup(func() { _ = narrow.limited.Close() })
	client := testkit.Redis(t)
	client.AddHook(narrow)
	store, err := New(Config{Client: client, Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.store = store
	return b
}

type narrowHook struct {
	mu      sync.Mutex
	admin   *redis.Client
	limited *redis.Conn
	user    string
}

func (h *narrowHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *narrowHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *narrowHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" {
			return next(ctx, cmds)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, cmd := range cmds {
			c := cmd.(*redis.Cmd)
			v, err := h.run(ctx, c.Args())
			c.SetVal(v)
			c.SetErr(err)
		}
		return nil
	}
}

func (h *narrowHook) run(ctx context.Context, args []any) (any, error) {
	rule := []any{"ACL", "SETUSER", h.user, "reset", "on", ">x", "+@all", "~clock:*"}
	count := args[2].(int)
	for _, key := range args[3 : 3+count] {
		rule = append(rule, fmt.Sprint("~", key))
	}
	if err := h.admin.Do(ctx, rule...).Err(); err != nil {
		return nil, err
	}
	if err := h.limited.Do(ctx, "AUTH", h.user, "x").Err(); err != nil {
		return nil, err
	}
	return h.limited.Do(ctx, args...).Result()
}
