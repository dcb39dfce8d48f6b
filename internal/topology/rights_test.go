package topology

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

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

// Every role times every subject: the server allows what the table says and
// refuses everything else.
func TestRightsAreEnforced(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	publish, subscribe := EverySubject()
	for _, worker := range append(Workers(), Setup) {
		for _, account := range accountsOf(worker) {
			t.Run(worker+" in "+account, func(t *testing.T) {
				t.Parallel()
				r := RightsOf(worker, account)
				nc := in.connect(t, worker, account)
				for _, s := range publish { // each once, so an error that names it is its own
					if got, want := refuses(t, nc, false, s), !r.MayPublish(s); got != want {
						t.Errorf("publish %s: refused %v, want %v", s, got, want)
					}
				}
				for _, s := range subscribe { // the same subject with several queues: one connection each
					if got, want := refuses(t, in.connect(t, worker, account), true, s), !r.MaySubscribe(s); got != want {
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
		"$KV.tally_pipelines.acme.x":                {Registrar},
		"tally.v1.decision.acme.x.y":                {Reserver, Settler},
		"$JS.API.CONSUMER.CREATE.DECISIONS.x.y":     {Registrar, Setup},
		"$JS.API.CONSUMER.MSG.NEXT.DECISIONS.x":     {Setup},
		"$JS.API.STREAM.PURGE.DECISIONS":            nil,
		"$JS.ACK.DECISIONS.x.1.1.1.1.0":             nil,
		"$KV.tally_tokens.x":                        {Registrar},
		"$KV.tally_admins.acme":                     {Registrar},
		"$KV.tally_meta.epoch.p00":                  {Reconciler, Registrar},
		"$O.tally_evidence.M.x":                     {Reconciler},
		"$JS.API.STREAM.PURGE.OBJ_tally_evidence":   nil,
		"$JS.API.STREAM.PURGE.OBJ_tally_reports":    nil,
		"$JS.API.STREAM.PURGE.OBJ_tally_folds":      {Reconciler},
	}
	for subject, may := range only {
		for _, worker := range append(Workers(), Setup) {
			if got, want := RightsOf(worker, accountBroker).MayPublish(subject), slices.Contains(may, worker); got != want {
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
