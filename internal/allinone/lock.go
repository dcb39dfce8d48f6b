package allinone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock keeps two systems off one directory. The kernel drops it with the
// process, so a killed one leaves nothing to clean up.
func lock(dir string) (dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "up.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return dirLock{}, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another tallystick runs on %s.\nhint: stop it, or use another --data directory", dir)
	}
	if err != nil {
		return dirLock{}, errors.Join(err, f.Close())
	}
	return dirLock{f}, nil
}

// dirLock is a directory's lock.
type dirLock struct{ file *os.File }

// Close gives the lock back. Closing alone would not: a child that is just
// being started has a copy of the file until it runs its own program.
func (h dirLock) Close() error {
	return errors.Join(syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN), h.file.Close())
}
