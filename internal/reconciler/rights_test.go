package reconciler_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reaper"
	"tallystick/internal/reconciler"
	"tallystick/internal/registry"
	"tallystick/internal/scribe"
	"tallystick/internal/testkit"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// installation is a server and a Redis with the rights that are shipped.
type installation struct {
	set    topology.Set
	url    string
	redis  *testkit.RedisServer
	denied chan string
}

func install(t *testing.T) *installation {
	t.Helper()
	set, err := topology.Generate(strings.Repeat("0", 64))
	must(t, err)
	conf, err := topology.NATSConf(topology.NATSServer{Listen: "127.0.0.1:-1", StoreDir: t.TempDir()}, set)
	must(t, err)
	path := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(path, []byte(conf), 0o600))
	opts, err := server.ProcessConfigFile(path)
	must(t, err)
	opts.NoLog, opts.NoSigs = true, true
	s, err := server.NewServer(opts)
	must(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	in := &installation{set: set, url: s.ClientURL(), redis: testkit.OwnRedis(t), denied: make(chan string, 100)}
	must(t, topology.Ensure(t.Context(), in.js(t, topology.Setup), 1))
	must(t, topology.EnsureAudit(t.Context(), in.auditJS(t, topology.Setup), 1))
	admin := in.redis.Client(t)
	for _, line := range topology.RedisACL(set) {
		if words := strings.Fields(line); words[1] != "default" {
			args := []any{"ACL", "SETUSER"}
			for _, w := range words[1:] {
				args = append(args, w)
			}
			must(t, admin.Do(t.Context(), args...).Err())
		}
	}
	return in
}

func (in *installation) js(t *testing.T, worker string) jetstream.JetStream {
	t.Helper()
	return in.jsAs(t, worker, in.set[worker].NATS.Broker)
}

func (in *installation) auditJS(t *testing.T, worker string) jetstream.JetStream {
	t.Helper()
	return in.jsAs(t, worker, in.set[worker].NATS.Audit)
}

// mirror is the ledger's copy, as the reconciler sees it.
func (in *installation) mirror(t *testing.T) *ledger.Ledger {
	t.Helper()
	l, err := ledger.OpenMirror(t.Context(), in.auditJS(t, topology.Reconciler))
	must(t, err)
	return l
}

func (in *installation) jsAs(t *testing.T, worker string, u topology.User) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(in.url, nats.UserInfo(u.User, u.Password), nats.CustomInboxPrefix("_INBOX."+worker),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case in.denied <- worker + ": " + err.Error():
			default:
			}
		}))
	must(t, err)
	t.Cleanup(func() {
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-closed
	})
	js, err := jetstream.New(nc)
	must(t, err)
	return js
}

func (in *installation) store(t *testing.T, worker string) *redisx.Store {
	t.Helper()
	opts := *in.redis.Client(t).Options()
	opts.Username, opts.Password = in.set[worker].Redis.User, in.set[worker].Redis.Password
	client := redis.NewClient(&opts)
	t.Cleanup(func() { _ = client.Close() })
	store, err := redisx.New(redisx.Config{Client: client})
	must(t, err)
	must(t, store.Load(t.Context()))
	return store
}

func (in *installation) ledger(t *testing.T, worker string) (*ledger.Ledger, *ledger.Events) {
	t.Helper()
	js := in.js(t, worker)
	l, err := ledger.Open(t.Context(), js)
	must(t, err)
	return l, ledger.NewEvents(js)
}

// TestRightsSuffice runs each role with exactly the rights that it is shipped
// with, from the first entry to a rebuild.
func TestRightsSuffice(t *testing.T) {
	t.Parallel()
	in := install(t)
	l, _ := in.ledger(t, topology.Scribe)
	s, err := scribe.New(scribe.Config{Store: in.store(t, topology.Scribe), Ledger: l, Log: zerolog.Nop()})
	must(t, err)
	l, published := in.ledger(t, topology.Reaper)
	r, err := reaper.New(reaper.Config{Store: in.store(t, topology.Reaper), Ledger: l, Events: published, Log: zerolog.Nop()})
	must(t, err)

	w := &world{client: in.redis.Client(t), epochs: &epochs{of: map[int]string{}}}
	w.ledger, published = in.ledger(t, topology.Reconciler)
	w.rec, err = reconciler.New(reconciler.Config{
		Store: in.store(t, topology.Reconciler), Ledger: w.ledger, Events: published, Epochs: w.epochs, Log: zerolog.Nop(),
		Mirror: in.mirror(t), OutstandingEvery: 20 * time.Millisecond, CompareEvery: 50 * time.Millisecond, MirrorEvery: 50 * time.Millisecond,
	})
	must(t, err)
	w.store = in.store(t, topology.Registrar)
	for p := range w.store.Partitions() {
		epoch, _ := w.epochs.CreateEpoch(t.Context(), p)
		must(t, w.store.SetEpoch(t.Context(), p, epoch))
	}
	w.policy(t, "team", 1, 1_000_000)
	for _, unit := range []string{"tokens", "usd_microcents"} {
		w.path = append(w.path, budget.Limit{LimitID: budget.LimitID{Pool: "team", Unit: unit, Period: budget.PeriodNone}, Rev: 1})
	}
	w.store = in.store(t, topology.Reserver)
	w.reserve(t, "a", 10)
	b := w.store.Batch()
	short := b.Reserve(redisx.ReserveArgs{
		Agent: agent, Execution: execution("short"), Fingerprint: "ab", Amounts: budget.Amounts{"tokens": 1, "usd_microcents": 1},
		TTL: time.Millisecond, Path: w.path, Extra: redisx.Extra{Key: "short"},
	})
	b.Run(t.Context())
	must(t, short.Err)

	background(t, s.Run)
	background(t, r.Run)
	background(t, w.rec.Run)
	stream, err := in.js(t, topology.Setup).Stream(t.Context(), events.StreamEvents)
	must(t, err)
	eventually(t, "the expiry is an event", func() bool {
		_, err := stream.GetLastMsgForSubject(t.Context(), events.Event(org, events.EventReservationExpired))
		return err == nil
	})
	_, err = w.rec.Rebuild(t.Context(), []int{w.store.Partition(org)})
	must(t, err)
	if v, err := w.ledger.Verify(t.Context(), org); err != nil || v.Verdict != ledger.VerdictOK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	objectStores(t, in.js(t, topology.Reconciler))
	eventually(t, "all are well", func() bool { return s.Ready() == nil && r.Ready() == nil && w.rec.Ready() == nil })
	if o := w.report(t); len(o.Drift) > 0 {
		t.Errorf("%+v", o.Drift)
	}
	select {
	case what := <-in.denied:
		t.Error(what)
	default:
	}
}

// objectStores puts, reads and lists in each, and forgets where that is allowed.
func objectStores(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for _, store := range topology.ObjectStores() {
		o, err := registry.OpenObjects(t.Context(), js, store)
		must(t, err)
		_, _, err = o.Put(t.Context(), "acme/a", nil, []byte("content"))
		must(t, err)
		if _, content, err := o.Get(t.Context(), "acme/a"); err != nil || string(content) != "content" {
			t.Errorf("object store %s: %q, %v", store, content, err)
		}
		if all, err := o.List(t.Context(), ""); err != nil || len(all) != 1 {
			t.Errorf("object store %s lists %v, %v", store, all, err)
		}
	}
	folds, err := registry.OpenObjects(t.Context(), js, events.StoreFolds)
	must(t, err)
	must(t, folds.Remove(t.Context(), "acme/a"))
}
