package callout

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// refuses tries one subject and reports whether the server forbids it.
func refuses(t *testing.T, nc *nats.Conn, subscribe bool, subject string) bool {
	t.Helper()
	var err error
	if subscribe {
		_, err = nc.SubscribeSync(subject)
	} else {
		err = nc.Publish(subject, nil)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	last := nc.LastError()
	return last != nil && strings.Contains(strings.ToLower(last.Error()), "permissions violation") &&
		strings.Contains(last.Error(), `"`+subject+`"`)
}

// An agent has its own subjects and nothing else, whoever else there is.
func TestAgentRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, other, foreign := w.register("acme"), w.register("acme"), w.register("rival")
	bootstrap := "_INBOX." + topology.TokenHash(me.token)[:32]
	rows := []struct {
		subject            string
		subscribe, allowed bool
	}{
		{events.Rpc("acme", me.agent, "reserve"), false, true},
		{events.Cmd("acme", me.agent, "settle"), false, true},
		{"$SYS.REQ.USER.INFO", false, true},
		{events.Decision("acme", me.agent, "*"), true, true},
		{"_INBOX." + me.agent + ".>", true, true},
		{bootstrap + ".>", true, true},

		{events.Rpc("acme", other.agent, "reserve"), false, false},
		{events.Cmd("rival", foreign.agent, "reserve"), false, false},
		{events.Rpc("rival", me.agent, "reserve"), false, false},
		{events.Decision("acme", me.agent, events.DecisionToken("reserve", "k")), false, false},
		{events.Decision("acme", other.agent, "x"), false, false},
		{"_INBOX." + me.agent + ".x", false, false},
		{"_INBOX." + other.agent + ".x", false, false},
		{events.Ledger("acme", events.KindReserved), false, false},
		{events.Command("acme", me.agent, "reserve"), false, false},
		{events.Admin("pool_set"), false, false},
		{events.Event("acme", "drift"), false, false},
		{"$JS.API.INFO", false, false},
		{"$JS.API.STREAM.DELETE.LEDGER", false, false},
		{"$JS.ACK.COMMANDS.reserver.1.1.1.1.1", false, false},
		{"$KV.tally_agents.acme.x", false, false},
		{"$SYS.REQ.USER.AUTH", false, false},
		{"$SYS.REQ.SERVER.PING", false, false},
		{">", true, false},
		{"$JS.>", true, false},
		{"$SYS.>", true, false},
		{"tally.>", true, false},
		{"tally.v1.acme.>", true, false},
		{"tally.v1.*.*.rpc.reserve", true, false},
		{events.Rpc("acme", me.agent, "reserve"), true, false},
		{events.Decision("acme", "*", "*"), true, false},
		{events.Decision("acme", other.agent, "*"), true, false},
		{"_INBOX.>", true, false},
		{"_INBOX.*.>", true, false},
		{"_INBOX." + other.agent + ".>", true, false},
		{"_INBOX.admin.>", true, false},
	}
	for _, row := range rows {
		if got := !refuses(t, w.agent(t, me), row.subscribe, row.subject); got != row.allowed {
			t.Errorf("%s (subscribe %v): allowed %v, want %v", row.subject, row.subscribe, got, row.allowed)
		}
	}
}

// A reply subject is checked as a publish: none may be named that is another's
// or a stream's.
func TestAgentReplySubjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.register("acme")
	nc := w.agent(t, me)
	msg := nats.NewMsg(events.Rpc("acme", me.agent, "reserve"))
	msg.Reply = "$JS.API.STREAM.DELETE.LEDGER"
	if err := errors.Join(nc.PublishMsg(msg), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := nc.LastError(); err == nil || !strings.Contains(err.Error(), "$JS.API.STREAM.DELETE.LEDGER") {
		t.Errorf("got %v", err)
	}
}

