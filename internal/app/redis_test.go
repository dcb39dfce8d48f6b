package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/internal/testkit"
)

func TestRedisThatEvictsIsRefused(t *testing.T) {
	t.Parallel()
	for policy, refused := range map[string]bool{"noeviction": false, "allkeys-lru": true, "volatile-ttl": true} {
		srv := testkit.OwnRedis(t, "--maxmemory-policy", policy)
		err := CheckRedis(t.Context(), srv.Client(t))
		if (err != nil) != refused {
			t.Errorf("%s: got %v", policy, err)
		}
		if refused && (!strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), "hint:")) {
			t.Errorf("%s: the refusal does not say what is wrong and what helps: %v", policy, err)
		}
	}
}

func TestAwaitRedisGivesUp(t *testing.T) {
	t.Parallel()
	opt, err := RedisOptions("redis://127.0.0.1:1", "", "")
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opt)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := awaitRedis(ctx, c); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Fatalf("got %v, want an error with a hint", err)
	}
}

func TestRedisOptionsNeverRepeat(t *testing.T) {
	t.Parallel()
	opt, err := RedisOptions("redis://other:secret@127.0.0.1:6379/0", "reserver", "pw")
	if err != nil {
		t.Fatal(err)
	}
	if opt.MaxRetries != -1 || !opt.ContextTimeoutEnabled || !opt.DisableIdentity {
		t.Errorf("a script whose answer is lost could run twice: %+v", opt)
	}
	if opt.Username != "reserver" || opt.Password != "pw" {
		t.Errorf("the worker's own user is not used: %s", opt.Username)
	}
	if _, err := RedisOptions("http://x", "", ""); err == nil {
		t.Error("http:// is taken")
	}
}
