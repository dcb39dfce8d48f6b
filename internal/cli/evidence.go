package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func (e *environment) evidenceCommand() *cobra.Command {
	return group("evidence", "Files that corrections rest on: kept under the SHA-256 of their content",
		`  tallystick ledger evidence put --org acme invoice.pdf --reason 'dispute 7'
  tallystick ledger evidence list --org acme
  tallystick ledger evidence get --org acme --id 9f86… --file copy.pdf`,
		e.evidencePut(), e.evidenceGet(), e.evidenceList())
}

func (e *environment) evidencePut() *cobra.Command {
	var org, name string
	c := &cobra.Command{
		Use: "put --org ORG FILE", Short: "Store a file and print its id; again: the same id",
		Long: `Store a file of at most 10 MiB and print its id. Its type is taken from its
content: PDF, PNG, JPEG, WebP, plain text, CSV, JSON or a mail. A file whose
content contradicts the ending of its name is refused.`,
		Args: exactly("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := readEvidence(args[0])
			if err != nil {
				return err
			}
			if !set(cmd, "name") {
				name = filepath.Base(args[0])
			}
			var body []byte
			err = e.operated(cmd, func(ctx context.Context, op *client.Operator) error {
				body, err = e.upload(ctx, op, org, name, content)
				return err
			})
			if err != nil {
				return err
			}
			if e.json() {
				return e.raw(body)
			}
			a, err := events.ParseEvidencePutAnswer(body)
			if err != nil {
				return err
			}
			t := newTable(e.out)
			t.row("evidence", a.Evidence)
			t.row("type", a.Type)
			t.row("size", a.Size)
			if !a.Fresh {
				e.note("it was there already")
			}
			return t.flush()
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	c.Flags().StringVar(&name, "name", "", "label for people; default: the file's own name")
	require(c, "org")
	return c
}

// readEvidence reads a file no further than one byte beyond what is allowed.
func readEvidence(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, events.MaxEvidenceBytes+1))
	if err == nil && len(content) > events.MaxEvidenceBytes {
		err = events.EvidenceTooLarge()
	}
	return content, err
}

// upload sends part after part; the last answer tells of the file.
func (e *environment) upload(ctx context.Context, op *client.Operator, org, name string, content []byte) (body []byte, err error) {
	sum := sha256.Sum256(content)
	q := events.EvidencePut{Org: org, Evidence: hex.EncodeToString(sum[:]), Parts: max(1, int64(len(content)+events.EvidencePartBytes-1)/events.EvidencePartBytes)}
	if name != "" {
		q.Name = &name
	}
	for ; q.Part < q.Parts; q.Part++ {
		n := min(len(content), events.EvidencePartBytes)
		q.Data, content = content[:n], content[n:]
		if body, err = e.askOnce(ctx, op, events.AdminEvidencePut, q); err != nil {
			return nil, err
		}
		a, err := events.ParseEvidencePutAnswer(body)
		if err != nil {
			return nil, err
		}
		if a.Outcome == events.OutcomeStored { // it may have been there before
			break
		}
	}
	return body, nil
}

// askOnce is one request of several, with the time of one.
func (e *environment) askOnce(ctx context.Context, op *client.Operator, verb string, q any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	return op.Do(ctx, verb, "", q)
}

func (e *environment) evidenceGet() *cobra.Command {
	var org, id, file string
	c := &cobra.Command{
		Use: "get --org ORG --id ID --file FILE", Short: "Write a copy to a new file, after comparing its content with the id",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var content []byte
			var row events.EvidenceRow
			err := e.operated(cmd, func(ctx context.Context, op *client.Operator) (err error) {
				content, row, err = e.download(ctx, op, org, id)
				return err
			})
			if err != nil {
				return err
			}
			if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != id {
				return &exitError{events.ExitDrift, "what was answered is not the file of this id: nothing is written"}
			}
			if err := writeNew(file, content); err != nil {
				return err
			}
			if e.json() {
				return e.document(row)
			}
			return e.evidenceRows(row)
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	c.Flags().StringVar(&id, "id", "", "`ID`: the file's SHA-256 in hex")
	c.Flags().StringVar(&file, "file", "", "a new `FILE`; one that is there is left alone")
	require(c, "org", "id", "file")
	return c
}

func (e *environment) download(ctx context.Context, op *client.Operator, org, id string) (content []byte, row events.EvidenceRow, err error) {
	for part, parts := int64(0), int64(1); part < parts; part++ {
		body, err := e.askOnce(ctx, op, events.AdminEvidenceGet, events.EvidenceGet{Org: org, Evidence: id, Part: &part})
		if err != nil {
			return nil, row, err
		}
		a, err := events.ParseEvidenceGetAnswer(body)
		if err != nil {
			return nil, row, err
		}
		if a.Parts > events.MaxEvidenceParts {
			return nil, row, fmt.Errorf("the answer is not what was expected: %d parts", a.Parts)
		}
		content, row, parts = append(content, a.Data...), a.EvidenceRow, a.Parts
	}
	return content, row, nil
}

// writeNew writes a file that must not exist, and leaves none where it fails.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func (e *environment) evidenceList() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List an org's evidence", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var rows []events.EvidenceRow
			err := e.operated(cmd, func(ctx context.Context, op *client.Operator) error {
				for q := (events.EvidenceList{Org: org}); ; {
					body, err := e.askOnce(ctx, op, events.AdminEvidenceList, q)
					if err != nil {
						return err
					}
					page, err := events.ParseEvidenceListAnswer(body)
					if err != nil {
						return err
					}
					rows = append(rows, page.Evidence...)
					if page.Cursor == "" {
						return nil
					}
					q.Cursor = &page.Cursor
				}
			})
			if err != nil {
				return err
			}
			if e.json() {
				return e.document(events.EvidenceListAnswer{Evidence: nonNil(rows)})
			}
			return e.evidenceRows(rows...)
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

func (e *environment) evidenceRows(rows ...events.EvidenceRow) error {
	t := newTable(e.out, "EVIDENCE", "TYPE", "SIZE", "STORED", "NAME")
	for _, r := range rows {
		t.row(r.Evidence, r.Type, r.Size, r.StoredAt, r.Name)
	}
	return t.flush()
}