// A client that has only its token learns from the server who it is.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.register("acme")
	nc := w.connect(t, nats.Token(me.token), nats.CustomInboxPrefix("_INBOX."+topology.TokenHash(me.token)[:32]))
	m, err := nc.Request("$SYS.REQ.USER.INFO", nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Data struct {
			Account     string `json:"account"`
			Permissions struct {
				Publish struct {
					Allow []string `json:"allow"`
				} `json:"publish"`
			} `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	want := events.Rpc("acme", me.agent, "*")
	if info.Data.Account != topology.AccountAgents || !strings.Contains(strings.Join(info.Data.Permissions.Publish.Allow, " "), want) {
		t.Errorf("%s does not name %s", m.Data, want)
	}
	if strings.Contains(string(m.Data), me.token) {
		t.Error("the answer holds the token")
	}
}

func TestOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	connect := func() *nats.Conn { return w.connect(t, nats.Token(w.operator), nats.CustomInboxPrefix("_INBOX.admin")) }
	for subject, allowed := range map[string]bool{
		events.Admin("pool_set"): true, "tally.v1.ledger.acme.reserved": false, "$JS.API.INFO": false,
		events.Rpc("acme", "x", "reserve"): false, "_INBOX.admin.x": false,
	} {
		if got := !refuses(t, connect(), false, subject); got != allowed {
			t.Errorf("publish %s: allowed %v", subject, got)
		}
	}
	for subject, allowed := range map[string]bool{"_INBOX.admin.>": true, ">": false, "tally.v1.admin.>": false, "_INBOX.>": false} {
		if got := !refuses(t, connect(), true, subject); got != allowed {
			t.Errorf("subscribe %s: allowed %v", subject, got)
		}
	}
}

// Nobody gets in but by a token that is somebody's, and no log tells a token.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.register("acme")
	worker := w.set[topology.Scribe].NATS.Broker
	typo := me.token[:len(me.token)-1] + "!"
	before := w.tokens.looked()
	rows := map[string][]nats.Option{
		"nothing":                 nil,
		"a mistyped token":        {nats.Token(typo)},
		"no token at all":         {nats.Token("guess")},
		"a worker, wrong word":    {nats.UserInfo(worker.User, "guess")},
		"the token as a password": {nats.UserInfo("agent", me.token)},
	}
	for name, opts := range rows {
		if _, err := w.dial(opts...); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.tokens.looked() - before; n != 0 {
		t.Errorf("%d look-ups for what cannot be a token", n)
	}
	unknown := topology.NewToken()
	if _, err := w.dial(nats.Token(unknown)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("an unknown token: %v", err)
	}
	w.tokens.fail(budget.ErrUnavailable)
	if _, err := w.dial(nats.Token(me.token)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("while tokens cannot be looked up: %v", err)
	}
	for _, token := range []string{unknown, me.token, typo, "guess", w.operator} {
		if strings.Contains(w.log.String(), token) {
			t.Error("a token is in the log")
		}
	}
	w.tokens.fail(nil)
	w.agent(t, me)
}

// A connection ends when its agent expires.
func TestExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.register("acme")
	me.expiresAt = time.Now().Add(2 * time.Second)
	w.put(me)
	nc := w.agent(t, me)
	select {
	case <-nc.StatusChanged(nats.CLOSED):
	case <-time.After(15 * time.Second):
		t.Fatal("still connected")
	}
}

// A connection does not outlive its lifetime: one whose token still stands
// comes back by itself, one whose token was rotated away stays outside.
func TestLifetime(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, 2*time.Second)
	stays, rotated := w.register("acme"), w.register("acme")
	options := func(i identity) []nats.Option {
		return []nats.Option{
			nats.Token(i.token), nats.CustomInboxPrefix("_INBOX." + i.agent), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
			nats.ReconnectWait(20 * time.Millisecond), func(o *nats.Options) error { o.AllowReconnect = true; return nil },
		}
	}
	back, gone := w.connect(t, options(stays)...), w.connect(t, options(rotated)...)
	isBack, isGone := back.StatusChanged(nats.CONNECTED), gone.StatusChanged(nats.RECONNECTING)
	w.tokens.mu.Lock()
	delete(w.tokens.byHash, topology.TokenHash(rotated.token))
	w.tokens.mu.Unlock()
	for what, change := range map[string]chan nats.Status{"back": isBack, "gone": isGone} {
		select {
		case <-change:
		case <-time.After(15 * time.Second):
			t.Fatalf("never %s", what)
		}
	}
	if err := back.Flush(); err != nil {
		t.Errorf("who stays: %v", err)
	}
	if gone.IsConnected() {
		t.Error("the rotated token is connected")
	}
}

// What is larger than the contract allows arrives, to be answered; what is
// much larger does not.
func TestPayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.register("acme")
	nc := w.agent(t, me)
	subject := events.Rpc("acme", me.agent, "reserve")
	if err := errors.Join(nc.Publish(subject, make([]byte, events.MaxPayloadBytes+1)), nc.Flush()); err != nil {
		t.Fatalf("just above the contract's: %v", err)
	}
	if err := errors.Join(nc.Publish(subject, make([]byte, topology.AgentPayload+1)), nc.Flush()); err == nil {
		t.Error("above an agent's bound: taken")
	}
}
