package redisx

import (
	"strings"
	"testing"

	"tallystick/pkg/budget"
)

func TestSegCountsBytes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "0:", "p": "1:p", "a:b": "3:a:b", "é": "2:é", "e\u0301": "3:e\u0301", "😀": "4:😀"} {
		if got := seg(in); got != want {
			t.Errorf("seg(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestKeyShapes(t *testing.T) {
	t.Parallel()
	k := newPartitionKeys(7)
	for got, want := range map[string]string{
		k.limit("acme", budget.LimitID{Pool: "p", Unit: "tokens", Period: "none"}): "bp:{p07}4:acme1:p6:tokens4:none",
		k.record("x"):                   "reservation:{p07}1:x",
		k.live("acme", "a1"):            "live:{p07}4:acme2:a1",
		k.slot("acme", "p", "openai/*"): "concurrency:{p07}4:acme1:p8:openai/*",
		k.expiring + k.revoked + k.opened + k.epoch + k.outbox: "expiring:{p07}revoked:{p07}opened:{p07}epoch:{p07}outbox:{p07}",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := partitionOf("idem", 16); got != 14 {
		t.Errorf("partition of idem: %d", got)
	}
	if id := ExecutionID("o", "a", "reserve", "k"); len(id) != 36 || id[14] != '8' || !strings.ContainsRune("89ab", rune(id[19])) {
		t.Errorf("%s is no UUIDv8", id)
	}
}

func TestExpandRefuses(t *testing.T) {
	t.Parallel()
	if _, err := include("nowhere", ""); err == nil {
		t.Error("a missing include was accepted")
	}
}

// FuzzParse: neither records nor entries from a damaged Redis panic.
func FuzzParse(f *testing.F) {
	f.Add("1 held 1 2 3 0\nff\no\ta\t\t\nu=1\np\tu\tnone\n\n{}\n\n")
	f.Add("1 reserved 1 2 x\nh+1\n\n1 held 1 2 3 0\nff\no\ta\t\t\nu=1\np\tu\tnone\n\n{}\n\n")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = ParseRecord(text)
		_, _ = ParseEntry(1, "1-1", text)
	})
}
