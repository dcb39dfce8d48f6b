// Package checkpoint makes and reads signed checkpoints: what an org's chain
// was at one moment, vouched for by a key that no worker that writes entries
// can read. Whoever keeps one can tell later whether history was cut or
// written anew.
//
// The form is a C2SP tlog-checkpoint in a C2SP signed note:
//
//	tallystick-4f1c09a2/acme                       origin: installation, org
//	1024                                           entries
//	9v2yJ0…=                                       hash of the last one, base64
//	time 2026-12-01T10:11:12.345678Z               extension
//
//	— tallystick-4f1c09a2 q8Xk…=                   key id and Ed25519 signature
//
// Keys live in files, see [Keys]. The hash is the head of a chain, not the
// root of a tree: the form is the specification's, its proofs are not there.
package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/ledger"
	"tallystick/pkg/events"
)

// Conditions of Keys.Open.
var (
	// ErrMalformed: the text is no checkpoint.
	ErrMalformed = errors.New("malformed checkpoint")
	// ErrUnknownKey: no key that signed it is among the known ones.
	ErrUnknownKey = errors.New("the checkpoint is signed by no known key")
	// ErrBadSignature: a known key is named, and the signature is not its own.
	ErrBadSignature = errors.New("the checkpoint's signature is wrong")
)

// Checkpoint is what an org's chain was.
type Checkpoint struct {
	Name  string // of the installation: the key's
	Org   string
	Count uint64 // entries, which is the sequence of the last one
	Head  ledger.Hash
	At    time.Time
}

// timeLine begins the extension line with the time of signing.
const timeLine = "time "

// text is the body that is signed.
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s/%s\n%d\n%s\n%s%s\n", c.Name, c.Org, c.Count,
		base64.StdEncoding.EncodeToString(c.Head[:]), timeLine, events.FormatTime(c.At))
}

// Parse reads a signed note without looking at who signed it.
func Parse(text string) (Checkpoint, error) {
	body, signatures, ok := strings.Cut(text, "\n\n")
	if !ok || !strings.HasPrefix(signatures, "— ") {
		return Checkpoint{}, fmt.Errorf("%w: no blank line with signatures behind it", ErrMalformed)
	}
	return parse(body + "\n")
}

// parse is exact: what it reads is written again byte by byte, so two texts
// never mean the same.
func parse(body string) (c Checkpoint, err error) {
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[3], timeLine) {
		return c, fmt.Errorf("%w: want the lines origin, count, hash and time", ErrMalformed)
	}
	c.Name, c.Org, _ = strings.Cut(lines[0], "/")
	c.Count, err = strconv.ParseUint(lines[1], 10, 64)
	if err != nil {
		return c, fmt.Errorf("%w: count %q", ErrMalformed, lines[1])
	}
	head, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(head) != len(c.Head) {
		return c, fmt.Errorf("%w: hash %q is not 32 bytes of base64", ErrMalformed, lines[2])
	}
	copy(c.Head[:], head)
	if c.At, err = time.Parse(time.RFC3339Nano, lines[3][len(timeLine):]); err != nil {
		return c, fmt.Errorf("%w: time: %w", ErrMalformed, err)
	}
	if c.Name == "" || !events.ValidOrg(c.Org) || !strings.HasPrefix(body, c.text()) {
		return c, fmt.Errorf("%w: not in its canonical form", ErrMalformed)
	}
	return c, nil
}

// Open reads a checkpoint and checks its signature against known keys.
func Open(text string, known note.Verifiers) (Checkpoint, error) {
	n, err := note.Open([]byte(text), known)
	var unknown *note.UnverifiedNoteError
	var wrong *note.InvalidSignatureError
	switch {
	case errors.As(err, &unknown):
		if _, err := parse(unknown.Note.Text); err != nil {
			return Checkpoint{}, err
		}
		return Checkpoint{}, fmt.Errorf("%w: %s", ErrUnknownKey, signers(unknown.Note.UnverifiedSigs))
	case errors.As(err, &wrong):
		return Checkpoint{}, fmt.Errorf("%w: key %s+%08x", ErrBadSignature, wrong.Name, wrong.Hash)
	case err != nil:
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := parse(n.Text)
	if err != nil {
		return c, err
	}
	for _, s := range n.Sigs {
		if s.Name == c.Name {
			return c, nil
		}
	}
	return c, fmt.Errorf("%w: %s did not sign for %s", ErrUnknownKey, signers(n.Sigs), c.Name)
}

func signers(sigs []note.Signature) string {
	names := make([]string, len(sigs))
	for i, s := range sigs {
		names[i] = fmt.Sprintf("%s+%08x", s.Name, s.Hash)
	}
	return strings.Join(names, ", ")
}
