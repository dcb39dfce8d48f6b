package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	lockExpiry = 5 * time.Second
	lockRetry  = time.Millisecond
	handCall   = 10 * time.Second
)

// unlockScript frees a lock only while it is still the caller's.
const unlockScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// handStream is one client of a budget as people write it by hand.
type handStream struct {
	load   *load
	client *redis.Client
	unlock *redis.Script
}

func (l *load) handStreams() ([]stream, error) {
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: l.spec.Socket, Username: l.spec.User, Password: l.spec.Password,
		PoolSize: l.spec.Clients, MaxRetries: -1, DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	l.closers = append(l.closers, client.Close)
	out := make([]stream, l.spec.Clients)
	for i := range out {
		out[i] = &handStream{load: l, client: client, unlock: redis.NewScript(unlockScript)}
	}
	return out, nil
}

// stop: every call is short, and the flag ends the loop.
func (s *handStream) stop() {}

func (s *handStream) run(m *meter) error {
	for s.load.take() {
		start := time.Now()
		allowed, err := s.reserve()
		switch {
		case err != nil:
			if failed, decided := m.fails(err.Error()); failed >= failuresMax && decided == 0 {
				return err
			}
		default:
			m.decided(time.Since(start), allowed)
			if !allowed && s.load.spec.Race {
				return nil
			}
		}
	}
	return nil
}

func (s *handStream) reserve() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), handCall)
	defer cancel()
	if s.load.spec.Kind == loadNaive {
		return s.lookAndTake(ctx)
	}
	token := uuid.NewString()
	lock := s.load.spec.Key + ":lock"
	for {
		got, err := s.client.SetNX(ctx, lock, token, lockExpiry).Result()
		if err != nil {
			return false, err
		}
		if got {
			break
		}
		if err := pause(ctx, lockRetry); err != nil {
			return false, fmt.Errorf("the lock: %w", err)
		}
	}
	allowed, err := s.lookAndTake(ctx)
	return allowed, errors.Join(err, s.unlock.Run(ctx, s.client, []string{lock}, token).Err())
}

// lookAndTake is right as long as nobody else does it meanwhile.
func (s *handStream) lookAndTake(ctx context.Context) (bool, error) {
	left, err := s.client.Get(ctx, s.load.spec.Key).Int64()
	if err != nil || left < benchAmount {
		return false, err
	}
	return true, s.client.DecrBy(ctx, s.load.spec.Key, benchAmount).Err()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
