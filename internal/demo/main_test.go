package demo

import (
	"testing"

	"tallystick/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
