package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/bcrypt"
)

// MaxPayload is the server's bound on one message: a page of the ledger for an
// operator is the largest. AgentPayload is an agent's: the contract's 64 KiB,
// headers, and room to be told that it sent too much.
const (
	MaxPayload   = 1 << 20
	AgentPayload = 256 << 10
)

// NATSServer is what differs between installations.
type NATSServer struct {
	Listen   string // host:port
	StoreDir string
	// HashPasswords writes bcrypt hashes, for a file that stays on disk.
	HashPasswords bool
}

// NATSConf is the server's configuration: accounts, users with their rights,
// the auth callout, JetStream that fsyncs always.
func NATSConf(s NATSServer, set Set) (string, error) {
	registrar := set[Registrar]
	if registrar.Callout == nil {
		return "", fmt.Errorf("nats.conf: the set has no callout key")
	}
	issuer, err := nkeys.FromSeed([]byte(registrar.Callout.IssuerSeed))
	if err != nil {
		return "", fmt.Errorf("nats.conf: callout key: %w", err)
	}
	public, err := issuer.PublicKey()
	if err != nil {
		return "", fmt.Errorf("nats.conf: callout key: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %q\nserver_name: \"tallystick\"\nmax_payload: %d\n", s.Listen, MaxPayload)
	fmt.Fprintf(&b, "jetstream {\n  store_dir: %q\n  sync_interval: always\n}\n", s.StoreDir)
	users := []string{}
	accounts := map[string]string{
		accountAgents: AccountAgents, accountBroker: AccountBroker, accountAdmin: AccountAdmin, accountAuth: AccountAuth,
		accountAudit: AccountAudit,
	}
	b.WriteString("accounts {\n")
	for _, account := range []string{accountAgents, accountBroker, accountAdmin, accountAuth, accountAudit} {
		fmt.Fprintf(&b, "  %s {\n", accounts[account])
		writeBorder(&b, account)
		b.WriteString("    users: [\n")
		for _, worker := range append(Workers(), Setup) {
			if !slices.Contains(accountsOf(worker), account) {
				continue
			}
			u := set[worker].user(account)
			if err := writeUser(&b, s, u, RightsOf(worker, account)); err != nil {
				return "", err
			}
			users = append(users, u.User)
		}
		b.WriteString("    ]\n  }\n")
	}
	fmt.Fprintf(&b, "  %s {\n", AccountPipelines)
	writeBorder(&b, AccountPipelines)
	fmt.Fprintf(&b, "  }\n  %s {}\n}\nsystem_account: %s\n", AccountSystem, AccountSystem)
	fmt.Fprintf(&b, "authorization {\n  timeout: 5\n  auth_callout {\n    issuer: %s\n    account: %s\n    auth_users: %s\n  }\n}\n",
		public, AccountAuth, list(users))
	return b.String(), nil
}

// writeBorder writes an account's JetStream, exports and imports.
func writeBorder(b *strings.Builder, account string) {
	switch account {
	case accountBroker:
		b.WriteString("    jetstream: enabled\n    exports: [\n")
		for _, subject := range PipelineServices() {
			fmt.Fprintf(b, "      { service: %q, response_type: stream, accounts: [%s] }\n", subject, AccountPipelines)
		}
		for _, subject := range mirrorServices() {
			fmt.Fprintf(b, "      { service: %q, accounts: [%s] }\n", subject, AccountAudit)
		}
		fmt.Fprintf(b, "      { stream: %q, accounts: [%s] }\n    ]\n", mirrorDeliver+".>", AccountAudit)
	case accountAudit:
		b.WriteString("    jetstream: enabled\n    imports: [\n")
		for _, subject := range mirrorServices() {
			to := strings.Replace(subject, "$JS.API.", mirrorAPI+".", 1)
			fmt.Fprintf(b, "      { service: { account: %s, subject: %q }, to: %q }\n", AccountBroker, subject, to)
		}
		fmt.Fprintf(b, "      { stream: { account: %s, subject: %q } }\n    ]\n", AccountBroker, mirrorDeliver+".>")
	case AccountPipelines:
		b.WriteString("    imports: [\n")
		for _, subject := range PipelineServices() {
			fmt.Fprintf(b, "      { service: { account: %s, subject: %q } }\n", AccountBroker, subject)
		}
		b.WriteString("    ]\n")
	}
}

func writeUser(b *strings.Builder, s NATSServer, u User, r Rights) error {
	password := u.Password
	if s.HashPasswords {
		hash, err := bcrypt.GenerateFromPassword([]byte(u.Password), bcrypt.MinCost) // 32 random bytes need no stretching
		if err != nil {
			return fmt.Errorf("nats.conf: %w", err)
		}
		password = string(hash)
	}
	fmt.Fprintf(b, "      { user: %q, password: %q, permissions: { publish: { allow: %s, deny: %s }, subscribe: { allow: %s } } }\n",
		u.User, password, list(r.Publish), list(r.DenyPublish), list(r.Subscribe))
	return nil
}

// list is a configuration array of quoted words. An empty allow list would
// mean everything, so it denies by naming nothing that exists.
func list(words []string) string {
	if len(words) == 0 {
		return `["$NONE"]`
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
