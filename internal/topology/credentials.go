package topology

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nkeys"
)

// Names of the workers, as in their credentials and in Redis's user list.
const (
	Reserver   = "reserver"
	Settler    = "settler"
	Scribe     = "scribe"
	Reaper     = "reaper"
	Reconciler = "reconciler"
	Registrar  = "registrar"

	// Setup makes streams and buckets before the workers connect. No worker
	// has its rights.
	Setup = "setup"
)

// Workers lists every worker.
func Workers() []string {
	return []string{Reserver, Settler, Scribe, Reaper, Reconciler, Registrar}
}

// User is a name and a password.
type User struct {
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// NATSUsers are a worker's users, one per account it connects to.
type NATSUsers struct {
	Broker User `json:"broker,omitzero"`
	Agents User `json:"agents,omitzero"`
	Admin  User `json:"admin,omitzero"`
	Auth   User `json:"auth,omitzero"`
	Audit  User `json:"audit,omitzero"`
}

// Callout is what the registrar needs to vouch for agents and operators.
type Callout struct {
	IssuerSeed     string `json:"issuer_seed"`
	AdminTokenHash string `json:"admin_token_sha256"` // hex
}

// Credentials are one worker's secrets: a file of mode 0600.
type Credentials struct {
	Worker  string    `json:"worker"`
	NATS    NATSUsers `json:"nats"`
	Redis   User      `json:"redis,omitzero"`
	Callout *Callout  `json:"callout,omitempty"`
}

// Set holds the credentials of one installation, by worker.
type Set map[string]Credentials

// Generate makes fresh credentials for every worker. adminTokenHash is the
// SHA-256 of the operators' token, in hex.
func Generate(adminTokenHash string) (Set, error) {
	issuer, err := nkeys.CreateAccount()
	if err != nil {
		return nil, fmt.Errorf("callout key: %w", err)
	}
	seed, err := issuer.Seed()
	if err != nil {
		return nil, fmt.Errorf("callout key: %w", err)
	}
	set := Set{}
	for _, worker := range append(Workers(), Setup) {
		c := Credentials{Worker: worker, Redis: User{worker, secret()}}
		for _, account := range accountsOf(worker) {
			u := User{worker + "." + account, secret()}
			switch account {
			case accountBroker:
				c.NATS.Broker = u
			case accountAgents:
				c.NATS.Agents = u
			case accountAdmin:
				c.NATS.Admin = u
			case accountAuth:
				c.NATS.Auth = u
			case accountAudit:
				c.NATS.Audit = u
			}
		}
		if worker == Registrar {
			c.Callout = &Callout{IssuerSeed: string(seed), AdminTokenHash: adminTokenHash}
		}
		if worker == Setup {
			c.Redis = User{}
		}
		set[worker] = c
	}
	return set, nil
}

// user is the worker's user in an account.
func (c Credentials) user(account string) User {
	switch account {
	case accountBroker:
		return c.NATS.Broker
	case accountAgents:
		return c.NATS.Agents
	case accountAdmin:
		return c.NATS.Admin
	case accountAudit:
		return c.NATS.Audit
	}
	return c.NATS.Auth
}

// secret is 32 random bytes as text.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// LoadCredentials reads a worker's file and refuses one that others can read.
func LoadCredentials(path string) (Credentials, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Credentials{}, fmt.Errorf("credentials: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Credentials{}, fmt.Errorf("credentials: %s may be read by others (mode %04o); run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Credentials{}, fmt.Errorf("credentials: %w", err)
	}
	var c Credentials
	if err := json.Unmarshal(text, &c); err != nil {
		return Credentials{}, fmt.Errorf("credentials: %s: %w", path, err)
	}
	return c, nil
}

// WriteCredentials writes one file per worker into a folder.
func WriteCredentials(dir string, set Set) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for worker, c := range set {
		text, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, worker+".json"), append(text, '\n'), 0o600); err != nil {
			return err
		}
	}
	return nil
}
