package client_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"tallystick/internal/testkit"
	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(crashURL); url != "" {
		crash(url, os.Getenv(crashDir), os.Getenv(crashStage))
	}
	testkit.Main(m)
}

const (
	org    = "acme"
	agent  = "0199aaaa-0000-7000-8000-000000000001"
	token  = "tly_test"
	worker = "worker"

	childAgent    = "0199aaaa-0000-7000-8000-000000000002"
	childToken    = "tly_child"
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
		c.RegisterUser(user(account, agent, token))
		return true
	case childToken:
		c.RegisterUser(user(account, childAgent, childToken))
		return true
	}
	return false
}

func user(account *server.Account, agent, token string) *server.User {
	sum := sha256.Sum256([]byte(token))
	return &server.User{Username: agent, Account: account, Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			events.Cmd(org, agent, "*"), events.Rpc(org, agent, "*"), "$SYS.REQ.USER.INFO",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{
			events.Decision(org, agent, "*"), events.InboxPrefix(agent) + ".>", events.InboxPrefix(hex.EncodeToString(sum[:16])) + ".>",
		}},
	}}
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

// broker serves every verb of the direct door: as scripted, and else as if all
// went well. A script sees how often its verb was asked before.
func (f *fake) broker(scripts map[string]script) {
	f.t.Helper()
	counts := map[string]int{}
	f.serve(events.Rpc(org, agent, "*"), func(_ int, m *nats.Msg) *nats.Msg {
		_, _, _, verb, _ := events.ParseAgentSubject(m.Subject)
		n := counts[verb]
		counts[verb]++
		if s := scripts[verb]; s != nil {
			return s(n, m)
		}
		switch verb {
		case "reserve", "extend":
			return body(allowed)
		case "settle":
			return body(`{"outcome":"settled","charged":{},"returned":{}}`)
		}
		return body(`{"outcome":"released","returned":{}}`)
	})
}

type script = func(n int, m *nats.Msg) *nats.Msg

// lost is a script whose answer never arrives.
func lost(int, *nats.Msg) *nats.Msg { return nil }

// asked are the requests so far as "verb key body", without the extends.
func (f *fake) asked() (all []string) {
	for _, m := range f.messages() {
		if _, _, _, verb, _ := events.ParseAgentSubject(m.Subject); verb != "extend" {
			all = append(all, verb+" "+m.Header.Get(events.HeaderKey)+" "+string(m.Data))
		}
	}
	return all
}

// last is the last request of asked.
func (f *fake) last() string {
	f.t.Helper()
	all := f.asked()
	if len(all) == 0 {
		f.t.Fatal("nothing was asked")
	}
	return all[len(all)-1]
}

func (f *fake) config() client.Config {
	return client.Config{URL: f.url, Token: token, Timeout: 200 * time.Millisecond, Backoff: time.Millisecond}
}

func (f *fake) connect() *client.Client { return f.connectWith(f.config()) }

func (f *fake) connectWith(cfg client.Config) *client.Client {
	f.t.Helper()
	c, err := client.Connect(f.t.Context(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

func body(s string) *nats.Msg { return &nats.Msg{Data: []byte(s)} }

func failure(e *events.Error) *nats.Msg { return &nats.Msg{Data: e.Append(nil)} }

// replayed is an answer that was given before.
func replayed(s string) *nats.Msg {
	return &nats.Msg{Data: []byte(s), Header: nats.Header{events.HeaderReplayed: {"true"}}}
}
