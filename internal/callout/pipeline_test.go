package callout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

func (w *world) pipe(org string) identity {
	i := identity{org: org, agent: "5b1c4a2e-7d10-4f6b-9c3a-2f8e1d0b7a66", token: topology.NewToken()}
	w.tokens.mu.Lock()
	defer w.tokens.mu.Unlock()
	w.tokens.piped[topology.TokenHash(i.token)] = i
	return i
}

// A pipeline identity is let in to its own account, with the rights of
// topology.PipelineRights, and as nobody else.
func TestPipelineIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.pipe("acme")
	own := events.PipelineConsumer("acme", me.agent)
	for _, row := range []struct {
		subject            string
		subscribe, allowed bool
	}{
		{"$JS.API.CONSUMER.MSG.NEXT.DECISIONS." + own, false, true},
		{"$JS.ACK.DECISIONS." + own + ".1.1.1.1.0", false, true},
		{"$SYS.REQ.USER.INFO", false, true},
		{"_INBOX." + me.agent + ".>", true, true},
		{"$JS.API.CONSUMER.MSG.NEXT.DECISIONS.rival_" + me.agent, false, false},
		{"$JS.API.CONSUMER.MSG.NEXT.COMMANDS.reserver", false, false},
		{"$JS.API.CONSUMER.INFO.DECISIONS." + own, false, false},
		{"$JS.API.CONSUMER.CREATE.DECISIONS." + own, false, false},
		{events.Rpc("acme", me.agent, "reserve"), false, false},
		{events.Decision("acme", "*", "*"), true, false},
		{"_INBOX.>", true, false},
		{">", true, false},
	} {
		nc := w.connect(t, nats.Token(me.token), nats.CustomInboxPrefix("_INBOX."+me.agent))
		if got := !refuses(t, nc, row.subscribe, row.subject); got != row.allowed {
			t.Errorf("%s: allowed %v", row.subject, got)
		}
	}
	// It learns from the server who it is.
	nc := w.connect(t, nats.Token(me.token), nats.CustomInboxPrefix("_INBOX."+topology.TokenHash(me.token)[:32]))
	m, err := nc.Request("$SYS.REQ.USER.INFO", nil, 10*time.Second)
	if err != nil || !strings.Contains(string(m.Data), topology.AccountPipelines) {
		t.Errorf("%s, %v", m.Data, err)
	}
	w.tokens.fail(budget.ErrUnavailable)
	if _, err := w.dial(nats.Token(me.token)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("while tokens cannot be looked up: %v", err)
	}
}
