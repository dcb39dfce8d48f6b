package e2e

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// testRightsAreEnough: after all of the above Redis has refused nothing, and
// neither has NATS.
func (p *apart) testRightsAreEnough() {
	denied, err := p.redis().Do(p.Context(), "ACL", "LOG").Slice()
	if err != nil || len(denied) != 0 {
		p.Errorf("Redis refused: %v, %v", denied, err)
	}
	for line := range strings.Lines(p.logs()) {
		for _, word := range []string{"NOPERM", "Permissions Violation", "permissions violation", "Authorization Violation"} {
			if strings.Contains(line, word) {
				p.Errorf("%s", line)
			}
		}
	}
}

// testRedisRightsAreLeast: no worker can do what no script of it does.
func (p *apart) testRedisRightsAreLeast() {
	everyone := []string{
		"FLUSHALL", "FLUSHDB", "KEYS *", "CONFIG SET maxmemory-policy allkeys-lru", "SHUTDOWN NOSAVE", "ACL LIST", "ACL WHOAMI",
		"EVAL return 0", "SCRIPT FLUSH", "FUNCTION LIST", "MONITOR", "REPLICAOF NO ONE", "CLIENT LIST",
		"SAVE", "BGREWRITEAOF", "SWAPDB 0 1", "GET other", "GET {p00}", "RANDOMKEY", "RENAME bp:{p00}x bp:{p00}y",
	}
	foreign := map[string][]string{
		"reserver":   {"HMGET scribe:{p00} position", "GET quarantine:{p00}", "DEL bp:{p00}x", "HSET bp:{p00}x cap 9", "XTRIM outbox:{p00} MAXLEN 0"},
		"settler":    {"GET similar:{p00}x", "HMGET opened:{p00} x", "DEL reservation:{p00}x", "HSET revoked:{p00} x 1"},
		"scribe":     {"HGET bp:{p00}x held", "GET reservation:{p00}x", "XADD outbox:{p00} * e x", "SET epoch:{p00} x"},
		"reaper":     {"HMGET opened:{p00} x", "GET similar:{p00}x", "DEL bp:{p00}x"},
		"reconciler": {"GET other:{p00}", "FLUSHALL ASYNC", "RESTORE bp:{p00}x 0 x"},
		"registrar":  {"GET scribe:{p00}", "DEL bp:{p00}x", "XTRIM outbox:{p00} MAXLEN 0", "GET quarantine:{p00}"},
	}
	for _, worker := range workers() {
		c := p.asWorker(worker)
		if err := c.Ping(p.Context()).Err(); err != nil {
			p.Fatalf("%s: %v", worker, err)
		}
		for _, text := range append(everyone, foreign[worker]...) {
			var args []any
			for _, w := range strings.Fields(text) {
				args = append(args, w)
			}
			if text == "EVAL return 0" {
				args = []any{"EVAL", "return 0", 0}
			}
			if err := c.Do(p.Context(), args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				p.Errorf("%s may %s: %v", worker, text, err)
			}
		}
	}
}

// testNATSRightsAreLeast: the written nats.conf keeps every user to its own.
func (p *apart) testNATSRightsAreLeast() {
	for _, user := range []struct{ worker, account, publish, subscribe string }{
		{"scribe", "broker", "$JS.API.STREAM.DELETE.LEDGER", "tally.v1.ledger.>"},
		{"scribe", "broker", "$JS.API.STREAM.PURGE.LEDGER", "$KV.>"},
		{"setup", "broker", "$JS.API.STREAM.DELETE.LEDGER", "tally.v1.>"},
		{"setup", "broker", "tally.v1.ledger.acme.reserved", ">"},
		{"reserver", "broker", "tally.v1.ledger.acme.reserved", "$JS.ACK.>"},
		{"reserver", "broker", "$JS.API.STREAM.PURGE.COMMANDS", "_INBOX.settler.>"},
		{"reserver", "broker", "$JS.API.CONSUMER.MSG.NEXT.DECISIONS.x", "tally.v1.decision.>"},
		{"registrar", "broker", "tally.v1.decision.acme.x.y", "$JS.ACK.>"},
		{"reserver", "agents", "tally.v1.acme.x.rpc.reserve", "tally.v1.*.*.rpc.settle"},
		{"settler", "admin", "tally.v1.admin.pool_set", "tally.v1.admin.pool_set"},
		{"reaper", "broker", "$KV.tally_pools.x", "$KV.tally_tokens.>"},
		{"reconciler", "broker", "tally.v1.ledger.acme.reserved", "_INBOX.>"},
		{"reconciler", "broker", "$JS.API.STREAM.PURGE.OBJ_tally_evidence", "$O.tally_evidence.>"},
		{"registrar", "broker", "$KV.tally_uploads.x", "$KV.tally_uploads.>"},
		{"registrar", "broker", "tally.v1.ledger.acme.reserved", "tally.v1.command.>"},
		{"registrar", "auth", "$SYS.REQ.SERVER.PING", "$SYS.>"},
	} {
		p.mayNot(user.worker, user.account, user.publish, user.subscribe)
	}
	p.accepts(nats.Connect(p.address.NATS))
	p.accepts(nats.Connect(p.address.NATS, nats.UserInfo("scribe.broker", "guess")))
	p.accepts(nats.Connect(p.address.NATS, nats.Token("tly_"+strings.Repeat("0", 49))))
	if _, err := p.streams().Stream(p.Context(), "LEDGER"); err != nil {
		p.Errorf("the ledger: %v", err)
	}
}

// accepts reports a connection that should have been refused.
func (p *apart) accepts(nc *nats.Conn, err error) {
	p.Helper()
	if err == nil {
		nc.Close()
		p.Error("a stranger was let in")
	}
}

// mayNot is refused both by the server.
func (p *apart) mayNot(worker, account, publish, subscribe string) {
	p.Helper()
	violations := make(chan string, 16)
	nc, err := nats.Connect(p.address.NATS, p.user(worker, account), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		violations <- err.Error()
	}))
	if err != nil {
		p.Fatalf("%s in %s: %v", worker, account, err)
	}
	defer nc.Close()
	if err := nc.Publish(publish, nil); err != nil {
		p.Fatal(err)
	}
	refused(p.TB, worker+" in "+account, violations, publish)
	if _, err := nc.SubscribeSync(subscribe); err != nil {
		p.Fatal(err)
	}
	refused(p.TB, worker+" in "+account, violations, subscribe)
}
