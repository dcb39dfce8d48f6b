package demo

import (
	"testing"

	"go.uber.org/goleak"

	"tallystick/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testkit.LibraryLeaks()...) }
