package client_test

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	org    = "acme"
	agent  = "0199aaaa-0000-7000-8000-000000000001"
	token  = "tly_test"
	worker = "worker"

	operatorToken = "tly_operator"
	viewerToken   = "tly_viewer" // of an admin who has the agent's id
)

// door authenticates like the callout: the agent's token gives exactly the
// agent's rights, the worker may do all.
type door struct{ srv *server.Server }

func (d *door) Check(c server.ClientAuthentication) bool {
	account := d.srv.GlobalAccount()
	switch c.GetOpts().Token {
	case worker:
		c.RegisterUser(&server.User{Username: worker, Account: account})
		return true
	case operatorToken:
		d.operator(c, operatorToken, "_INBOX.admin", events.AllAdmin)
		return true
	case viewerToken:
		d.operator(c, viewerToken, events.AdminInboxPrefix(agent), events.OrgAdmin(org, agent, "pool_show"))
		return true
	case token:
		sum := sha256.Sum256([]byte(token))
		c.RegisterUser(&server.User{Username: agent, Account: account, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{
				events.Cmd(org, agent, "*"), events.Rpc(org, agent, "*"), "$SYS.REQ.USER.INFO",
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{
				events.Decision(org, agent, "*"), events.InboxPrefix(agent) + ".>", events.InboxPrefix(hex.EncodeToString(sum[:16])) + ".>",
			}},
		}})
		return true
	}
	return false
}

func (d *door) operator(c server.ClientAuthentication, token, inbox, publish string) {
	sum := sha256.Sum256([]byte(token))
	c.RegisterUser(&server.User{Username: token, Account: d.srv.GlobalAccount(), Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{publish, "$SYS.REQ.USER.INFO"}},
		Subscribe: &server.SubjectPermission{Allow: []string{inbox + ".>", events.InboxPrefix(hex.EncodeToString(sum[:16])) + ".>"}},
	}})
}

// fake is a server and a worker whose answers a test scripts.
type fake struct {
	t   *testing.T
	url string
	nc  *nats.Conn

	mu   sync.Mutex
	seen []*nats.Msg
}

func start(t *testing.T) *fake {
	t.Helper()
	d := &door{}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, CustomClientAuthentication: d})
	if err != nil {
		t.Fatal(err)
	}
	d.srv = srv
	srv.Start()
	if !srv.ReadyForConnections(5 * time.Second) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect(srv.ClientURL(), nats.Token(worker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	return &fake{t: t, url: srv.ClientURL(), nc: nc}
}

// serve answers a subject; n counts its messages from 0. A nil answer leaves
// the request unanswered.
func (f *fake) serve(subject string, answer func(n int, m *nats.Msg) *nats.Msg) {
	f.t.Helper()
	n := 0
	_, err := f.nc.Subscribe(subject, func(m *nats.Msg) {
		f.mu.Lock()
		f.seen = append(f.seen, m)
		f.mu.Unlock()
		if a := answer(n, m); a != nil {
			if err := m.RespondMsg(a); err != nil {
				f.t.Errorf("answer: %v", err)
			}
		}
		n++
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.nc.Flush(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) messages() []*nats.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*nats.Msg(nil), f.seen...)
}

func (f *fake) connect() *client.Client {
	f.t.Helper()
	c, err := client.Connect(f.t.Context(), client.Config{URL: f.url, Token: token, Timeout: 200 * time.Millisecond, Backoff: time.Millisecond})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

func body(s string) *nats.Msg { return &nats.Msg{Data: []byte(s)} }

func failure(e *events.Error) *nats.Msg { return &nats.Msg{Data: e.Append(nil)} }
