package testkit

import (
	"sync"
	"testing"
)

// shared is what all tests of a package use: started by the first that asks,
// ended by the last that leaves.
type shared[T interface{ end() }] struct {
	mu    sync.Mutex
	users int
	thing T
}

func (s *shared[T]) use(t testing.TB, start func() (T, error)) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		thing, err := start()
		if err != nil {
			t.Fatalf("redis-server: %v", err)
		}
		s.thing = thing
	}
	s.users++
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users--; s.users == 0 {
			s.thing.end()
		}
	})
	return s.thing
}
