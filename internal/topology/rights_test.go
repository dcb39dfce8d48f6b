package topology

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// hostile are subjects that somebody could hit, beside all that anybody may
// use.
var hostile = []string{
	"$JS.API.STREAM.DELETE.LEDGER", "$JS.API.STREAM.PURGE.LEDGER", "$JS.API.STREAM.UPDATE.LEDGER",
	"$JS.API.STREAM.MSG.DELETE.LEDGER", "$JS.API.STREAM.RESTORE.LEDGER", "$JS.API.STREAM.SNAPSHOT.LEDGER",
	"$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.DELETE.COMMANDS", "$JS.API.STREAM.PURGE.COMMANDS",
	"$JS.API.CONSUMER.CREATE.LEDGER.expiries.x", "$JS.API.CONSUMER.DELETE.LEDGER.expiries",
	"$JS.API.CONSUMER.DELETE.COMMANDS.reserver", "$JS.API.CONSUMER.MSG.NEXT.COMMANDS.reserver",
	"$JS.API.CONSUMER.MSG.NEXT.COMMANDS.settler", "$JS.ACK.COMMANDS.settler.1.2.3.4.5",
	"$KV.tally_agents.acme.x", "$KV.tally_tokens.x", "$KV.tally_principals.acme.x", "$KV.tally_meta.epoch.p00",
	"tally.v1.ledger.acme.reserved", "tally.v1.command.acme.x.reserve", "tally.v1.acme.x.rpc.reserve", "tally.v1.acme.x.cmd.reserve",
	"tally.v1.acme.x.decision.abc", "tally.v1.admin.pool_set", "$SYS.REQ.USER.AUTH",
	"$SYS.REQ.SERVER.PING", "_INBOX.x.y", "_INBOX.admin.y", "_INBOX.reserver.y", "_INBOX.registrar.y",
}

var eavesdrops = []string{
	">", "tally.>", "$JS.>", "$KV.>", "$SYS.>", "_INBOX.>", "_INBOX.*.>", "tally.v1.*.*.rpc.*", "tally.v1.*.*.rpc.reserve",
	"tally.v1.*.*.rpc.reserve other", "tally.v1.*.*.cmd.settle", "tally.v1.*.*.decision.*", "tally.v1.admin.>",
	"tally.v1.admin.settle", "tally.v1.ledger.>", "$SYS.REQ.USER.AUTH", "$SYS.REQ.USER.AUTH other",
}

// concrete puts words where a pattern has wildcards.
func concrete(pattern string) string {
	words := strings.Split(pattern, ".")
	for i, w := range words {
		if w == "*" || w == ">" {
			words[i] = "w"
		}
	}
	return strings.Join(words, ".")
}

// covers reports whether every subject of b is one of a.
func covers(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i, w := range as {
		switch {
		case w == ">":
			return len(bs) > i
		case i >= len(bs), w != "*" && w != bs[i], w == "*" && bs[i] == ">":
			return false
		}
	}
	return len(as) == len(bs)
}

func (r Rights) mayPublish(subject string) bool {
	is := func(p string) bool { return covers(p, subject) }
	return slices.ContainsFunc(r.Publish, is) && !slices.ContainsFunc(r.DenyPublish, is)
}

// maySubscribe: an entry with a queue allows that queue alone.
func (r Rights) maySubscribe(entry string) bool {
	subject, queue, _ := strings.Cut(entry, " ")
	return slices.ContainsFunc(r.Subscribe, func(p string) bool {
		allowed, group, bound := strings.Cut(p, " ")
		return covers(allowed, subject) && (!bound || group == queue)
	})
}

