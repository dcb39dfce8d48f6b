package topology

import (
	"tallystick/pkg/events"
)

// AgentRights are what an agent's connection may do: its own doors, its own
// decisions, its own inbox. bootstrap is the inbox part derived from its token
// for the one question of who it is, see BootstrapInbox.
func AgentRights(org, agent, bootstrap string) Rights {
	return Rights{
		Publish: []string{
			events.Rpc(org, agent, "*"), events.Cmd(org, agent, "*"),
			"$SYS.REQ.USER.INFO",
		},
		Subscribe: []string{
			events.Decision(org, agent, "*"), events.InboxPrefix(agent) + ".>", "_INBOX." + bootstrap + ".>",
		},
	}
}

// PipelineRights are what a pipeline identity's connection may do: fetch from
// its own consumer and acknowledge there.
func PipelineRights(org, pipeline, bootstrap string) Rights {
	consumer := events.StreamDecisions + "." + events.PipelineConsumer(org, pipeline)
	return Rights{
		Publish: []string{
			"$JS.API.CONSUMER.MSG.NEXT." + consumer,
			"$JS.ACK." + consumer + ".>", "$JS.ACK.*.*." + consumer + ".>",
			"$SYS.REQ.USER.INFO",
		},
		Subscribe: []string{events.InboxPrefix(pipeline) + ".>", "_INBOX." + bootstrap + ".>"},
	}
}

// PipelineServices are what BROKER exports and PIPELINES imports. A request
// across the border gets a reply subject of the server's own, so an answer
// reaches the caller's account and nothing in BROKER, whatever reply the caller
// has chosen. Nothing else of $JS.API can be among them: in an account without
// JetStream the server itself answers it, with an error.
func PipelineServices() []string {
	return []string{
		"$JS.API.CONSUMER.MSG.NEXT." + events.StreamDecisions + ".*",
		"$JS.ACK." + events.StreamDecisions + ".>",
		"$JS.ACK.*.*." + events.StreamDecisions + ".>",
	}
}

// BootstrapInbox is the inbox part of a client that has a token and does not
// know yet who it is: the first half of the token's SHA-256, in hex.
func BootstrapInbox(tokenHash string) string { return tokenHash[:32] }

// OperatorRights are what the operator's connection may do: every verb, under
// nobody else's name. For bootstrap see AgentRights.
func OperatorRights(bootstrap string) Rights {
	return Rights{
		Publish:   []string{events.AllAdmin, "$SYS.REQ.USER.INFO"},
		Subscribe: []string{"_INBOX.admin.>", "_INBOX." + bootstrap + ".>"},
	}
}

// AdminRights are what the connection of an org's admin may do: the verbs of
// its role under its own name, and its own inbox. For bootstrap see
// AgentRights.
func AdminRights(org, admin, role, bootstrap string) Rights {
	r := Rights{
		Publish:   []string{"$SYS.REQ.USER.INFO"},
		Subscribe: []string{events.AdminInboxPrefix(admin) + ".>", "_INBOX." + bootstrap + ".>"},
	}
	for _, verb := range events.RoleVerbs(role) {
		r.Publish = append(r.Publish, events.OrgAdmin(org, admin, verb))
	}
	return r
}
