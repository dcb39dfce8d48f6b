package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
)

// admin is an admin of one org.
type admin struct {
	*system
	Admin, Org, Name, Role, Token string
	nc                            *nats.Conn
	violations                    chan string
}

func (s *system) admin(org, name, role string, more ...string) *admin {
	s.Helper()
	a := &admin{system: s, violations: make(chan string, 64)}
	text, _ := json.Marshal(s.must(append([]string{"admin", "add", "--org", org, "--name", name, "--role", role}, more...)...))
	if err := json.Unmarshal(text, a); err != nil || a.Token == "" || a.Role != role {
		s.Fatalf("admin add: %s", text)
	}
	var err error
	a.nc, err = nats.Connect(s.address.NATS, nats.Token(a.Token), nats.CustomInboxPrefix("_INBOX.admin."+a.Admin),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { a.violations <- err.Error() }))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(a.nc.Close)
	return a
}

// run is one command line as this admin: without the data directory, which is
// the operator's.
func (a *admin) run(args ...string) (object, int, string) {
	a.Helper()
	return command(a.TB, []string{"TALLY_URL=" + a.address.NATS, "TALLY_TOKEN=" + a.Token}, append(args, "-o", "json")...)
}

func (a *admin) must(args ...string) object {
	a.Helper()
	doc, code, text := a.run(args...)
	if code != 0 {
		a.Fatalf("%v: exit %d: %s", args, code, text)
	}
	return doc
}

// ask sends a verb on the open connection and gives the bytes of the answer.
func (a *admin) ask(verb string, body object) string {
	a.Helper()
	data, _ := json.Marshal(body)
	msg, err := a.nc.Request("tally.v1.admin."+a.Org+"."+a.Admin+"."+verb, data, requestTimeout)
	if err != nil {
		a.Fatalf("%s: %v", verb, err)
	}
	return string(msg.Data)
}

// recorded waits for an entry of the org that matches.
func (s *system) recorded(org string, want entry) {
	s.Helper()
	s.eventually("the entry", 20*time.Second, func() error {
		var all []entry
		for _, e := range s.entries(org) {
			e.At, e.Execution, e.Key = time.Time{}, "", ""
			if e == want {
				return nil
			}
			all = append(all, e)
		}
		return fmt.Errorf("%+v is not among %+v", want, all)
	})
}

// TestAdmins: an org's admin does what its role says within its org, the
// ledger tells who and why, and nothing of another org is told.
func TestAdmins(t *testing.T) {
	t.Parallel()
	s := start(t)
	mine, foreign := s.org(), s.org()
	s.pool(foreign, "theirs", 1000)
	ada := s.admin(mine, "ada", "admin", "--reason", "runs the night shift")
	s.recorded(mine, entry{Kind: "administered", Action: "org_create", Subject: mine, By: "operator"})
	s.recorded(mine, entry{Kind: "administered", Action: "admin_add", Subject: ada.Admin, By: "operator", Why: "runs the night shift"})
	t.Run("administers its org", func(t *testing.T) { ada.on(t).testAdministers() })
	t.Run("not another", func(t *testing.T) { ada.on(t).testOtherOrgs(foreign) })
	t.Run("a viewer looks", func(t *testing.T) { s.on(t).admin(mine, "vic", "viewer").testViewer() })
	t.Run("rotated", func(t *testing.T) { ada.on(t).testRotated() })
	t.Run("removed", func(t *testing.T) { ada.on(t).testRemoved() })
	t.Run("hashed", func(t *testing.T) { ada.on(t).testHashed() })
	s.lawful(mine)
}

func (a *admin) on(t testing.TB) *admin {
	part := *a
	part.system = a.system.on(t)
	return &part
}

