package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tallystick/internal/app"
	"tallystick/internal/checkpoint"
	"tallystick/internal/topology"
)

func (e *environment) credentialsCommand() *cobra.Command {
	var out, listen, store string
	c := &cobra.Command{
		Use:   "credentials --out DIR",
		Short: "Write credentials, nats.conf and users.acl for workers that run apart",
		Long: `Writes one credentials file per worker, the configuration of the NATS server and
the users of Redis, and the key that signs checkpoints, all from one set of fresh passwords and keys, with the same
rights as inside "tallystick up". The directory must not exist yet.`,
		Example: `  tallystick credentials --out creds
  nats-server -c creds/nats.conf &
  redis-server --aclfile creds/users.acl --appendonly yes --appendfsync always &
  tallystick setup --credentials creds/setup.json
  reserver --credentials creds/reserver.json      # and so on for each worker`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			names, err := writeCredentials(out, listen, store)
			if err != nil {
				return err
			}
			if e.json() {
				return e.document(map[string]any{"outcome": "written", "dir": out, "files": names})
			}
			fmt.Fprintf(e.out, "wrote %s to %s\n", strings.Join(names, ", "), out)
			e.note("next: start both servers with them, then tallystick setup --credentials %s", filepath.Join(out, "setup.json"))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&out, "out", "", "new `DIR` (mode 0700)")
	f.StringVar(&listen, "nats", "127.0.0.1:4222", "`HOST:PORT` that the NATS server listens at")
	f.StringVar(&store, "nats-store", "jetstream", "`DIR` of the NATS server's streams")
	require(c, "out")
	return c
}

// redisAdmin is who may do everything in Redis: a person, not a worker.
const redisAdmin = "admin"

func writeCredentials(dir, listen, store string) ([]string, error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("--out %s: it exists; credentials are never written over others", dir)
	}
	token, password := topology.NewToken(), topology.NewToken()
	set, err := topology.Generate(topology.TokenHash(token))
	if err != nil {
		return nil, err
	}
	conf, err := topology.NATSConf(topology.NATSServer{Listen: listen, StoreDir: store, HashPasswords: true}, set)
	if err != nil {
		return nil, err
	}
	acl := append(topology.RedisACL(set), fmt.Sprintf("user %s on #%x ~* &* +@all", redisAdmin, sha256.Sum256([]byte(password))))
	private, public, err := checkpoint.Generate("")
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		checkpoint.KeyFile:     private,
		checkpoint.KeysFile:    public,
		"nats.conf":            conf,
		"users.acl":            strings.Join(acl, "\n") + "\n",
		"operator.token":       token + "\n",
		"redis-admin.password": password + "\n",
	}
	for worker, c := range set {
		b, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return nil, err
		}
		files[worker+".json"] = string(b) + "\n"
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return sortedKeys(files), writeAll(dir, files)
}

func writeAll(dir string, files map[string]string) error {
	for _, name := range sortedKeys(files) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (e *environment) setupCommand() *cobra.Command {
	var path string
	var replicas int
	c := &cobra.Command{
		Use:     "setup --credentials DIR/setup.json",
		Short:   "Make streams and buckets on a NATS server that was started by hand",
		Example: "  tallystick setup --credentials creds/setup.json --url nats://127.0.0.1:4222 --replicas 3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			creds, err := topology.LoadCredentials(path)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), e.timeout)
			defer cancel()
			url := e.url
			if url == "" {
				url = e.env("TALLY_URL")
			}
			if url == "" {
				url = app.DefaultNATSURL
			}
			if err := app.Setup(ctx, url, creds, replicas, zerolog.Nop()); err != nil {
				return err
			}
			if e.json() {
				return e.document(map[string]any{"outcome": "ready", "nats_url": url})
			}
			fmt.Fprintf(e.out, "streams and buckets are there at %s\n", url)
			return nil
		},
	}
	c.Flags().StringVar(&path, "credentials", "", "`FILE` of the user setup")
	c.Flags().IntVar(&replicas, "replicas", 1, "of streams and buckets: 3 in a cluster")
	require(c, "credentials")
	return c
}
