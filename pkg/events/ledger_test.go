package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUnknownKindIsAValue(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"kind":    `{"v":1,"type":"tally.ledger.v1.teleported","id":"1-2-3","org":"acme","at":"2026-11-30T10:11:12.345678Z","kind":"teleported","moves":[{"pool":"p","unit":"calls","period":"none","held":5,"colour":"red"}],"to":{"x":[1]}}`,
		"version": `{"v":2,"type":"tally.ledger.v2.reserved","id":"1-2-3","org":"acme","at":"2026-11-30T10:11:12.345678Z","kind":"reserved","moves":[{"pool":"p","unit":"calls","period":"none","held":5}]}`,
		"type":    `{"v":1,"type":"tally.ledger.v1.settled","id":"1-2-3","org":"acme","at":"2026-11-30T10:11:12.345678Z","kind":"reserved","moves":[{"pool":"p","unit":"calls","period":"none","held":5}]}`,
	} {
		e, err := ParseLedgerEntry([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []Move{{Pool: "p", Unit: "calls", Period: "none", Held: 5}}
		if e.Kind != KindUnknown || !strings.HasPrefix(e.SentType, "tally.ledger.v") || !cmp.Equal(e.Moves, want) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestBrokenEntries(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `{`, `[]`, `{"v":1,"v":1}`, `{"v":"1"}`, `{"at":"yesterday"}`, `{"at":"2026-11-30T10:11:12+01:00"}`, `{"moves":{}}`,
		`{"moves":[{"held":1.5}]}`, `{"moves":[{"held":9223372036854775808}]}`, `{"labels":{"a":1}}`, "{\"org\":\"\xff\"}", `{"x":` + strings.Repeat("[", 100),
	} {
		if e, err := ParseLedgerEntry([]byte(body)); err == nil {
			t.Errorf("%q was read as %+v", body, e)
		}
	}
}

func TestUnknownEventIsAValue(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"v":1,"type":"tally.event.v1.threshold","id":"x","org":"acme","at":"2026-11-30T10:11:12.345678Z","percent":90}`,
		`{"v":2,"type":"tally.event.v1.drift"}`, `{}`,
	} {
		v, err := ParseEvent([]byte(body))
		u, ok := v.(UnknownEvent)
		if err != nil || !ok || string(u.Append(nil)) != body {
			t.Errorf("%s: %+v %v", body, v, err)
		}
	}
	for _, body := range []string{``, `[]`, `{"v":1,"type":"tally.event.v1.denials","count":"many"}`} {
		if v, err := ParseEvent([]byte(body)); err == nil {
			t.Errorf("%s: %+v", body, v)
		}
	}
}

func TestReservationExpiredFromEntry(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 10, 11, 12, 345678000, time.UTC)
	e := LedgerEntry{
		ID: "7-1-0", Org: testOrg, At: at, Kind: KindExpired, Execution: testAgent, Agent: testAgent, Key: "k", Labels: map[string]string{"a": "b"},
		Moves:  []Move{{Pool: "p", Unit: "calls", Period: "none", Held: -5, Withheld: 5, Missing: true}},
		Detail: json.RawMessage(`{"withheld":{"calls":5},"lapses_at":"2026-11-30T11:11:12.345Z"}`),
	}
	v, err := NewReservationExpired(e)
	if err != nil || v.ID != e.ID || v.Withheld["calls"] != 5 || v.LapsesAt == "" || !v.PoolMissing || v.Head().Org != testOrg {
		t.Errorf("%+v %v", v, err)
	}
	if err := validate(schemas(t)[EventReservationExpired], v.Append(nil)); err != nil {
		t.Errorf("%v\n%s", err, v.Append(nil))
	}
	e.Kind = KindLapsed
	if _, err := NewReservationExpired(e); err == nil {
		t.Error("made of a lapsed entry")
	}
}

// The table of kinds, the schema and KnownKind name the same kinds and fields.
func TestKindTable(t *testing.T) {
	t.Parallel()
	raw, err := Schema("ledger_entry")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Properties struct {
			Kind struct {
				Enum []string `json:"enum"`
			} `json:"kind"`
		} `json:"properties"`
		AllOf []struct {
			If struct {
				Properties struct {
					Kind struct {
						Const string `json:"const"`
					} `json:"kind"`
				} `json:"properties"`
			} `json:"if"`
			Then struct {
				Required   []string       `json:"required"`
				Properties map[string]any `json:"properties"`
			} `json:"then"`
		} `json:"allOf"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, info := range LedgerKinds() {
		kinds = append(kinds, string(info.Kind))
		if info.When == "" || !KnownKind(info.Kind) {
			t.Errorf("%s: %q", info.Kind, info.When)
		}
		for _, rule := range doc.AllOf {
			if rule.If.Properties.Kind.Const != string(info.Kind) {
				continue
			}
			var fields, required []string
			for _, f := range info.Fields {
				fields = append(fields, f.Name)
				if !f.Optional {
					required = append(required, f.Name)
				}
			}
			var inSchema, must []string
			for name := range rule.Then.Properties {
				inSchema = append(inSchema, name)
				if slices.Contains(rule.Then.Required, name) {
					must = append(must, name)
				}
			}
			slices.Sort(fields)
			slices.Sort(required)
			slices.Sort(inSchema)
			slices.Sort(must)
			if !slices.Equal(fields, inSchema) || !slices.Equal(required, must) {
				t.Errorf("%s: table %v (%v), schema %v (%v)", info.Kind, fields, required, inSchema, must)
			}
		}
	}
	slices.Sort(kinds)
	slices.Sort(doc.Properties.Kind.Enum)
	if !slices.Equal(kinds, doc.Properties.Kind.Enum) || KnownKind(KindUnknown) {
		t.Errorf("kinds:\n%v\n%v", kinds, doc.Properties.Kind.Enum)
	}
}

func TestEntryID(t *testing.T) {
	t.Parallel()
	if p, id, ok := ParseEntryID(EntryID(7, "1764497472000-12")); !ok || p != 7 || id != "1764497472000-12" {
		t.Error(p, id, ok)
	}
	for _, id := range []string{"", "7", "7-", "-1-2", "x-1-2", "07-1-2", "70000-1-2"} {
		if _, _, ok := ParseEntryID(id); ok {
			t.Errorf("%q is taken", id)
		}
	}
}

func TestEntryHash(t *testing.T) {
	t.Parallel()
	prev := sha256.Sum256([]byte("before"))
	body := []byte(`{"v":1}`)
	text := append(append(append([]byte{}, prev[:]...), binary.BigEndian.AppendUint64(nil, 258)...), body...)
	got := EntryHash(prev, 258, body)
	if got != sha256.Sum256(text) {
		t.Error("not the contract's hash")
	}
	if back, ok := ParseHash(FormatHash(got)); !ok || back != got {
		t.Error("hash does not come back")
	}
	for _, v := range []string{"", "zz", strings.Repeat("A", 64), strings.Repeat("g", 64)} {
		if _, ok := ParseHash(v); ok {
			t.Errorf("%q is taken", v)
		}
	}
}

func TestDetailIsSpliced(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string]string{
		"": `"moves":[]}`, "{}": `"moves":[]}`, " { } ": `"moves":[]}`, "{": `"moves":[]}`, `{"a":{"b":"}"}}` + "\n": `"moves":[],"a":{"b":"}"}}`,
	} {
		body := string(LedgerEntry{Kind: KindGap, Detail: json.RawMessage(detail)}.Append(nil))
		if !strings.HasSuffix(body, want) || !json.Valid([]byte(body)) {
			t.Errorf("%q: %s", detail, body)
		}
	}
	var own struct{ A int }
	if err := (LedgerEntry{Detail: json.RawMessage(`{"a":"x"}`)}).DecodeDetail(&own); err == nil {
		t.Error("a detail of another type is taken")
	}
}
