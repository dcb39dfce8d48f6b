package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// wronged is who takes part: evil and its victim in one org, and a tenant of
// another. What the victim hears that is not its own is overheard.
type wronged struct {
	*system
	org                  string
	evil, victim, tenant *agent
	held                 object // the victim's
	overheard            chan *nats.Msg
}

// TestWrongdoing: whatever an agent does on the wire is refused or harmless,
// leaks nothing and changes nothing.
func TestWrongdoing(t *testing.T) {
	t.Parallel()
	s := start(t)
	org, foreign := s.org(), s.org()
	s.pool(org, "p", 1000)
	s.pool(foreign, "p", 1000)
	w := &wronged{system: s, org: org, evil: s.agent(org, "p"), victim: s.agent(org, "p"), tenant: s.agent(foreign, "p"), overheard: make(chan *nats.Msg, 64)}
	w.held = w.victim.call("reserve", "mine", reserve(10))
	w.tenant.call("reserve", "mine", reserve(10))
	for _, subject := range []string{"_INBOX." + w.victim.Agent + ".>", w.victim.subject("decision", "*")} {
		if _, err := w.victim.nc.ChanSubscribe(subject, w.overheard); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, w.victim.nc)

	t.Run("foreign reply subjects", w.foreignReplies)
	t.Run("not one's own subjects", w.foreignSubjects)
	t.Run("server headers", w.serverHeaders)
	t.Run("what is another's", w.anothers)

	select {
	case m := <-w.overheard:
		t.Errorf("the victim got %s: %s", m.Subject, m.Data)
	default:
	}
	if got := w.tenant.figures(); got != "held 10 spent 0 withheld 0" {
		t.Errorf("the other tenant: %s", got)
	}
	s.lawful(org)
	s.lawful(foreign)
}

func (w *wronged) foreignReplies(t *testing.T) {
	evil, victim, org := w.evil, w.victim, w.org
	for i, reply := range []string{
		"$JS.API.STREAM.DELETE.LEDGER", "$JS.API.STREAM.PURGE.COMMANDS", "tally.v1.ledger." + org + ".reserved",
		victim.subject("decision", strings.Repeat("0", 32)), "_INBOX." + victim.Agent + ".x", "_INBOX.x",
		evil.subject("rpc", "reserve"), "_INBOX." + evil.Agent, "_INBOX." + evil.Agent + "x.y",
	} {
		for _, door := range []string{"rpc", "cmd"} {
			msg := evil.message(door, "reserve", fmt.Sprintf("reply-%s-%d", door, i), reserve(1))
			msg.Reply = reply
			if err := evil.nc.PublishMsg(msg); err != nil {
				t.Error(err)
			}
		}
	}
	flush(t, evil.nc)
	// A request of one's own is answered after all of those.
	if got := told(evil.call("reserve", "after", reserve(100))); got != "allowed" {
		t.Fatal(got)
	}
	if got := evil.figures(); got != "held 110 spent 0 withheld 0" {
		t.Errorf("a request with a foreign reply was executed: %s", got)
	}
}

func (w *wronged) foreignSubjects(t *testing.T) {
	evil, victim, tenant, org := w.evil, w.victim, w.tenant, w.org
	for _, subject := range []string{
		victim.subject("rpc", "release"), victim.subject("cmd", "release"), tenant.subject("rpc", "reserve"),
		"tally.v1.ledger." + org + ".reserved", "tally.v1.event." + org + ".drift", "tally.v1.admin.pool_set",
		"$JS.API.STREAM.INFO.LEDGER", "$JS.API.STREAM.DELETE.LEDGER", "$KV.tally_pools.x", victim.subject("decision", "x"),
		"$SYS.REQ.SERVER.PING", "tally.v1." + org + "." + evil.Agent + ".decision.x",
	} {
		if err := evil.nc.PublishMsg(&nats.Msg{Subject: subject, Data: []byte(`{"key":"mine"}`), Header: nats.Header{"Nats-Msg-Id": {"x"}}}); err != nil {
			t.Error(err)
		}
		evil.refused(t, subject)
	}
	for _, subject := range []string{">", "tally.>", "$JS.>", "$SYS.>", "_INBOX.>", "_INBOX." + victim.Agent + ".>", victim.subject("decision", "*"), "tally.v1.*.*.rpc.>"} {
		sub, err := evil.nc.SubscribeSync(subject)
		if err != nil {
			t.Error(err)
			continue
		}
		evil.refused(t, subject)
		_ = sub.Unsubscribe()
	}
}

func (w *wronged) serverHeaders(t *testing.T) {
	evil, org := w.evil, w.org
	for i, h := range []string{
		"Nats-Schedule", "Nats-Schedule-Target", "Nats-Rollup", "Nats-TTL", "Nats-Expected-Last-Sequence",
		"Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Stream", "Nats-Expected-Last-Msg-Id", "Nats-Batch-Id",
		"Nats-Batch-Commit", "Nats-Incr", "Nats-Request-Info", "Nats-Trace-Dest",
	} {
		key := fmt.Sprintf("header-%d", i)
		msg := evil.message("cmd", "charge", key, object{"actual": usd(1)})
		msg.Header.Set(h, "1")
		if h == "Nats-Trace-Dest" {
			msg.Header.Set(h, "tally.v1.ledger."+org+".reserved")
		}
		sub, err := evil.nc.SubscribeSync(evil.subject("decision", "*"))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := evil.nc.RequestMsg(msg, 2*time.Second)
		if h == "Nats-Trace-Dest" { // the server refuses the message itself
			_ = sub.Unsubscribe()
			continue
		}
		if err != nil || string(reply.Data) != `{"outcome":"accepted"}` {
			t.Fatalf("%s: %v, %v", h, reply, err)
		}
		if out, replayed := evil.decision(sub, 5*time.Second); told(out) != "charged" || replayed {
			t.Errorf("%s: %v", h, out)
		}
	}
}

func (w *wronged) anothers(t *testing.T) {
	evil, tenant := w.evil, w.tenant
	id := w.held["reservation"]
	for _, a := range []*agent{evil, tenant} {
		for verb, body := range map[string]object{
			"settle": {"reservation": id, "actual": usd(1)}, "release": {"reservation": id}, "extend": {"reservation": id, "ttl_ms": 900000},
			"reservation": {"reservation": id},
		} {
			if got := told(a.call(verb, "steal-"+verb, body)); got != "not_found" {
				t.Errorf("%s: %s", verb, got)
			}
		}
	}
	if got := told(evil.call("settle", "by-key", object{"key": "mine", "actual": usd(1)})); got != "not_found" {
		t.Errorf("another agent's key: %s", got)
	}
}

func flush(t testing.TB, nc *nats.Conn) {
	t.Helper()
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// refused waits for the server's word that a subject is not allowed.
func (a *agent) refused(t testing.TB, subject string) {
	t.Helper()
	refused(t, "an agent", a.violations, subject)
}

func refused(t testing.TB, who string, violations <-chan string, subject string) {
	t.Helper()
	timeout := time.NewTimer(5 * time.Second)
	defer timeout.Stop()
	for {
		select {
		case text := <-violations:
			if strings.Contains(strings.ToLower(text), strings.ToLower(`"`+subject+`"`)) {
				return
			}
		case <-timeout.C:
			t.Errorf("%s was not refused to %s", subject, who)
			return
		}
	}
}
