package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/ledger"
	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func (e *environment) ledgerCommand() *cobra.Command {
	return group("ledger", "Read, export and verify the ledger",
		"  tallystick ledger list --org acme\n  tallystick ledger export --org acme > acme.jsonl\n  tallystick ledger verify --file acme.jsonl",
		e.ledgerList(), e.ledgerTail(), e.ledgerExport(), e.ledgerVerify(), e.ledgerCheckpoint(), e.ledgerKey(),
		e.ledgerCorrect(), e.ledgerRefund(), e.ledgerDispute(), e.evidenceCommand(), e.ledgerAcceptLoss())
}

// page is one answer of the admin verb ledger.
type page struct {
	Entries []ledger.Message `json:"entries"`
	Last    uint64           `json:"last"`
	End     bool             `json:"end"`
}

// source is whose entries are read: from the ledger, or from its mirror.
type source struct {
	org    string
	mirror bool
}

func (s *source) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.org, "org", "", "`ORG`")
	c.Flags().BoolVar(&s.mirror, "mirror", false, "what the mirror in account AUDIT holds, which may be a moment behind")
}

// walk pages through an org's entries after a stream position, to the end as
// it was when it got there, and returns the last position.
func walk(ctx context.Context, op *client.Operator, from source, after uint64, visit func(ledger.Message) error) (uint64, error) {
	for {
		ask := map[string]any{"org": from.org, "after": after, "limit": events.LedgerLimitDefault}
		if from.mirror {
			ask["mirror"] = true
		}
		body, err := op.Do(ctx, events.AdminLedger, "", ask)
		if err != nil {
			return after, err
		}
		p, err := decode[page](body)
		if err != nil {
			return after, err
		}
		for _, m := range p.Entries {
			if err := visit(m); err != nil {
				return after, err
			}
			after = m.StreamSeq
		}
		after = max(after, p.Last)
		if p.End || len(p.Entries) == 0 {
			return after, nil
		}
	}
}

// brief is what a list shows of an entry.
type brief struct {
	At        string `json:"at"`
	Kind      string `json:"kind"`
	Execution string `json:"execution"`
	Agent     string `json:"agent"`
	Principal string `json:"on_behalf_of"`
	Key       string `json:"key"`
	Action    string `json:"action"`
	Subject   string `json:"subject"`
	By        string `json:"by"`
	Why       string `json:"why"`
	Moves     []struct {
		Pool     string `json:"pool"`
		Unit     string `json:"unit"`
		Held     int64  `json:"held"`
		Spent    int64  `json:"spent"`
		Withheld int64  `json:"withheld"`
		Cap      int64  `json:"cap"`
		Missing  bool   `json:"missing"`
	} `json:"moves"`
}

// concerns reports whether an entry was written on a principal's behalf; every
// entry concerns "". One that is unreadable is shown rather than left out.
func concerns(m ledger.Message, principal string) bool {
	if principal == "" {
		return true
	}
	var b brief
	return json.Unmarshal(m.Body, &b) != nil || b.Principal == principal
}

func entryLine(m ledger.Message) []any {
	var b brief
	if err := json.Unmarshal(m.Body, &b); err != nil {
		return []any{m.Seq, "?", "unreadable", "", "", err.Error()}
	}
	moves := strings.TrimSpace(b.Action + " " + b.Subject)
	for i, v := range b.Moves {
		if i > 0 {
			moves += "; "
		}
		moves += v.Pool
		for _, c := range []struct {
			name string
			n    int64
		}{{"held", v.Held}, {"spent", v.Spent}, {"withheld", v.Withheld}, {"cap", v.Cap}} {
			if c.n != 0 {
				moves += fmt.Sprintf(" %s %+d", c.name, c.n)
			}
		}
		moves += " " + v.Unit
		if v.Missing {
			moves += " (missing)"
		}
	}
	if b.By != "" && b.By != b.Agent {
		moves = strings.TrimSpace(moves + " by " + b.By)
	}
	if b.Why != "" {
		moves += ": " + b.Why
	}
	return []any{m.Seq, b.At, b.Kind, b.Agent, b.Key, moves}
}

