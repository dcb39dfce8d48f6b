package topology

import (
	"slices"

	"tallystick/pkg/events"
)

// Accounts, as the configuration names them.
const (
	AccountAgents = "AGENTS"
	AccountBroker = "BROKER"
	AccountAdmin  = "ADMIN"
	AccountAudit  = "AUDIT"
	AccountAuth   = "AUTH"
	AccountSystem = "SYS"
	// AccountPipelines is where pipeline identities live: without streams, and
	// with no way into BROKER but its exports.
	AccountPipelines = "PIPELINES"
)

// The same in user names.
const (
	accountBroker = "broker"
	accountAgents = "agents"
	accountAdmin  = "admin"
	accountAuth   = "auth"
	accountAudit  = "audit"
)

// Rights are what one user may publish and subscribe. An entry "subject queue"
// in Subscribe allows the subject in that queue group only. A deny wins.
type Rights struct{ Publish, DenyPublish, Subscribe []string }

// accountsOf lists the accounts a worker connects to.
func accountsOf(worker string) []string {
	switch worker {
	case Reserver:
		return []string{accountBroker, accountAgents}
	case Settler:
		return []string{accountBroker, accountAgents, accountAdmin}
	case Reconciler:
		return []string{accountBroker, accountAdmin, accountAudit}
	case Registrar:
		return []string{accountBroker, accountAgents, accountAdmin, accountAuth}
	case Setup:
		return []string{accountBroker, accountAudit}
	}
	return []string{accountBroker}
}

// RightsOf is what a worker may do in one account.
func RightsOf(worker, account string) Rights {
	switch account {
	case accountAgents:
		return agentsRights(worker)
	case accountAdmin:
		return adminRights(worker)
	case accountAuth:
		return Rights{Publish: []string{"$SYS._INBOX.>"}, Subscribe: []string{"$SYS.REQ.USER.AUTH " + worker}}
	case accountAudit:
		return auditRights(worker)
	}
	return brokerRights(worker)
}

// agentsRights: hear requests in the role's own queue group, answer into
// inboxes, publish decisions, and nothing else.
func agentsRights(worker string) Rights {
	r := Rights{Publish: []string{"_INBOX.>"}}
	verbs := map[string][]string{
		Reserver: {
			events.VerbReserve, events.VerbExtend, events.VerbCharge, events.VerbBalance, events.VerbReservation,
			events.VerbWhoami,
		},
		Settler:   {events.VerbSettle, events.VerbRelease},
		Registrar: {events.VerbRegister, events.VerbRevoke},
	}
	if worker != Registrar { // it has no durable door
		r.Publish = append(r.Publish, "tally.v1.*.*.decision.*")
	}
	for _, verb := range verbs[worker] {
		r.Subscribe = append(r.Subscribe, events.Rpc("*", "*", verb)+" "+worker)
		if events.BothDoors(verb) {
			r.Subscribe = append(r.Subscribe, events.Cmd("*", "*", verb)+" "+worker)
		}
	}
	return r
}

// AdminVerbs are the operators' verbs that a worker serves.
func AdminVerbs(worker string) []string {
	switch worker {
	case Settler:
		return []string{events.AdminSettle, events.AdminRelease}
	case Reconciler:
		return []string{
			events.AdminLedger, events.AdminCheckpoint, events.AdminReconcile, events.AdminRebuild, events.AdminAcceptLoss, events.AdminLedgerCorrect, events.AdminPrincipalBalance,
			events.AdminReportMake, events.AdminReportList, events.AdminReportGet,
			events.AdminEvidencePut, events.AdminEvidenceGet, events.AdminEvidenceList,
		}
	case Registrar:
		return []string{
			events.AdminOrgCreate, events.AdminOrgSet, events.AdminOrgShow, events.AdminPoolCreate, events.AdminPoolSet,
			events.AdminPoolFreeze, events.AdminPoolUnfreeze, events.AdminPoolClose, events.AdminPoolShow,
			events.AdminAgentRegister, events.AdminAgentList, events.AdminAgentShow, events.AdminAgentRevoke,
			events.AdminAgentRotate,
			events.AdminAdminAdd, events.AdminAdminList, events.AdminAdminSet, events.AdminAdminRemove, events.AdminAdminRotate,
			events.AdminPipelineCreate, events.AdminPipelineList, events.AdminPipelineRemove,
			events.AdminPrincipalCreate, events.AdminPrincipalSet, events.AdminPrincipalList, events.AdminPrincipalShow,
		}
	}
	return nil
}

func adminRights(worker string) Rights {
	r := Rights{Publish: []string{"_INBOX.admin.>"}}
	for _, verb := range AdminVerbs(worker) {
		r.Subscribe = append(r.Subscribe, events.Admin(verb)+" "+worker, events.OrgAdmin("*", "*", verb)+" "+worker)
	}
	return r
}

