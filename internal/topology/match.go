package topology

import (
	"slices"
	"strings"

	"tallystick/pkg/events"
)

// Covers reports whether every subject of pattern b is one of pattern a.
func Covers(a, b string) bool {
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

// MayPublish reports whether these rights let a subject be published.
func (r Rights) MayPublish(subject string) bool {
	is := func(p string) bool { return Covers(p, subject) }
	return slices.ContainsFunc(r.Publish, is) && !slices.ContainsFunc(r.DenyPublish, is)
}

// MaySubscribe reports whether these rights let an entry "subject" or "subject
// queue" be subscribed: one with a queue allows that queue alone.
func (r Rights) MaySubscribe(entry string) bool {
	subject, queue, _ := strings.Cut(entry, " ")
	return slices.ContainsFunc(r.Subscribe, func(p string) bool {
		allowed, group, bound := strings.Cut(p, " ")
		return Covers(allowed, subject) && (!bound || group == queue)
	})
}

// EverySubject is what a test of rights tries: what any worker may publish and
// subscribe, each request of the JetStream API on each stream, and what would
// do harm, with words in the place of wildcards.
func EverySubject() (publish, subscribe []string) {
	for _, worker := range append(Workers(), Setup) {
		for _, account := range accountsOf(worker) {
			r := RightsOf(worker, account)
			for _, p := range append(r.Publish, r.DenyPublish...) {
				publish = append(publish, Concrete(p))
			}
			subscribe = append(subscribe, r.Subscribe...)
		}
	}
	for _, s := range Streams(1) {
		for _, request := range streamRequests {
			publish = append(publish, strings.ReplaceAll(request, "STREAM_NAME", s.Name))
		}
	}
	for _, store := range ObjectStores() {
		publish = append(publish, "$O."+store+".M.x", dropObjects(store)[0], "$JS.API.STREAM.DELETE."+objectStreamName(store))
	}
	for _, request := range streamRequests {
		publish = append(publish, strings.ReplaceAll(request, "STREAM_NAME", events.StreamMirror), strings.Replace(strings.ReplaceAll(request, "STREAM_NAME", events.StreamLedger), "$JS.API", mirrorAPI, 1))
	}
	publish = append(publish, mirrorDeliver+".x", "$KV."+events.BucketCheckpoints+".acme")
	publish, subscribe = append(publish, hostile...), append(subscribe, eavesdrops...)
	slices.Sort(publish)
	slices.Sort(subscribe)
	return slices.Compact(publish), slices.Compact(subscribe)
}

// Concrete puts words where a pattern has wildcards.
func Concrete(pattern string) string {
	words := strings.Split(pattern, ".")
	for i, w := range words {
		if w == "*" || w == ">" {
			words[i] = "w"
		}
	}
	return strings.Join(words, ".")
}

// streamRequests are the requests of the JetStream API that name a stream.
var streamRequests = []string{ //nolint:gochecknoglobals // a constant
	"$JS.API.STREAM.CREATE.STREAM_NAME", "$JS.API.STREAM.UPDATE.STREAM_NAME", "$JS.API.STREAM.DELETE.STREAM_NAME",
	"$JS.API.STREAM.PURGE.STREAM_NAME", "$JS.API.STREAM.INFO.STREAM_NAME", "$JS.API.STREAM.MSG.GET.STREAM_NAME",
	"$JS.API.STREAM.MSG.DELETE.STREAM_NAME", "$JS.API.STREAM.SNAPSHOT.STREAM_NAME", "$JS.API.STREAM.RESTORE.STREAM_NAME",
	"$JS.API.STREAM.LEADER.STEPDOWN.STREAM_NAME", "$JS.API.STREAM.PEER.REMOVE.STREAM_NAME", "$JS.API.DIRECT.GET.STREAM_NAME",
	"$JS.API.CONSUMER.CREATE.STREAM_NAME", "$JS.API.CONSUMER.CREATE.STREAM_NAME.x", "$JS.API.CONSUMER.CREATE.STREAM_NAME.x.y",
	"$JS.API.CONSUMER.DURABLE.CREATE.STREAM_NAME.x", "$JS.API.CONSUMER.DELETE.STREAM_NAME.x", "$JS.API.CONSUMER.INFO.STREAM_NAME.x",
	"$JS.API.CONSUMER.LIST.STREAM_NAME", "$JS.API.CONSUMER.NAMES.STREAM_NAME", "$JS.API.CONSUMER.PAUSE.STREAM_NAME.x",
	"$JS.API.CONSUMER.UNPIN.STREAM_NAME.x", "$JS.API.CONSUMER.MSG.NEXT.STREAM_NAME.x", "$JS.API.CONSUMER.LEADER.STEPDOWN.STREAM_NAME.x",
	"$JS.ACK.STREAM_NAME.x.1.1.1.1.1", "$JS.ACK.D.h.STREAM_NAME.x.1.1.1.1.1", "$JS.FC.STREAM_NAME.x.y",
}

// hostile are subjects that somebody could hit, beside all that anybody may
// use.
var hostile = []string{ //nolint:gochecknoglobals // a constant
	"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.OTHER", "$JS.API.META.LEADER.STEPDOWN",
	"$JS.API.ACCOUNT.PURGE.BROKER", "$JS.API.SERVER.REMOVE", "$JS.API.CONSUMER.CREATE.LEDGER.expiries.x",
	"$JS.API.CONSUMER.DELETE.LEDGER.expiries", "$JS.API.CONSUMER.DELETE.COMMANDS.reserver", "$JS.API.CONSUMER.MSG.NEXT.COMMANDS.reserver",
	"$JS.API.CONSUMER.MSG.NEXT.COMMANDS.settler", "$JS.ACK.COMMANDS.settler.1.2.3.4.5",
	"$KV.tally_orgs.acme", "$KV.tally_pools.acme.x", "$KV.tally_agents.acme.x", "$KV.tally_pipelines.acme.x", "$KV.tally_principals.acme.x",
	"$KV.tally_tokens.x",
	"$KV.tally_admins.acme", "$KV.tally_meta.epoch.p00", "tally.v1.decision.acme.x.y", "tally.v1.ledger.acme.reserved",
	"tally.v1.event.acme.drift", "tally.v1.dead.acme.reserve", "tally.v1.command.acme.x.reserve", "tally.v1.acme.x.rpc.reserve",
	"tally.v1.acme.x.cmd.reserve", "tally.v1.acme.x.decision.abc", "tally.v1.admin.pool_set", "tally.v1.admin.acme.x.pool_set",
	"$SYS.REQ.USER.AUTH", "$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.ACCOUNT.x.CONNECT",
	"_INBOX.x.y", "_INBOX.admin.y", "_INBOX.reserver.y", "_INBOX.registrar.y",
}

var eavesdrops = []string{ //nolint:gochecknoglobals // a constant
	">", "*.>", "tally.>", "tally.v1.>", "tally.v1.acme.>", "$JS.>", "$KV.>", "$SYS.>", "_INBOX.>", "_INBOX.*.>", "tally.v1.*.*.rpc.*",
	"tally.v1.*.*.rpc.reserve", "tally.v1.*.*.rpc.reserve other", "tally.v1.*.*.cmd.settle", "tally.v1.*.*.decision.*",
	"tally.v1.decision.>", "tally.v1.event.>", "tally.v1.command.>", "tally.v1.admin.>", "tally.v1.admin.settle",
	"tally.v1.admin.*.*.settle", "tally.v1.ledger.>", "$SYS.REQ.USER.AUTH", "$SYS.REQ.USER.AUTH other",
}
