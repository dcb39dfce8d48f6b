//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package client

import (
	"errors"
	"os"
)

// lockFile refuses: without a lock that ends with its process, two clients
// could both deliver what is left.
func lockFile(string) (*os.File, error) {
	return nil, errors.New("a journal needs a Unix system")
}
