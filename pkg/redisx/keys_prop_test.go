package redisx

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tallystick/internal/testkit"
	"tallystick/pkg/budget"
)

// tuple is what a key says.
type tuple struct {
	family    string
	partition int
	parts     []string
}

// partsOf is how many parts the keys of each family have.
var partsOf = map[string]int{ //nolint:gochecknoglobals // a constant
	"bp": 4, "concurrency": 3, "live": 2, "reservation": 1,
	"expiring": 0, "lapsing": 0, "revoked": 0, "epoch": 0, "opened": 0, "outbox": 0, "quarantine": 0, "scribe": 0, "outstanding": 0,
}

func families() []string {
	out := make([]string, 0, len(partsOf))
	for family := range partsOf {
		out = append(out, family)
	}
	slices.Sort(out)
	return out
}

func (a tuple) equal(b tuple) bool {
	return a.family == b.family && a.partition == b.partition && slices.Equal(a.parts, b.parts)
}

// key is what the package calls it.
func (a tuple) key() string {
	k, p := newPartitionKeys(a.partition), a.parts
	switch a.family {
	case "bp":
		return k.limit(p[0], budget.LimitID{Pool: p[1], Unit: p[2], Period: p[3]})
	case "concurrency":
		return k.slot(p[0], p[1], p[2])
	case "live":
		return k.live(p[0], p[1])
	case "reservation":
		return k.record(p[0])
	}
	return map[string]string{
		"expiring": k.expiring, "lapsing": k.lapsing, "revoked": k.revoked, "epoch": k.epoch, "opened": k.opened, "outbox": k.outbox,
		"quarantine": k.quarantine, "scribe": k.scribe, "outstanding": k.outstanding,
	}[a.family]
}

// readKey is the inverse of tuple.key.
func readKey(key string) (tuple, bool) {
	var a tuple
	family, rest, ok := strings.Cut(key, ":{p")
	if !ok || len(rest) < 3 || rest[2] != '}' {
		return a, false
	}
	n, err := strconv.Atoi(rest[:2])
	if err != nil || newPartitionKeys(n).tag != "{p"+rest[:3] { // +7
		return a, false
	}
	a.family, a.partition, rest = family, n, rest[3:]
	for rest != "" {
		var part string
		if part, rest, ok = unseg(rest); !ok {
			return a, false
		}
		a.parts = append(a.parts, part)
	}
	want, known := partsOf[family]
	return a, known && want == len(a.parts)
}

// hashSlot is the cluster slot of a key, from Redis's documentation: CRC16
// (XMODEM) of what stands between the first { and the first } after it, or of
// the whole key where nothing does.
func hashSlot(key string) int {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % 16384
}

type failer interface {
	Fatalf(format string, args ...any)
}

// sound checks all that keys promise, of one tuple and of each with the others.
func sound(t failer, tuples ...tuple) {
	seen := map[string]tuple{}
	for _, a := range tuples {
		key := a.key()
		if got, ok := readKey(key); !ok || !got.equal(a) {
			t.Fatalf("%#v is written %q and read %#v", a, key, got)
		}
		if got, want := hashSlot(key), hashSlot(newPartitionKeys(a.partition).tag); got != want {
			t.Fatalf("%q lies in slot %d, its partition in %d", key, got, want)
		}
		if b, twice := seen[key]; twice && !a.equal(b) {
			t.Fatalf("%#v and %#v: %q", a, b, key)
		}
		seen[key] = a
	}
}

// part draws names of up to 255 bytes: any bytes, any Unicode, and what looks
// like a piece of a key.
func part() *rapid.Generator[string] {
	bytes := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 255), func(b []byte) string { return string(b) })
	awkward := rapid.SampledFrom([]string{
		"", ":", "a", "a:b", "b:c", "1:a", "0:", "10", "{", "}", "{}", "{p07}", "}{p08}", "bp:{p07}", "\x00", "\n", "\r\n", "\t",
		"é", "e\u0301", "\u202e", "\u200d", "😀", "\xff", "\xc0\x80",
	})
	return rapid.OneOf(bytes, rapid.StringN(0, 60, 255), awkward, rapid.Map(awkward, seg))
}

func drawTuple(t *rapid.T, label string) tuple {
	a := tuple{family: rapid.SampledFrom(families()).Draw(t, label+" family"), partition: rapid.IntRange(0, 98).Draw(t, label+" partition")}
	for range partsOf[a.family] {
		a.parts = append(a.parts, part().Draw(t, label+" part"))
	}
	return a
}

// recut draws a tuple whose parts, run together, are another's: what naive
// joining takes for the same.
func recut(t *rapid.T, a tuple) tuple {
	b := tuple{family: rapid.SampledFrom(families()).Draw(t, "recut family"), partition: a.partition}
	text := strings.Join(a.parts, rapid.SampledFrom([]string{"", ":"}).Draw(t, "joint"))
	for range partsOf[b.family] {
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		b.parts, text = append(b.parts, text[:cut]), text[cut:]
		text = strings.TrimPrefix(text, rapid.SampledFrom([]string{"", ":"}).Draw(t, "lost"))
	}
	return b
}