func (a *admin) testAdministers() {
	a.must("pool", "create", "p", "--org", a.Org, "--unit", "usd_microcents", "--cap", "1000", "--reason", "a project begins")
	doc := a.must("agent", "register", "--org", a.Org, "--name", "bot", "--pool", "p", "--reason", "für Käthe")
	id, _ := doc["agent"].(string)
	a.recorded(a.Org, entry{Kind: "policy_changed", By: a.Admin, Why: "a project begins"})
	a.recorded(a.Org, entry{Kind: "agent_registered", Agent: id, By: a.Admin, Why: "für Käthe"})

	token, _ := doc["token"].(string)
	bot := &agent{system: a.system, Agent: id, Org: a.Org, Token: token, violations: make(chan string, 64)}
	bot.dial()
	for _, verb := range []string{"settle", "release"} {
		bot.tells("allowed", "reserve", verb, reserve(10))
		a.must(verb, "--org", a.Org, "--agent", id, "--reserve-key", verb, "--key", "by ada", "--reason", "it hangs")
	}
	a.recorded(a.Org, entry{Kind: "settled", Agent: id, By: a.Admin, Why: "it hangs"})
	a.recorded(a.Org, entry{Kind: "released", Agent: id, By: a.Admin, Why: "it hangs"})
	equal(a.TB, "the pool", bot.figures(), "held 0 spent 10 withheld 0")

	a.must("agent", "rotate", "--org", a.Org, "--agent", id)
	a.recorded(a.Org, entry{Kind: "administered", Action: "agent_rotate", Subject: id, By: a.Admin})
	a.must("pool", "freeze", "p", "--org", a.Org, "--reason", "enough")
	a.recorded(a.Org, entry{Kind: "policy_changed", By: a.Admin, Why: "enough"})
	a.must("agent", "revoke", "--org", a.Org, "--agent", id, "--reason", "it leaked")
	a.recorded(a.Org, entry{Kind: "agent_revoked", Agent: id, By: a.Admin, Why: "it leaked"})
	a.must("reconcile", "--once", "--org", a.Org)
	for _, reason := range []string{strings.Repeat("x", 257), "a\tb", "a\x1bb"} {
		if _, code, text := a.run("pool", "unfreeze", "p", "--org", a.Org, "--reason", reason); code != 2 {
			a.Errorf("reason %q: exit %d: %s", reason, code, text)
		}
	}
	if _, code, text := a.run("org", "create", "o"+uuid.NewString()[:8]); code != 6 {
		a.Errorf("org create: exit %d: %s", code, text)
	}
	if _, code, text := a.run("rebuild", "--org", a.Org); code != 6 {
		a.Errorf("rebuild: exit %d: %s", code, text)
	}
}

// testOtherOrgs: an org that exists and one that does not answer with the same
// bytes, whatever is asked; and so does asking without an org.
func (a *admin) testOtherOrgs(foreign string) {
	nowhere := "x" + foreign[1:]
	id := uuid.NewString()
	for verb, body := range map[string]object{
		"pool_create": {"pool": "p", "limits": []object{{"unit": "tokens", "cap": 1}}}, "pool_set": {"pool": "theirs", "cap": 1},
		"pool_freeze": {"pool": "theirs"}, "pool_unfreeze": {"pool": "theirs"}, "pool_show": {}, "agent_list": {}, "admin_list": {},
		"agent_register": {"name": "n", "pool": "theirs"}, "agent_revoke": {"agent": id}, "agent_rotate": {"agent": id},
		"admin_add": {"name": "n"}, "admin_set": {"admin": a.Admin, "role": "viewer"}, "admin_remove": {"admin": a.Admin},
		"admin_rotate": {"admin": a.Admin}, "settle": {"agent": id, "key": "k"}, "release": {"agent": id, "key": "k"},
		"ledger": {}, "reconcile": {}, "report_make": {}, "report_list": {}, "report_get": {"report": "x", "format": "csv"},
	} {
		without := a.ask(verb, body)
		body["org"] = foreign
		theirs := a.ask(verb, body)
		body["org"] = nowhere
		if never := a.ask(verb, body); theirs != never || theirs != without || !strings.Contains(theirs, `"code":"not_found"`) {
			a.Errorf("%s\nanother's:  %s\nnobody's:   %s\nno org:     %s", verb, theirs, never, without)
		}
	}
	sameWords(a.TB.(*testing.T), a.run, []string{"pool", "show", "--org", foreign, nowhere})
	for _, e := range a.entries(foreign) {
		if e.By == a.Admin {
			a.Errorf("on another org's ledger: %+v", e)
		}
	}
	// What is not under its own name the server refuses.
	for _, subject := range []string{
		"tally.v1.admin.pool_show", "tally.v1.admin." + foreign + "." + a.Admin + ".pool_show",
		"tally.v1.admin." + a.Org + "." + id + ".pool_show", "tally.v1.admin." + a.Org + "." + a.Admin + ".rebuild",
	} {
		if err := a.nc.Publish(subject, nil); err != nil {
			a.Fatal(err)
		}
		refused(a.TB, "an admin", a.violations, subject)
	}
	if _, err := a.nc.SubscribeSync("_INBOX.admin.>"); err != nil {
		a.Fatal(err)
	}
	refused(a.TB, "an admin", a.violations, "_INBOX.admin.>")
}

