package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Names of the files in a folder of keys.
const (
	KeyFile  = "checkpoint.key" // the signing key: mode 0600, read by the reconciler alone
	KeysFile = "checkpoint.pub" // every verifier key there ever was, one a line
)

// KeyIn is where the signing key of a data directory is.
func KeyIn(dataDir string) string { return filepath.Join(dataDir, "keys", KeyFile) }

// PublicPath is where the verifier keys of a signing key are: beside it.
func PublicPath(keyPath string) string { return strings.TrimSuffix(keyPath, ".key") + ".pub" }

// Keys are a signing key and the verifier keys beside it. The files are read
// again for every use, so a rotation needs no restart.
type Keys struct{ path string }

// NewKeys are the keys of a signing key's file.
func NewKeys(path string) Keys { return Keys{path: path} }

// Sign makes the signed note of a checkpoint, in the key's name.
func (k Keys) Sign(c Checkpoint) (string, error) {
	signer, err := loadSigner(k.path)
	if err != nil {
		return "", err
	}
	c.Name = signer.Name()
	text, err := note.Sign(&note.Note{Text: c.text()}, signer)
	if err != nil {
		return "", fmt.Errorf("sign checkpoint: %w", err)
	}
	return string(text), nil
}

// Open reads a checkpoint that one of the keys has signed.
func (k Keys) Open(text string) (Checkpoint, error) {
	known, err := LoadVerifiers(PublicPath(k.path))
	if err != nil {
		return Checkpoint{}, err
	}
	return Open(text, known)
}

// Check reads both files and finds out whether they belong together: a
// signature that nobody could check is worth nothing.
func (k Keys) Check() error {
	signer, err := loadSigner(k.path)
	if err != nil {
		return err
	}
	known, err := LoadVerifiers(PublicPath(k.path))
	if err != nil {
		return err
	}
	if _, err := known.Verifier(signer.Name(), signer.KeyHash()); err != nil {
		return fmt.Errorf("checkpoint keys: %s does not list the key of %s: %w", PublicPath(k.path), k.path, err)
	}
	return nil
}

// loadSigner refuses a key that others can read.
func loadSigner(path string) (note.Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("checkpoint key: %s may be read by others (mode %04o); run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint key: %w", err)
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("checkpoint key: %s holds none", path) // never its text
	}
	return signer, nil
}

// LoadVerifiers reads a file of verifier keys: one a line, # begins a comment.
func LoadVerifiers(path string) (note.Verifiers, error) {
	lines, err := loadLines(path)
	if err != nil {
		return nil, err
	}
	var known []note.Verifier
	for _, line := range lines {
		v, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("verifier keys: %s: %q: %w", path, line, err)
		}
		known = append(known, v)
	}
	return note.VerifierList(known...), nil
}

// Listed are the verifier keys in a file as they stand there, oldest first.
func Listed(path string) ([]string, error) { return loadLines(path) }

func loadLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("verifier keys: %w", err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("verifier keys: %s holds none", path)
	}
	return lines, nil
}

// Generate makes a key pair as the two files hold it; name "" makes one up.
func Generate(name string) (private, public string, err error) {
	if name == "" {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		name = "tallystick-" + hex.EncodeToString(b[:])
	}
	if strings.ContainsAny(name, "/+ \t\n") {
		return "", "", fmt.Errorf("a key's name must be without space, / and +, not %q", name)
	}
	private, public, err = note.GenerateKey(rand.Reader, name)
	return private + "\n", public + "\n", err
}

// Create makes a first key pair, and refuses where one is.
func Create(path, name string) (public string, err error) {
	for _, p := range []string{path, PublicPath(path)} {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: it exists; a key is replaced by rotating it", p)
		}
	}
	private, public, err := Generate(name)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return strings.TrimSpace(public), writePair(path, private, public)
}

// Ensure makes a key pair where there is none, and checks one that is there.
func Ensure(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		// Verifier keys alone are what a crash between the two files left, or
		// a lost signing key: a new one joins them.
		if _, err := os.Lstat(PublicPath(path)); err == nil {
			_, err = Rotate(path)
			return err
		}
		_, err = Create(path, "")
		return err
	}
	return NewKeys(path).Check()
}

// Rotate makes a new signing key of the same name. Its verifier key joins the
// others, so what the old key has signed is still verified.
func Rotate(path string) (public string, err error) {
	lines, err := loadLines(PublicPath(path))
	if err != nil {
		return "", err
	}
	last, err := note.NewVerifier(lines[len(lines)-1])
	if err != nil {
		return "", fmt.Errorf("verifier keys: %s: %w", PublicPath(path), err)
	}
	private, public, err := Generate(last.Name())
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(public), writePair(path, private, strings.Join(lines, "\n")+"\n"+public)
}

// writePair writes the verifier keys first: a key that signs is always known.
func writePair(path, private, public string) error {
	if err := WriteFile(PublicPath(path), public, 0o644); err != nil {
		return err
	}
	return WriteFile(path, private, 0o600)
}

// WriteFile replaces a file in one step and makes it last.
func WriteFile(path, text string, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(f.Name()))
	}
	return nil
}
