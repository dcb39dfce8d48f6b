package scribe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tallystick/internal/ledger"
)

// anchor is a small file that remembers the ledger's last acknowledged entry:
// a stream that lost its tail cannot tell so itself.
type anchor struct {
	path    string
	written ledger.Head
}

// read gives the zero Head where there is no file yet.
func (a *anchor) read() (ledger.Head, error) {
	if a.path == "" {
		return ledger.Head{}, nil
	}
	text, err := os.ReadFile(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return ledger.Head{}, nil
	}
	if err != nil {
		return ledger.Head{}, fmt.Errorf("anchor: %w", err)
	}
	seq, hash, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, seqErr := strconv.ParseUint(seq, 10, 64)
	h, hashErr := ledger.ParseHash(hash)
	if err := errors.Join(seqErr, hashErr); err != nil {
		return ledger.Head{}, fmt.Errorf("anchor %s: %w", a.path, err)
	}
	return ledger.Head{StreamSeq: n, Hash: h}, nil
}

// write replaces the file as one step that survives a power loss.
func (a *anchor) write(head ledger.Head) error {
	if a.path == "" || head == a.written || head.StreamSeq == 0 {
		return nil
	}
	f, err := os.OpenFile(a.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("anchor: %w", err)
	}
	_, err = fmt.Fprintf(f, "%d %s\n", head.StreamSeq, head.Hash)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(a.path+".new", a.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(a.path))
	}
	if err != nil {
		return fmt.Errorf("anchor: %w", err)
	}
	a.written = head
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