func (a *admin) testViewer() {
	for _, args := range [][]string{
		{"pool", "show", "--org", a.Org},
		{"agent", "list", "--org", a.Org},
		{"admin", "list", "--org", a.Org},
		{"ledger", "verify", "--org", a.Org},
		{"reconcile", "--once", "--org", a.Org},
		{"report", "make", "--org", a.Org},
		{"report", "list", "--org", a.Org},
	} {
		a.must(args...)
	}
	for _, args := range [][]string{
		{"pool", "set", "p", "--org", a.Org, "--cap", "5"},
		{"pool", "unfreeze", "p", "--org", a.Org},
		{"agent", "register", "--org", a.Org, "--name", "n", "--pool", "p"},
		{"admin", "set", "--org", a.Org, "--admin", a.Admin, "--role", "admin"},
		{"admin", "add", "--org", a.Org, "--name", "n"},
		{"settle", "--org", a.Org, "--agent", a.Admin, "--reserve-key", "k", "--key", "k"},
	} {
		if _, code, text := a.run(args...); code != 6 {
			a.Errorf("%v: exit %d: %s", args, code, text)
		}
	}
	subject := "tally.v1.admin." + a.Org + "." + a.Admin + ".pool_set"
	if err := a.nc.Publish(subject, nil); err != nil {
		a.Fatal(err)
	}
	refused(a.TB, "a viewer", a.violations, subject)
}

// testRotated: the old token ends.
func (a *admin) testRotated() {
	bob := a.admin(a.Org, "bob", "viewer")
	old := bob.Token
	bob.Token, _ = a.must("admin", "rotate", "--org", a.Org, "--admin", bob.Admin)["token"].(string)
	a.recorded(a.Org, entry{Kind: "administered", Action: "admin_rotate", Subject: bob.Admin, By: a.Admin})
	bob.must("pool", "show", "--org", a.Org)
	bob.Token = old
	if _, code, text := bob.run("pool", "show", "--org", a.Org); code != 6 {
		a.Errorf("the old token: exit %d: %s", code, text)
	}
}

// testRemoved: whoever is removed or demoted is refused on the connection that
// is open, and the last admin is neither.
func (a *admin) testRemoved() {
	bob := a.admin(a.Org, "eve", "admin")
	if answer := bob.ask("agent_list", object{"org": a.Org}); !strings.HasPrefix(answer, `{"agents":[`) {
		a.Fatal(answer)
	}
	never := bob.ask("agent_list", object{"org": "nowhere"})
	a.must("admin", "set", "--org", a.Org, "--admin", bob.Admin, "--role", "viewer", "--reason", "on leave")
	a.recorded(a.Org, entry{Kind: "administered", Action: "admin_set", Subject: bob.Admin, By: a.Admin, Why: "on leave"})
	equal(a.TB, "a change by one demoted", bob.ask("pool_freeze", object{"org": a.Org, "pool": "p"}), never)
	if answer := bob.ask("agent_list", object{"org": a.Org}); !strings.HasPrefix(answer, `{"agents":[`) {
		a.Error(answer)
	}
	a.must("admin", "remove", "--org", a.Org, "--admin", bob.Admin)
	a.recorded(a.Org, entry{Kind: "administered", Action: "admin_remove", Subject: bob.Admin, By: a.Admin})
	equal(a.TB, "a look by one removed", bob.ask("agent_list", object{"org": a.Org}), never)
	if _, code, text := bob.run("agent", "list", "--org", a.Org); code != 6 {
		a.Errorf("a new connection: exit %d: %s", code, text)
	}
	for _, args := range [][]string{{"admin", "remove"}, {"admin", "set", "--role", "viewer"}} {
		for _, run := range []func(...string) (object, int, string){a.run, a.system.run} {
			_, code, text := run(append(args, "--org", a.Org, "--admin", a.Admin)...)
			if code != 1 || !strings.Contains(text, `"limit_exceeded"`) || !strings.Contains(text, `"field":"admin"`) {
				a.Errorf("%v of the last: exit %d: %s", args, code, text)
			}
		}
	}
	a.must("pool", "show", "--org", a.Org)
}

// testHashed: no file and no log has the token's text.
func (a *admin) testHashed() {
	files := 0
	err := filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // servers make and remove files meanwhile
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // the same
		}
		files++
		if bytes.Contains(text, []byte(a.Token)) {
			a.Errorf("%s has the token", path)
		}
		return nil
	})
	if err != nil || files < 10 {
		a.Errorf("%d files, %v", files, err)
	}
	if strings.Contains(a.proc.text(), a.Token) {
		a.Error("the log has the token")
	}
}

// TestLastAdmin: of two last admins, removed and demoted by fifty at once, one
// is left.
func TestLastAdmin(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	two := []*admin{s.admin(org, "ada", "admin"), s.admin(org, "bob", "admin")}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			a, victim := two[i%2], two[i/2%2]
			if i%5 == 0 {
				a.ask("admin_set", object{"org": org, "admin": victim.Admin, "role": "viewer"})
				return
			}
			a.ask("admin_remove", object{"org": org, "admin": victim.Admin})
		})
	}
	wg.Wait()
	left := 0
	list, _ := s.must("admin", "list", "--org", org)["admins"].([]any)
	for _, row := range list {
		if r, _ := row.(object); r["active"] == true && r["role"] == "admin" {
			left++
		}
	}
	if left != 1 || len(list) != 2 {
		t.Errorf("%d of %d admins left: %v", left, len(list), list)
	}
}
