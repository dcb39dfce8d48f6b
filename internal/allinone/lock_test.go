package allinone

import (
	"syscall"
	"testing"
)

// The lock is free once it is closed, also while a child that is being started
// still has a copy of the file.
func TestLockIsGivenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); err == nil {
		t.Fatal("two hold one directory")
	}
	copied, err := syscall.Dup(int(first.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(copied)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := lock(dir)
	if err != nil {
		t.Fatalf("after it was closed: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
