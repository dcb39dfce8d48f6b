package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/uuid"

	"tallystick/pkg/events"
)

// Bounds of a journal, and its files' names.
const (
	maxJournalFiles = 4096
	maxPageBytes    = events.MaxPayloadBytes + 8<<10

	pageExt    = ".hold"
	tempExt    = ".tmp"
	corruptExt = ".corrupt"
	refusedExt = ".refused"
)

// ErrJournalInUse means that another client has this JournalDir.
var ErrJournalInUse = errors.New("client: another client uses this journal")

// ErrJournalFull means that too many files are in the JournalDir. Nothing new
// is reserved, because nothing could be written down; look at what was set
// aside there.
var ErrJournalFull = errors.New("client: the journal is full")

var errJournalClosed = errors.New("client: the journal is closed with its client")

// Stages of an entry.
const (
	stageOpen       = "open"       // the reserve may be out, the paid call is not
	stageDispatched = "dispatched" // the paid call may be out
	stageResolving  = "resolving"  // the request in the entry may be out
)

// entry is what one open hold would need if this process died now. It carries
// no token.
type entry struct {
	Org         string          `json:"org"`
	Agent       string          `json:"agent"`
	Key         string          `json:"key"`         // of the reserve
	ResolveKey  string          `json:"resolve_key"` // of the settle or release
	Stage       string          `json:"stage"`
	Reservation string          `json:"reservation,omitempty"`
	Verb        string          `json:"verb,omitempty"` // settle or release, once decided
	Body        json.RawMessage `json:"body,omitempty"`
}

// journal is a directory with one file per open hold. Its methods work on nil,
// where there is no journal.
type journal struct {
	dir  string
	lock *os.File

	recovering sync.Mutex // one recovery at a time

	// ending guards closed; whoever changes a file holds it for reading, so
	// that nothing is changed once the lock is given up.
	ending sync.RWMutex
	closed bool
	end    context.Context // ends with the client
	cancel context.CancelFunc

	mu    sync.Mutex
	files int
	live  map[string]bool // pages of holds that run in this process
	later bool            // a goroutine delivers what is left
	again bool            // more was left since it began its round
}

func openJournal(dir string) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("client: journal: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("client: journal %s: %w", dir, err)
	}
	j := &journal{dir: dir, lock: lock, live: map[string]bool{}}
	j.end, j.cancel = context.WithCancel(context.Background())
	names, err := os.ReadDir(dir)
	for _, f := range names {
		if !strings.HasSuffix(f.Name(), tempExt) {
			if strings.Contains(f.Name(), pageExt) {
				j.files++
			}
			continue
		}
		// What was not renamed was never relied on: the request that would
		// have followed it has not gone out.
		err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("client: journal: %w", err), j.close())
	}
	return j, nil
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	j.ending.Lock()
	defer j.ending.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	j.cancel()
	return j.lock.Close()
}

// page is one hold's file. Its methods work on nil. One hold writes one page
// at a time.
type page struct {
	j    *journal
	name string
	e    entry
}

// page starts a file; nothing is written before the first stage is.
func (j *journal) page(e entry) (*page, error) {
	if j == nil {
		return nil, nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("client: journal: %w", err)
	}
	p := &page{j: j, name: id.String() + pageExt, e: e}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.files >= maxJournalFiles {
		return nil, fmt.Errorf("%w: %d files in %s", ErrJournalFull, j.files, j.dir)
	}
	j.files++
	j.live[p.name] = true
	return p, nil
}

// trying is written before a reserve goes out under key.
func (p *page) trying(key string) error {
	if p == nil {
		return nil
	}
	e := p.e
	e.Key, e.Stage = key, stageOpen
	return p.write(e)
}

// dispatched is written before the paid call goes out.
func (p *page) dispatched(reservation string) error {
	if p == nil {
		return nil
	}
	e := p.e
	e.Reservation, e.Stage = reservation, stageDispatched
	return p.write(e)
}

// resolving is written before a settle or release goes out.
func (p *page) resolving(verb string, body []byte) error {
	if p == nil {
		return nil
	}
	e := p.e
	e.Verb, e.Body, e.Stage = verb, body, stageResolving
	return p.write(e)
}

// leave keeps the file for [Client.Recover].
func (p *page) leave() {
	if p == nil {
		return
	}
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	delete(p.j.live, p.name)
}

// done takes the file away: the broker has answered, so nothing is left to be
// told. Should the removal be lost, the same request is sent once more, under
// the same key.
func (p *page) done() error {
	if p == nil {
		return nil
	}
	p.j.ending.RLock()
	defer p.j.ending.RUnlock()
	if p.j.closed {
		return errJournalClosed
	}
	err := os.Remove(filepath.Join(p.j.dir, p.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.leave()
		return fmt.Errorf("client: journal: %w", err)
	}
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	delete(p.j.live, p.name)
	p.j.files--
	return nil
}

// write replaces the file in one step: a reader finds the old entry or the new
// one, also after a power cut.
func (p *page) write(e entry) error {
	p.j.ending.RLock()
	defer p.j.ending.RUnlock()
	if p.j.closed {
		return errJournalClosed
	}
	data, err := e.encode()
	if err != nil {
		return fmt.Errorf("client: journal: %w", err)
	}
	name := filepath.Join(p.j.dir, p.name)
	if err := writeSynced(name+tempExt, data); err != nil {
		return fmt.Errorf("client: journal: %w", err)
	}
	if err := os.Rename(name+tempExt, name); err != nil {
		return fmt.Errorf("client: journal: %w", err)
	}
	if err := syncDir(p.j.dir); err != nil {
		return fmt.Errorf("client: journal: %w", err)
	}
	p.e = e
	return nil
}

// encode writes the entry under its own digest: JSON alone would not notice a
// changed figure.
func (e entry) encode() ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	data := append([]byte(hex.EncodeToString(sum[:])+"\n"), body...)
	if len(data) > maxPageBytes {
		return nil, fmt.Errorf("an entry of %d bytes is too large", len(data))
	}
	return data, nil
}

func decodeEntry(data []byte) (e entry, err error) {
	sum, body, _ := bytes.Cut(data, []byte("\n"))
	want := sha256.Sum256(body)
	if string(sum) != hex.EncodeToString(want[:]) {
		return e, errors.New("the entry does not match its digest")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	return e, dec.Decode(&e)
}

func writeSynced(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
