package callout

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"tallystick/internal/topology"
	"tallystick/pkg/events"
)

// guest is one kind of who is let in by a token, with the rights it has by the
// table.
type guest struct {
	name   string
	token  string
	inbox  string
	rights topology.Rights
}

// guests are one of each kind.
func (w *world) guests() []guest {
	bootstrap := func(token string) string { return topology.BootstrapInbox(topology.TokenHash(token)) }
	agent, pipe := w.register("acme"), w.pipe("acme")
	out := []guest{
		{"agent", agent.token, events.InboxPrefix(agent.agent), topology.AgentRights("acme", agent.agent, bootstrap(agent.token))},
		{"pipeline identity", pipe.token, events.InboxPrefix(pipe.agent), topology.PipelineRights("acme", pipe.agent, bootstrap(pipe.token))},
		{"operator", w.operator, "_INBOX.admin", topology.OperatorRights(bootstrap(w.operator))},
	}
	for _, role := range events.Roles() {
		a := w.administer("acme", role)
		out = append(out, guest{role, a.token, events.AdminInboxPrefix(a.admin), topology.AdminRights("acme", a.admin, role, bootstrap(a.token))})
	}
	return out
}

// TestEveryGuestTimesEverySubject: the server allows each kind of token what
// the table says, and refuses it everything else: what other kinds may, what
// another of its kind may, what workers may, and the whole API of JetStream.
func TestEveryGuestTimesEverySubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	publish, subscribe := topology.EverySubject()
	for _, g := range append(w.guests(), w.guests()...) { // the second of each kind is the others' neighbour
		for _, p := range g.rights.Publish {
			publish = append(publish, topology.Concrete(p))
		}
		subscribe = append(subscribe, g.rights.Subscribe...)
	}
	for _, verb := range []string{"org_create", "rebuild", "pool_set", "settle"} {
		publish = append(publish, events.Admin(verb), events.OrgAdmin("rival", "01900000-0000-7000-8000-000000000001", verb))
	}
	slices.Sort(publish)
	publish = slices.Compact(publish)
	for _, g := range w.guests() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			dial := func() *nats.Conn { return w.connect(t, nats.Token(g.token), nats.CustomInboxPrefix(g.inbox)) }
			own := slices.Clone(publish)
			for _, p := range g.rights.Publish {
				own = append(own, topology.Concrete(p))
			}
			slices.Sort(own)
			nc := dial()
			for _, s := range slices.Compact(own) { // each once, so an error that names it is its own
				if got, want := refuses(t, nc, false, s), !g.rights.MayPublish(s); got != want {
					t.Errorf("publish %s: refused %v, want %v", s, got, want)
				}
			}
			for _, s := range append(slices.Clone(g.rights.Subscribe), subscribe...) {
				if got, want := listens(t, dial(), s), g.rights.MaySubscribe(s); got != want {
					t.Errorf("subscribe %s: allowed %v, want %v", s, got, want)
				}
			}
		})
	}
}

// listens tries an entry "subject" or "subject queue".
func listens(t *testing.T, nc *nats.Conn, entry string) bool {
	t.Helper()
	defer nc.Close()
	subject, queue, _ := strings.Cut(entry, " ")
	if queue == "" {
		return !refuses(t, nc, true, subject)
	}
	if _, err := nc.QueueSubscribeSync(subject, queue); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return nc.LastError() == nil
}
