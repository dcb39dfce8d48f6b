package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/checkpoint"
	"tallystick/pkg/events"
)

func (e *environment) ledgerCheckpoint() *cobra.Command {
	var org string
	var now bool
	c := &cobra.Command{
		Use: "checkpoint --org ORG", Short: "Print an org's newest signed checkpoint",
		Example: "  tallystick ledger checkpoint --org acme --now > acme.checkpoint",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := map[string]any{"org": org}
			if now {
				req["now"] = true
			}
			return e.admin(cmd, events.AdminCheckpoint, "", req, func(body []byte) error {
				a, err := decode[events.LedgerCheckpointAnswer](body)
				if err == nil {
					_, err = fmt.Fprint(e.out, a.Checkpoint)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	c.Flags().BoolVar(&now, "now", false, "sign one of the chain as it is now")
	require(c, "org")
	return c
}

// ledgerKey works on files alone: a signing key never travels.
func (e *environment) ledgerKey() *cobra.Command {
	return group("key", "The key that signs checkpoints, as files",
		"  tallystick ledger key rotate --key data/keys/checkpoint.key   # a running reconciler signs with it from then on",
		e.keyCommand("new", "Make a key, where there is none", checkpoint.Create),
		e.keyCommand("rotate", "Replace the key; what it has signed is still verified", func(path, _ string) (string, error) { return checkpoint.Rotate(path) }),
		e.keyList())
}

// keyPath is the named key, or the data directory's.
func (e *environment) keyPath(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	if data := e.dataDir(); data != "" {
		return checkpoint.KeyIn(data), nil
	}
	return "", usagef("which key? --key FILE, or --data DIR")
}

func (e *environment) keyCommand(use, short string, work func(path, name string) (string, error)) *cobra.Command {
	var path, name string
	c := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := e.keyPath(path)
			if err != nil {
				return err
			}
			public, err := work(path, name)
			if err != nil {
				return err
			}
			return e.showKeys(path, []string{public})
		},
	}
	c.Flags().StringVar(&path, "key", "", "`FILE` of the signing key; its verifier keys are in FILE with .pub")
	if use == "new" {
		c.Flags().StringVar(&name, "name", "", "`NAME` of the installation in its checkpoints; default: made up")
	}
	return c
}

func (e *environment) keyList() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "list", Short: "List the verifier keys, oldest first", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := e.keyPath(path)
			if err != nil {
				return err
			}
			keys, err := checkpoint.Listed(checkpoint.PublicPath(path))
			if err != nil {
				return err
			}
			return e.showKeys(path, keys)
		},
	}
	c.Flags().StringVar(&path, "key", "", "`FILE` of the signing key")
	return c
}

func (e *environment) showKeys(path string, keys []string) error {
	if e.json() {
		return e.document(map[string]any{"key": path, "verifier_keys": keys})
	}
	_, err := fmt.Fprintln(e.out, strings.Join(keys, "\n"))
	return err
}