// brokerRights are each worker's rights on streams and buckets.
func brokerRights(worker string) Rights {
	r := Rights{Subscribe: []string{"_INBOX." + worker + ".>"}}
	add := func(subjects ...[]string) {
		for _, s := range subjects {
			r.Publish = append(r.Publish, s...)
		}
	}
	switch worker {
	case Setup:
		return Rights{Publish: []string{"$JS.API.>"}, DenyPublish: setupNever(events.StreamLedger), Subscribe: []string{"_INBOX.setup.>"}}
	case Reserver:
		add(intake(events.ConsumerReserver), readBuckets(append(structure(), events.BucketPrincipals)...), []string{events.AllEvents})
	case Settler:
		add(intake(events.ConsumerSettler), readBuckets(append(structure(), events.BucketAdmins)...), []string{events.AllEvents},
			// Nobody else empties COMMANDS behind the acknowledgements.
			[]string{"$JS.API.STREAM.PURGE.COMMANDS", "$JS.API.CONSUMER.INFO.COMMANDS.reserver"})
	case Scribe:
		add(readLedger(), []string{events.AllLedger, events.AllEvents},
			// Why it has halted, and whether an operator accepts that.
			readBucket(events.BucketMeta), []string{"$KV." + events.BucketMeta + ".loss.halted"})
	case Reaper:
		add(readLedger(), consume(events.StreamLedger, events.ConsumerExpiries), []string{events.AllEvents})
	case Reconciler:
		add(readLedger(), browse(events.StreamLedger), browse(events.StreamEvents), readBuckets(events.BucketMeta, events.BucketAdmins, events.BucketOrgs),
			writeBucket(events.BucketMeta), keepUploads(), []string{events.AllEvents, "$JS.API.STREAM.INFO." + events.StreamCommands})
		for _, store := range ObjectStores() {
			add(keepObjects(store))
		}
		add(dropObjects(events.StoreFolds))
		r.DenyPublish = notOthers(events.StreamLedger, events.ConsumerExpiries)
	case Registrar:
		add(readBuckets(Buckets()...), readLedger(), []string{events.AllEvents}, ownConsumers(events.StreamDecisions))
		for _, bucket := range Buckets() {
			add(writeBucket(bucket))
		}
	}
	slices.Sort(r.Publish)
	r.Publish = slices.Compact(r.Publish)
	return r
}

// intake: store commands, consume one's own, keep what was decided.
func intake(consumer string) []string {
	return append(consume(events.StreamCommands, consumer), events.AllCommands, events.AllDead, events.AllDecisions)
}

// consume: use one durable consumer that exists. Acknowledgements have two
// forms; servers move from the first to the second.
func consume(stream, consumer string) []string {
	return []string{
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.CONSUMER.INFO." + stream + "." + consumer,
		"$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		"$JS.ACK." + stream + "." + consumer + ".>",
		"$JS.ACK.*.*." + stream + "." + consumer + ".>",
	}
}

// ownConsumers: make and end consumers for others, and read with none.
func ownConsumers(stream string) []string {
	return []string{"$JS.API.CONSUMER.CREATE." + stream + ".>", "$JS.API.CONSUMER.DELETE." + stream + ".*"}
}

// setupNever: setting up makes and never unmakes; the ledger it cannot even
// change.
func setupNever(ledger string) []string {
	return []string{
		"$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.PURGE.>", "$JS.API.STREAM.MSG.DELETE.>",
		"$JS.API.STREAM.RESTORE.>", "$JS.API.STREAM.SNAPSHOT.>", "$JS.API.CONSUMER.DELETE.>",
		"$JS.API.STREAM.UPDATE." + ledger,
	}
}

// notOthers keeps a reader's hands off another worker's durable consumer.
func notOthers(stream, consumer string) []string {
	return []string{
		"$JS.API.CONSUMER.CREATE." + stream + "." + consumer,
		"$JS.API.CONSUMER.CREATE." + stream + "." + consumer + ".>",
		"$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		"$JS.API.CONSUMER.DELETE." + stream + "." + consumer,
	}
}

// browse: read a stream with consumers of one's own, which need no
// acknowledgement.
func browse(stream string) []string {
	return []string{
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.CONSUMER.CREATE." + stream + ".>",
		"$JS.API.CONSUMER.INFO." + stream + ".*",
		"$JS.API.CONSUMER.MSG.NEXT." + stream + ".*",
		"$JS.API.CONSUMER.DELETE." + stream + ".*",
		"$JS.FC." + stream + ".>",
	}
}

func readLedger() []string {
	return []string{"$JS.API.STREAM.INFO." + events.StreamLedger, "$JS.API.STREAM.MSG.GET." + events.StreamLedger}
}

// structure is what a decision needs to know; token hashes are not part of it.
func structure() []string {
	return []string{events.BucketOrgs, events.BucketPools, events.BucketAgents}
}

// readBuckets: follow what is named; the rest can be opened and not read.
func readBuckets(names ...string) []string {
	var out []string
	for _, bucket := range Buckets() {
		stream := "KV_" + bucket
		if !slices.Contains(names, bucket) {
			out = append(out, "$JS.API.STREAM.INFO."+stream)
			continue
		}
		out = append(out, browse(stream)...)
		out = append(out, "$JS.API.STREAM.MSG.GET."+stream)
	}
	return out
}

// readBucket: read single keys of one bucket.
func readBucket(name string) []string {
	return []string{"$JS.API.STREAM.INFO.KV_" + name, "$JS.API.STREAM.MSG.GET.KV_" + name}
}

func writeBucket(bucket string) []string { return []string{"$KV." + bucket + ".>"} }
