package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/internal/ledger"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// openCluster starts three servers with a ledger on all of them.
func openCluster(t *testing.T) (*ledger.Ledger, jetstream.JetStream, []*server.Server) {
	t.Helper()
	var routes []*url.URL
	for range 3 {
		routes = append(routes, &url.URL{Scheme: "nats", Host: freeAddress(t)})
	}
	var servers []*server.Server
	for i, route := range routes {
		port, err := strconv.Atoi(route.Port())
		if err != nil {
			t.Fatal(err)
		}
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(20 * time.Second) {
			t.Fatal("not ready")
		}
	}
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.ClientURL()
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	err = retry(t.Context(), func(ctx context.Context) error {
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: events.StreamLedger, Subjects: []string{events.LedgerOf("*")}, Replicas: 3,
			DenyDelete: true, DenyPurge: true, AllowAtomicPublish: true, Discard: jetstream.DiscardNew,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	return l, js, servers
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// retry repeats what fails while a cluster elects its leaders.
func retry(ctx context.Context, f func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		once, done := context.WithTimeout(ctx, 2*time.Second)
		err := f(once)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// write appends one entry with whatever resyncs that takes, as the scribe does.
func write(ctx context.Context, a *ledger.Appender, e budget.Entry) error {
	unsure := false
	return retry(ctx, func(ctx context.Context) error {
		if unsure {
			if _, err := a.Resync(ctx); err != nil {
				return err
			}
			unsure = false
		}
		if ledger.CompareIDs(e.OutboxID, a.Position(e.Partition)) <= 0 {
			return nil // it is there
		}
		err := a.Append(ctx, []budget.Entry{e})
		unsure = errors.Is(err, ledger.ErrUnsure)
		return err
	})
}

// TestThreeServers: conflicts are answered with another code than by one
// server, and appends meet a change of leader.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	l, js, _ := openCluster(t)
	var a, b *ledger.Appender
	err := retry(t.Context(), func(ctx context.Context) (err error) {
		a, err = l.Resume(ctx, partitions)
		if err == nil {
			b, err = l.Resume(ctx, partitions)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const entries = 40
	for i := range entries {
		if i%10 == 5 {
			_, err := js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+events.StreamLedger, nil, 5*time.Second)
			if err != nil {
				t.Log(err)
			}
		}
		e := entry(0, fmt.Sprintf("%d-0", i+1), "acme", 1)
		done := make(chan error, 1)
		go func() { done <- write(t.Context(), a, e) }()
		if err := errors.Join(write(t.Context(), b, e), <-done); err != nil {
			t.Fatal(err)
		}
	}
	v, err := l.Verify(t.Context(), "acme")
	if err != nil || v.Verdict != ledger.VerdictOK || v.Entries != entries {
		t.Errorf("verify: %+v, %v", v, err)
	}
}