// TestKeysNeverCollide: whatever the parts are, a key says which tuple it is
// of, two tuples have two keys, and all keys of a partition one cluster slot.
func TestKeysNeverCollide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawTuple(t, "a")
		sound(t, a, drawTuple(t, "b"), recut(t, a))
	})
}

// TestIDsNeverCollide: the same for the ids that are cut from a hash.
func TestIDsNeverCollide(t *testing.T) {
	t.Parallel()
	four := func(t *rapid.T, label string) []string { return rapid.SliceOfN(part(), 4, 4).Draw(t, label) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := four(t, "a"), four(t, "b")
		if rapid.Bool().Draw(t, "recut") {
			b = recut(t, tuple{partition: 0, parts: a}).parts
			b = append(b, make([]string, 4-len(b))...)
		}
		same := slices.Equal(a, b)
		if same != (ExecutionID(a[0], a[1], a[2], a[3]) == ExecutionID(b[0], b[1], b[2], b[3])) {
			t.Fatalf("execution ids of %q and %q", a, b)
		}
		if same = slices.Equal(a[:3], b[:3]); same != (keyID(a[0], a[1], a[2]) == keyID(b[0], b[1], b[2])) {
			t.Fatalf("key ids of %q and %q", a, b)
		}
	})
}

// TestOneSlotPerOrg: all keys of an org share a slot, with any number of
// partitions.
func TestOneSlotPerOrg(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		org, partitions := part().Draw(t, "org"), rapid.IntRange(1, 99).Draw(t, "partitions")
		p, slots := partitionOf(org, partitions), map[int]bool{}
		for _, family := range families() {
			a := tuple{family: family, partition: p}
			for i := range partsOf[family] {
				if i == 0 && family != "reservation" {
					a.parts = append(a.parts, org)
				} else {
					a.parts = append(a.parts, part().Draw(t, family))
				}
			}
			slots[hashSlot(a.key())] = true
		}
		if len(slots) != 1 {
			t.Fatalf("keys of %q lie in slots %v", org, slots)
		}
	})
}

// TestUnsegIsStrict: a segment has one spelling.
func TestUnsegIsStrict(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", ":", "1", "1:", "2:a", "01:a", "+1:a", "-0:", "-1:a", " 1:a", "1 :a", "0x1:a", "99999999999999999999:a", "9223372036854775807:a"} {
		if part, _, ok := unseg(bad); ok {
			t.Errorf("%q was read as %q", bad, part)
		}
		if c, err := parseField(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, c)
		}
	}
	good := fieldOf("o", budget.LimitID{Pool: "1:a", Unit: "", Period: "}"})
	if c, err := parseField(good); err != nil || c != (budget.Counter{Org: "o", LimitID: budget.LimitID{Pool: "1:a", Period: "}"}}) {
		t.Errorf("%q was read as %+v, %v", good, c, err)
	}
	if _, err := parseField(good + "0:"); err == nil {
		t.Error("a fifth part was accepted")
	}
}

// TestHashSlotIsRedis: the tests' own hashSlot is the one Redis uses.
func TestHashSlotIsRedis(t *testing.T) {
	t.Parallel()
	c, k := testkit.Cluster(t), newPartitionKeys(7)
	for _, key := range []string{
		"123456789", "", "{}a", "{a", "a}", "}{a}{b}", "{{a}}", "é\x00\n", k.limit("o", budget.LimitID{Pool: "}{p08}", Unit: "\xff"}),
	} {
		if got, err := c.ClusterKeySlot(t.Context(), key).Result(); err != nil || int(got) != hashSlot(key) {
			t.Errorf("%q: Redis says %d, %v; the test %d", key, got, err, hashSlot(key))
		}
	}
}

// FuzzKeys: of four names and four others, every family's keys are sound.
func FuzzKeys(f *testing.F) {
	f.Add("o", "a:b", "c", "none", "o", "a", "b:c", "none", uint8(7))
	f.Add("o", "1:a", "", "", "o1:", "a", "", "", uint8(0))
	f.Add("o", "}", "{p08}", "\x00", "o}", "", "{p08}", "\n", uint8(98))
	f.Add("o", "é", "tokens", "none", "o", "e\u0301", "tokens", "none", uint8(15))
	f.Fuzz(func(t *testing.T, a0, a1, a2, a3, b0, b1, b2, b3 string, partition uint8) {
		var all []tuple
		for _, parts := range [][]string{{a0, a1, a2, a3}, {b0, b1, b2, b3}} {
			for _, family := range families() {
				all = append(all, tuple{family: family, partition: int(partition) % 99, parts: parts[:partsOf[family]]})
			}
		}
		sound(t, all...)
	})
}

// FuzzReadKey: whatever reads as a key is spelled as the package spells it.
func FuzzReadKey(f *testing.F) {
	f.Add("bp:{p07}4:acme1:p6:tokens4:none")
	f.Add("live:{p07}04:acme2:a1")
	f.Fuzz(func(t *testing.T, key string) {
		if a, ok := readKey(key); ok && a.key() != key {
			t.Fatalf("%q reads as %#v, which is %q", key, a, a.key())
		}
	})
}
