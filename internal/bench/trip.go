package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/redisx"
)

const (
	rowTripUnix = "one EVALSHA at a time, unix socket"
	rowTripTCP  = "one EVALSHA at a time, TCP"
)

// roundTrips measures one call at a time through go-redis, which is what a
// door alone is compared with.
func (b *run) roundTrips(ctx context.Context) error {
	for _, way := range []struct{ name, network, addr string }{
		{rowTripUnix, "unix", b.redis.socket}, {rowTripTCP, "tcp", b.redis.addr},
	} {
		if err := b.redis.reset(ctx); err != nil {
			return err
		}
		client := redis.NewClient(b.redis.options(way.network, way.addr))
		var windows []window
		for range b.cfg.Windows {
			w, err := b.roundTrip(ctx, client)
			if err != nil {
				_ = client.Close()
				return err
			}
			windows = append(windows, w)
		}
		if err := client.Close(); err != nil {
			return err
		}
		b.add(rowOf("raw Redis", way.name, 1, windows))
	}
	return nil
}

func (b *run) roundTrip(ctx context.Context, client *redis.Client) (window, error) {
	var w window
	before, err := redisCPU(ctx, b.redis.client)
	if err != nil {
		return w, err
	}
	own, took := ownCPU(), make([]time.Duration, 0, 1<<15)
	for start := time.Now(); time.Since(start) < b.cfg.Window; {
		c := b.redis.command(b.redis.nextKey())
		sent := time.Now()
		if err := evalsha(ctx, client, c); err != nil {
			return w, err
		}
		took = append(took, time.Since(sent))
		w.took = time.Since(start)
	}
	w.client = ownCPU() - own
	after, err := redisCPU(ctx, b.redis.client)
	if err != nil {
		return w, err
	}
	slices.Sort(took)
	w.count, w.store = len(took), after-before
	w.p50, w.p99 = quantile(took, 0.5), quantile(took, 0.99)
	return w, nil
}

func evalsha(ctx context.Context, client *redis.Client, c redisx.Command) error {
	args := make([]any, len(c.Args))
	for i, a := range c.Args {
		args[i] = a
	}
	reply, err := client.EvalSha(ctx, c.SHA, c.Keys, args...).StringSlice()
	if err == nil && (len(reply) == 0 || reply[0] != "allowed") {
		err = fmt.Errorf("the script answered %q", reply)
	}
	return err
}