// refuses asks the server by trying: whether the connection may publish to or
// subscribe to a subject.
func refuses(t *testing.T, nc *nats.Conn, subscribe bool, entry string) bool {
	t.Helper()
	subject, queue, _ := strings.Cut(entry, " ")
	var sub *nats.Subscription
	var err error
	switch {
	case !subscribe:
		err = nc.Publish(subject, nil)
	case queue != "":
		sub, err = nc.QueueSubscribeSync(subject, queue)
	default:
		sub, err = nc.SubscribeSync(subject)
	}
	if err != nil {
		t.Fatalf("%s: %v", entry, err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("%s: %v", entry, err)
	}
	if sub != nil {
		_ = sub.Unsubscribe()
	}
	last := nc.LastError()
	return last != nil && strings.Contains(strings.ToLower(last.Error()), "permissions violation") &&
		strings.Contains(last.Error(), `"`+subject+`"`)
}

// everySubject is what anybody may use, and what is hostile, in all accounts.
func everySubject() (publish, subscribe []string) {
	pub, sub := map[string]bool{}, map[string]bool{}
	for _, worker := range append(Workers(), Setup) {
		for _, account := range accountsOf(worker) {
			r := RightsOf(worker, account)
			for _, p := range append(r.Publish, r.DenyPublish...) {
				pub[concrete(p)] = true
			}
			for _, s := range r.Subscribe {
				sub[s] = true
			}
		}
	}
	for _, s := range hostile {
		pub[s] = true
	}
	for _, s := range eavesdrops {
		sub[s] = true
	}
	return slices.Sorted(maps.Keys(pub)), slices.Sorted(maps.Keys(sub))
}

// Every role times every subject: the server allows what the table says and
// refuses everything else.
func TestRightsAreEnforced(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	publish, subscribe := everySubject()
	for _, worker := range append(Workers(), Setup) {
		for _, account := range accountsOf(worker) {
			t.Run(worker+" in "+account, func(t *testing.T) {
				t.Parallel()
				r := RightsOf(worker, account)
				for _, s := range publish {
					// One connection a cell: LastError must be this cell's.
					if got, want := refuses(t, in.connect(t, worker, account), false, s), !r.mayPublish(s); got != want {
						t.Errorf("publish %s: refused %v, want %v", s, got, want)
					}
				}
				for _, s := range subscribe {
					if got, want := refuses(t, in.connect(t, worker, account), true, s), !r.maySubscribe(s); got != want {
						t.Errorf("subscribe %s: refused %v, want %v", s, got, want)
					}
				}
			})
		}
	}
}

// What the table itself must never say, whoever edits it.
func TestRightsNever(t *testing.T) {
	t.Parallel()
	only := map[string][]string{ // subject: who alone may publish it, in BROKER
		"tally.v1.ledger.acme.reserved":             {Scribe},
		"tally.v1.command.acme.x.reserve":           {Reserver, Settler},
		"$JS.API.STREAM.PURGE.COMMANDS":             {Settler},
		"$JS.API.STREAM.CREATE.OTHER":               {Setup},
		"$JS.API.STREAM.DELETE.LEDGER":              nil,
		"$JS.API.STREAM.PURGE.LEDGER":               nil,
		"$JS.API.STREAM.UPDATE.LEDGER":              nil,
		"$JS.API.STREAM.MSG.DELETE.LEDGER":          nil,
		"$JS.API.STREAM.RESTORE.LEDGER":             nil,
		"$JS.API.CONSUMER.DELETE.LEDGER.expiries":   nil,
		"$JS.API.CONSUMER.DELETE.COMMANDS.reserver": nil,
		"$KV.tally_agents.acme.x":                   {Registrar},
		"$KV.tally_tokens.x":                        {Registrar},
		"$KV.tally_meta.epoch.p00":                  {Reconciler, Registrar},
	}
	for subject, may := range only {
		for _, worker := range append(Workers(), Setup) {
			if got, want := RightsOf(worker, accountBroker).mayPublish(subject), slices.Contains(may, worker); got != want {
				t.Errorf("%s to %s: %v, want %v", worker, subject, got, want)
			}
		}
	}
	for _, worker := range []string{Reserver, Settler} {
		want := []string{"_INBOX.>", "tally.v1.*.*.decision.*"}
		if got := RightsOf(worker, accountAgents).Publish; !slices.Equal(got, want) {
			t.Errorf("%s publishes in AGENTS: %v", worker, got)
		}
	}
}
