package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// writeBatch appends a batch, all of it, with whatever resyncs that takes.
func writeBatch(ctx context.Context, a *ledger.Appender, batch []budget.Entry) error {
	unsure := false
	return retry(ctx, func(ctx context.Context) error {
		if unsure {
			if _, err := a.Resync(ctx); err != nil {
				return err
			}
			unsure = false
		}
		at := a.Position(0)
		if ledger.CompareIDs(batch[len(batch)-1].OutboxID, at) <= 0 {
			return nil // all of it is there
		}
		if ledger.CompareIDs(batch[0].OutboxID, at) <= 0 {
			return fmt.Errorf("half of the batch up to %s is there", at)
		}
		err := a.Append(ctx, batch)
		unsure = errors.Is(err, ledger.ErrUnsure)
		return err
	})
}

// leader is the server that leads the ledger.
func leader(t *testing.T, js jetstream.JetStream, servers []*server.Server) *server.Server {
	t.Helper()
	var name string
	err := retry(t.Context(), func(ctx context.Context) error {
		s, err := js.Stream(ctx, events.StreamLedger)
		if err != nil {
			return err
		}
		if name = s.CachedInfo().Cluster.Leader; name == "" {
			return errors.New("no leader")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if s.Name() == name {
			return s
		}
	}
	t.Fatalf("no server %s", name)
	return nil
}

// TestLeaderLostInTheMiddle: batches go on while the leader steps down or its
// server is shut down. Each batch is there once, whole and in order.
func TestLeaderLostInTheMiddle(t *testing.T) {
	t.Parallel()
	const batches, size, at = 30, 200, 10
	for name, strike := range map[string]func(*testing.T, jetstream.JetStream, []*server.Server){
		"step down": func(t *testing.T, js jetstream.JetStream, _ []*server.Server) {
			t.Helper()
			if _, err := js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+events.StreamLedger, nil, 5*time.Second); err != nil {
				t.Log(err)
			}
		},
		"shut down": func(t *testing.T, js jetstream.JetStream, servers []*server.Server) {
			t.Helper()
			leader(t, js, servers).Shutdown()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, js, servers := openCluster(t)
			var a *ledger.Appender
			err := retry(t.Context(), func(ctx context.Context) (err error) {
				a, err = l.Resume(ctx, partitions)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			reached, struck := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(struck)
				<-reached
				strike(t, js, servers)
			}()
			for b := range batches {
				if b == at {
					close(reached)
				}
				batch := make([]budget.Entry, size)
				for i := range batch {
					batch[i] = entry(0, fmt.Sprintf("%d-%d", b+1, i), "acme", 1)
				}
				if err := writeBatch(t.Context(), a, batch); err != nil {
					t.Fatalf("batch %d: %v", b, err)
				}
			}
			<-struck
			var v ledger.Verification
			err = retry(t.Context(), func(ctx context.Context) (err error) {
				v, err = l.Verify(ctx, "acme")
				return err
			})
			if err != nil || v.Verdict != ledger.VerdictOK || v.Entries != batches*size {
				t.Errorf("verify: %+v, %v", v, err)
			}
		})
	}
}
