package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tallystick/internal/checkpoint"
	"tallystick/internal/ledger"
	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// verification is what verify is asked.
type verification struct{ org, file, against, keys string }

// verified is what verify answers: Signature is of the checkpoint, if there is one.
type verified struct {
	ledger.Verification
	Signature string `json:"signature,omitempty"` // valid or unchecked
}

const (
	signatureValid     = "valid"
	signatureUnchecked = "unchecked"
)

func (e *environment) ledgerVerify() *cobra.Command {
	var q verification
	c := &cobra.Command{
		Use: "verify (--org ORG | --file EXPORT)", Short: "Verify an org's hash chain, online or offline, and against a checkpoint",
		Example: "  tallystick ledger verify --org acme                       # against the newest checkpoint\n" +
			"  tallystick ledger verify --file acme.jsonl --against acme.checkpoint --keys checkpoint.pub",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.file == "" && q.org == "" {
				return usagef("verify wants --org ORG, or --file EXPORT")
			}
			held, signature, err := e.heldAgainst(cmd, q)
			if err != nil {
				return err
			}
			if q.org == "" && held != nil {
				q.org = held.Org
			}
			v := ledger.NewVerifier(q.org)
			if held != nil {
				v.Against(held.Count, held.Head)
			}
			if err := e.feed(cmd, q, v); err != nil {
				return err
			}
			return e.showVerification(verified{v.Result(), signature})
		},
	}
	f := c.Flags()
	f.StringVar(&q.org, "org", "", "`ORG`")
	f.StringVar(&q.file, "file", "", "an `EXPORT`; - for stdin; needs no server")
	f.StringVar(&q.against, "against", "", "a signed `CHECKPOINT`; without --file the newest published one")
	f.StringVar(&q.keys, "keys", "", "`FILE` of verifier keys; default: of the data directory")
	return c
}

// feed gives every entry to the verifier.
func (e *environment) feed(cmd *cobra.Command, q verification, v *ledger.Verifier) error {
	if q.file != "" {
		var in io.Reader = os.Stdin
		if q.file != "-" {
			f, err := os.Open(q.file)
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		if _, err := ledger.VerifyExport(in, v); err != nil {
			return &exitError{events.ExitDrift, "verify: " + err.Error()}
		}
		return nil
	}
	n := 0
	progress := e.progress("verified", "entries")
	return e.operated(cmd, func(ctx context.Context, op *client.Operator) error {
		_, err := walk(ctx, op, q.org, 0, func(m ledger.Message) error {
			n++
			progress(n)
			v.Add(m)
			return nil
		})
		return err
	})
}

// heldAgainst reads the checkpoint to hold the chain against; nil for none.
func (e *environment) heldAgainst(cmd *cobra.Command, q verification) (*checkpoint.Checkpoint, string, error) {
	var text string
	switch {
	case q.against != "":
		b, err := os.ReadFile(q.against)
		if err != nil {
			return nil, "", err
		}
		text = string(b)
	case q.file == "":
		err := e.operated(cmd, func(ctx context.Context, op *client.Operator) (err error) {
			text, err = published(ctx, op, q.org)
			return err
		})
		if err != nil {
			return nil, "", err
		}
	}
	if text == "" {
		return nil, "", nil
	}
	c, signature, err := e.openCheckpoint(text, q.keys)
	if err != nil {
		return nil, "", &exitError{events.ExitDrift, "verify: " + err.Error()}
	}
	if q.org != "" && c.Org != q.org {
		return nil, "", &exitError{events.ExitDrift, fmt.Sprintf("verify: the checkpoint is of %s, not of %s", c.Org, q.org)}
	}
	return &c, signature, nil
}

// published asks for the newest checkpoint; none is "".
func published(ctx context.Context, op *client.Operator, org string) (string, error) {
	body, err := op.Do(ctx, events.AdminCheckpoint, "", map[string]any{"org": org})
	var refused *events.Error
	if errors.As(err, &refused) && refused.Code == events.CodeNotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	a, err := decode[events.LedgerCheckpointAnswer](body)
	return a.Checkpoint, err
}

// openCheckpoint checks the signature, or says clearly that it could not.
func (e *environment) openCheckpoint(text, keys string) (checkpoint.Checkpoint, string, error) {
	if keys == "" {
		if data := e.dataDir(); data != "" {
			keys = checkpoint.PublicPath(checkpoint.KeyIn(data))
			if _, err := os.Stat(keys); err != nil {
				keys = ""
			}
		}
	}
	if keys == "" {
		e.note("the checkpoint's signature was NOT checked: no verifier keys at hand; name them with --keys")
		c, err := checkpoint.Parse(text)
		return c, signatureUnchecked, err
	}
	known, err := checkpoint.LoadVerifiers(keys)
	if err != nil {
		return checkpoint.Checkpoint{}, "", err
	}
	c, err := checkpoint.Open(text, known)
	return c, signatureValid, err
}

func (e *environment) showVerification(v verified) error {
	if e.json() {
		if err := e.document(v); err != nil {
			return err
		}
	} else if err := e.verificationTable(v); err != nil {
		return err
	}
	if v.Verdict != ledger.VerdictOK {
		return &exitError{code: events.ExitDrift}
	}
	return nil
}

func (e *environment) verificationTable(v verified) error {
	t := newTable(e.out)
	t.row("org", v.Org)
	t.row("entries", v.Entries)
	t.row("head", v.Head)
	if v.Checkpoint != nil {
		t.row("checkpoint", fmt.Sprintf("%d entries, signature %s", *v.Checkpoint, v.Signature))
	}
	t.row("verdict", v.Verdict)
	if v.FirstBad != nil {
		t.row("first bad", *v.FirstBad)
	}
	if v.MissingTo > 0 {
		t.row("missing", fmt.Sprintf("%d–%d", v.MissingFrom, v.MissingTo))
	}
	return t.flush()
}
