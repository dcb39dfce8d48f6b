package callout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"tallystick/internal/topology"
	"tallystick/pkg/events"
)

func (w *world) administer(org, role string) admin {
	a := admin{org, uuid.Must(uuid.NewV7()).String(), role, topology.NewToken()}
	w.tokens.mu.Lock()
	defer w.tokens.mu.Unlock()
	w.tokens.admins[topology.TokenHash(a.token)] = a
	return a
}

func (w *world) admin(t *testing.T, a admin) *nats.Conn {
	t.Helper()
	return w.connect(t, nats.Token(a.token), nats.CustomInboxPrefix("_INBOX.admin."+a.admin))
}

// An admin has the verbs of its role under its own name, its own inbox, and
// nothing else.
func TestAdminRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, role := range events.Roles() {
		me, other := w.administer("acme", role), w.administer("acme", events.RoleAdmin)
		for _, row := range []struct {
			subject            string
			subscribe, allowed bool
		}{
			{events.OrgAdmin("acme", me.admin, "pool_show"), false, role != events.RoleAuditor},
			{events.OrgAdmin("acme", me.admin, "ledger_checkpoint"), false, true},
			{events.OrgAdmin("acme", me.admin, "ledger"), false, true},
			{events.OrgAdmin("acme", me.admin, "pool_set"), false, role == events.RoleAdmin},
			{events.OrgAdmin("acme", me.admin, "settle"), false, role == events.RoleAdmin},
			{events.OrgAdmin("acme", me.admin, "admin_remove"), false, role == events.RoleAdmin},
			{"$SYS.REQ.USER.INFO", false, true},
			{"_INBOX.admin." + me.admin + ".>", true, true},
			{"_INBOX." + topology.TokenHash(me.token)[:32] + ".>", true, true},

			{events.OrgAdmin("acme", me.admin, "org_create"), false, false},
			{events.OrgAdmin("acme", me.admin, "rebuild"), false, false},
			{events.OrgAdmin("acme", me.admin, "other"), false, false},
			{events.OrgAdmin("rival", me.admin, "pool_show"), false, false},
			{events.OrgAdmin("acme", other.admin, "pool_show"), false, false},
			{events.Admin("pool_show"), false, false},
			{events.Rpc("acme", me.admin, "reserve"), false, false},
			{"_INBOX.admin." + other.admin + ".x", false, false},
			{"_INBOX.admin." + me.admin + ".x", false, false},
			{"$JS.API.INFO", false, false},
			{"$KV.tally_admins.acme", false, false},
			{"_INBOX.admin.>", true, false},
			{"_INBOX.admin.*", true, false},
			{"_INBOX.admin." + other.admin + ".>", true, false},
			{"_INBOX.>", true, false},
			{"tally.v1.admin.>", true, false},
			{events.OrgAdmin("acme", me.admin, "pool_show"), true, false},
			{">", true, false},
		} {
			if got := !refuses(t, w.admin(t, me), row.subscribe, row.subject); got != row.allowed {
				t.Errorf("%s: %s (subscribe %v): allowed %v, want %v", role, row.subject, row.subscribe, got, row.allowed)
			}
		}
	}
}

// The operator speaks under nobody else's name, and learns who it is as
// everybody does.
func TestOperatorIsNoAdmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.administer("acme", events.RoleAdmin)
	nc := w.connect(t, nats.Token(w.operator), nats.CustomInboxPrefix("_INBOX."+topology.TokenHash(w.operator)[:32]))
	m, err := nc.Request("$SYS.REQ.USER.INFO", nil, 10*time.Second)
	if err != nil || !strings.Contains(string(m.Data), `"`+events.AllAdmin+`"`) {
		t.Errorf("%v, %v", m, err)
	}
	if !refuses(t, nc, false, events.OrgAdmin("acme", ada.admin, "pool_set")) {
		t.Error("the operator may speak as an admin")
	}
}

// A connection ends, and with it what its token was good for.
func TestAdminSessionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.administer("acme", events.RoleAdmin)
	s := &Service{cfg: Config{Keys: *w.set[topology.Registrar].Callout, Tokens: w.tokens, Lifetime: lifetimeDefault}}
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	request := jwt.NewAuthorizationRequestClaims(public)
	request.UserNkey, request.ConnectOptions.Token = public, ada.token
	user, outcome := s.decide(t.Context(), request)
	if outcome != letAdminIn {
		t.Fatal(outcome)
	}
	if left := time.Until(time.Unix(user.Expires, 0)); left <= 0 || left > lifetimeDefault {
		t.Errorf("it ends in %v", left)
	}
}

// A token of an admin who was removed, or with a role that no version knows,
// gives nothing.
func TestAdminRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, odd := w.administer("acme", events.RoleAdmin), w.administer("acme", "owner")
	w.admin(t, ada)
	w.tokens.mu.Lock()
	delete(w.tokens.admins, topology.TokenHash(ada.token))
	w.tokens.mu.Unlock()
	if _, err := w.dial(nats.Token(ada.token)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("removed: %v", err)
	}
	if !refuses(t, w.admin(t, odd), false, events.OrgAdmin("acme", odd.admin, "pool_show")) {
		t.Error("an unknown role may look")
	}
	if strings.Contains(w.log.String(), ada.token) {
		t.Error("a token is in the log")
	}
}
