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

// BootstrapInbox is the inbox part of a client that has a token and does not
// know yet which agent it is: the first half of the token's SHA-256, in hex.
func BootstrapInbox(tokenHash string) string { return tokenHash[:32] }

// OperatorRights are what an operator's connection may do.
func OperatorRights() Rights {
	return Rights{Publish: []string{events.AllAdmin, "$SYS.REQ.USER.INFO"}, Subscribe: []string{"_INBOX.admin.>"}}
}