func (e *environment) ledgerList() *cobra.Command {
	var from source
	var principal string
	var last int
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List an org's entries, oldest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var entries []ledger.Message
			err := e.operated(cmd, func(ctx context.Context, op *client.Operator) error {
				_, err := walk(ctx, op, from, 0, func(m ledger.Message) error {
					if !concerns(m, principal) {
						return nil
					}
					if entries = append(entries, m); last > 0 && len(entries) > last {
						entries = entries[1:]
					}
					return nil
				})
				return err
			})
			if err != nil {
				return err
			}
			if e.json() {
				return e.document(map[string]any{"org": from.org, "entries": nonNil(entries)})
			}
			t := newTable(e.out, "SEQ", "AT", "KIND", "AGENT", "KEY", "WHAT")
			for _, m := range entries {
				t.row(entryLine(m)...)
			}
			return t.flush()
		},
	}
	from.flags(c)
	c.Flags().StringVar(&principal, "principal", "", "only what was done on this `PRINCIPAL`'s behalf")
	c.Flags().IntVar(&last, "last", 0, "only the newest `N`")
	require(c, "org")
	return c
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (e *environment) ledgerTail() *cobra.Command {
	var org, principal string
	var from uint64
	c := &cobra.Command{
		Use: "tail --org ORG", Short: "Follow an org's entries until interrupted (-o json: one line each)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op, err := e.asOperator()
			if err != nil {
				return err
			}
			defer op.Close()
			return e.follow(cmd.Context(), op, org, principal, from)
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	c.Flags().StringVar(&principal, "principal", "", "only what was done on this `PRINCIPAL`'s behalf")
	c.Flags().Uint64Var(&from, "after", 0, "start after this position of the stream")
	require(c, "org")
	return c
}

// follow polls: operators have no rights in the account of the stream, and a
// person does not read faster than twice a second.
func (e *environment) follow(ctx context.Context, op *client.Operator, org, principal string, after uint64) error {
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	for {
		next, err := walk(ctx, op, source{org: org}, after, func(m ledger.Message) error {
			if !concerns(m, principal) {
				return nil
			}
			if e.json() {
				return ledger.Export(e.out, m)
			}
			l := entryLine(m)
			_, err := fmt.Fprintln(e.out, printableText(fmt.Sprintf("%6d  %s  %-15s %s  %s", l[0], l[1], l[2], l[4], l[5])))
			return err
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		after = next
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
}

func (e *environment) ledgerExport() *cobra.Command {
	var from source
	var file string
	c := &cobra.Command{
		Use: "export --org ORG", Short: "Write an org's entries as JSON lines, for `verify --file` or an auditor", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := e.out
			if file != "" {
				f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err != nil {
					return err
				}
				defer f.Close()
				out = f
			}
			n := 0
			progress := e.progress("exported", "entries")
			err := e.operated(cmd, func(ctx context.Context, op *client.Operator) error {
				_, err := walk(ctx, op, from, 0, func(m ledger.Message) error {
					n++
					progress(n)
					return ledger.Export(out, m)
				})
				return err
			})
			if err == nil {
				e.note("%d entries", n)
			}
			return err
		},
	}
	from.flags(c)
	c.Flags().StringVar(&file, "file", "", "write to a new `FILE` instead of stdout")
	require(c, "org")
	return c
}

// document prints a value as the one JSON document of this command.
func (e *environment) document(v any) error {
	enc := json.NewEncoder(e.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// operated runs work with an operator's connection. Work over a whole ledger
// has no time-out of its own: it shows progress and can be interrupted.
func (e *environment) operated(cmd *cobra.Command, work func(context.Context, *client.Operator) error) error {
	op, err := e.asOperator()
	if err != nil {
		return err
	}
	defer op.Close()
	return work(cmd.Context(), op)
}

// progress tells a person now and then how far long work is.
func (e *environment) progress(did, what string) func(int) {
	next := time.Now().Add(2 * time.Second)
	return func(n int) {
		if now := time.Now(); now.After(next) {
			next = now.Add(2 * time.Second)
			e.note("%s %d %s so far", did, n, what)
		}
	}
}
