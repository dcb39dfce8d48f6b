//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package client

import (
	"errors"
	"os"
	"syscall"
)

// lockFile keeps two clients off one journal. The kernel drops the lock with
// the process, so a killed one leaves nothing to clean up.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrJournalInUse
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
