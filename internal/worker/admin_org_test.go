package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tallystick/internal/testkit"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

const (
	adaID = "0192cccc-0000-7000-8000-000000000001"
	vicID = "0192cccc-0000-7000-8000-000000000002"
	audID = "0192cccc-0000-7000-8000-000000000003"
)

// admins are roles by org and id; err is answered where it is set.
type admins struct {
	roles map[string]string
	err   atomic.Pointer[error]
}

func (a *admins) AdminRole(_ context.Context, org, id string) (string, error) {
	if err := a.err.Load(); err != nil {
		return "", *err
	}
	return a.roles[org+" "+id], nil
}

// serveOrgAdmins runs a door whose verbs tell who asks and why.
func serveOrgAdmins(t *testing.T, known Admins) *testkit.NATSServer {
	t.Helper()
	server := testkit.NATS(t)
	tell := func(_ context.Context, r AdminRequest) ([]byte, error) {
		return fmt.Appendf(nil, "%s by %s why %s", r.Verb, r.By, r.Why), nil
	}
	a, err := NewAdmin(AdminConfig{
		Name: "registrar", Conn: server.Connect(t, testkit.Admin), Admins: known, Log: zerolog.Nop(),
		Verbs: map[string]AdminFunc{events.AdminPoolShow: tell, events.AdminPoolSet: tell, events.AdminOrgCreate: tell, events.AdminLedger: tell},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	receive(t, a.Started(), "start")
	t.Cleanup(func() {
		cancel()
		if err := receive(t, done, "end"); err != nil {
			t.Error(err)
		}
	})
	return server
}

const noOrg = `{"error":{"code":"not_found","message":"no such org, or not yours","field":"org","retryable":false}}`

func TestServeOrgAdmins(t *testing.T) {
	t.Parallel()
	known := &admins{roles: map[string]string{"acme " + adaID: events.RoleAdmin, "acme " + vicID: events.RoleViewer, "acme " + audID: events.RoleAuditor}}
	server := serveOrgAdmins(t, known)
	nc := server.Connect(t, testkit.Admin, nats.CustomInboxPrefix("_INBOX.admin."+adaID))
	ask := func(subject, why, body string) string {
		t.Helper()
		m := nats.NewMsg(subject)
		m.Data = []byte(body)
		if why != "" {
			m.Header.Set(events.HeaderReason, why)
		}
		answer, err := nc.RequestMsg(m, waitMax)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		return string(answer.Data)
	}
	own := func(verb string) string { return events.OrgAdmin("acme", adaID, verb) }
	for _, row := range []struct{ subject, why, body, want string }{
		{own("pool_set"), "naß", `{"org":"acme"}`, "pool_set by " + adaID + " why naß"},
		{own("pool_show"), "", `{"org":"acme"}`, "pool_show by " + adaID + " why "},
		{events.Admin("pool_set"), "w", `{"org":"acme"}`, "pool_set by operator why w"},
		{events.Admin("org_create"), "", `{}`, "org_create by operator why "},
		{own("pool_set"), "", `{"org":"rival"}`, noOrg},
		{own("pool_set"), "", `{"org":"nowhere"}`, noOrg},
		{own("pool_set"), "", `{}`, noOrg},
		{own("org_create"), "", `{"org":"acme"}`, noOrg},
		{events.OrgAdmin("rival", adaID, "pool_set"), "", `{"org":"rival"}`, noOrg},
		{own("pool_set"), "a\x01b", `{"org":"rival"}`, noOrg},
	} {
		if got := ask(row.subject, row.why, row.body); got != row.want {
			t.Errorf("%s %s: %s, want %s", row.subject, row.body, got, row.want)
		}
	}
	for _, body := range []string{`{"org":"acme","org":"rival"}`, `{"org":"acme"`, ``} {
		if e := events.ParseError([]byte(ask(own("pool_set"), "", body))); e == nil || e.Code != events.CodeInvalidArgument {
			t.Errorf("%s: %v", body, e)
		}
	}
	if e := events.ParseError([]byte(ask(own("pool_set"), "a\x01b", `{"org":"acme"}`))); e == nil || e.Field != events.HeaderReason {
		t.Errorf("a reason with a control character: %v", e)
	}
	down := error(fmt.Errorf("kv: %w", budget.ErrUnavailable))
	known.err.Store(&down)
	if e := events.ParseError([]byte(ask(own("pool_set"), "", `{"org":"acme"}`))); e == nil || e.Code != events.CodeUnavailable {
		t.Errorf("while nobody knows the role: %v", e)
	}
	broken := errors.New("secret")
	known.err.Store(&broken)
	if e := events.ParseError([]byte(ask(own("pool_set"), "", `{"org":"acme"}`))); e == nil || e.Code != events.CodeInternal {
		t.Errorf("an unreadable record: %v", e)
	}
	known.err.Store(nil)
	vic := server.Connect(t, testkit.Admin, nats.CustomInboxPrefix("_INBOX.admin."+vicID))
	for verb, want := range map[string]string{"pool_show": "pool_show by " + vicID + " why ", "pool_set": noOrg} {
		m, err := vic.Request(events.OrgAdmin("acme", vicID, verb), []byte(`{"org":"acme"}`), waitMax)
		if err != nil || string(m.Data) != want {
			t.Errorf("a viewer's %s: %v, want %s", verb, m, want)
		}
	}
	aud := server.Connect(t, testkit.Admin, nats.CustomInboxPrefix("_INBOX.admin."+audID))
	for verb, want := range map[string]string{"ledger": "ledger by " + audID + " why ", "pool_show": noOrg, "pool_set": noOrg} {
		m, err := aud.Request(events.OrgAdmin("acme", audID, verb), []byte(`{"org":"acme"}`), waitMax)
		if err != nil || string(m.Data) != want {
			t.Errorf("an auditor's %s: %v, want %s", verb, m, want)
		}
	}
	if m, err := aud.Request(events.OrgAdmin("acme", audID, "ledger"), []byte(`{"org":"rival"}`), waitMax); err != nil || string(m.Data) != noOrg {
		t.Errorf("an auditor's ledger of another org: %v", m)
	}
	// A reply outside the admin's own inbox is not executed.
	for _, inbox := range []string{"_INBOX.admin", "_INBOX.admin." + adaID + "x", "_INBOX." + vicID} {
		other := server.Connect(t, testkit.Admin, nats.CustomInboxPrefix(inbox))
		if _, err := other.Request(events.OrgAdmin("acme", vicID, "pool_show"), []byte(`{"org":"acme"}`), 50*time.Millisecond); err == nil {
			t.Errorf("answered into %s", inbox)
		}
	}
}
