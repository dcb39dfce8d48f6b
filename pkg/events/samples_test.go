package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas compiles every schema of the package.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	for _, name := range SchemaNames() {
		raw, err := Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.AddResource("mem:///"+name+".json", doc); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]*jsonschema.Schema{}
	for _, name := range SchemaNames() {
		s, err := c.Compile("mem:///" + name + ".json")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = s
	}
	return out
}

func validate(s *jsonschema.Schema, body []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

type sample struct {
	file, message, fault string
	body                 []byte
}

// lexical tells that a schema cannot see the fault: it is in the text, not in
// the value, or counts bytes.
func (s sample) lexical() bool { return strings.HasPrefix(s.fault, "lexical-") }

func samples(t *testing.T, folder string) []sample {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples in %s: %v", folder, err)
	}
	var out []sample
	for _, path := range paths {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		msg, fault, ok := strings.Cut(name, "--")
		if !ok {
			t.Fatalf("%s: name samples <message>--<case>.json", path)
		}
		out = append(out, sample{name, msg, fault, body})
	}
	return out
}

func find(t *testing.T, name string) message {
	t.Helper()
	all := messages()
	i := slices.IndexFunc(all, func(m message) bool { return m.name == name })
	if i < 0 {
		t.Fatalf("no message %s", name)
	}
	return all[i]
}

func TestEveryMessageHasSchemaAndSamples(t *testing.T) {
	t.Parallel()
	valid, invalid := samples(t, "valid"), samples(t, "invalid")
	has := func(all []sample, name string) bool {
		return slices.ContainsFunc(all, func(s sample) bool { return s.message == name })
	}
	names := []string{"defs"}
	for _, m := range messages() {
		names = append(names, m.name)
		if !has(valid, m.name) {
			t.Errorf("%s has no valid sample", m.name)
		}
		if m.request && !has(invalid, m.name) {
			t.Errorf("%s has no invalid sample", m.name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, SchemaNames()); diff != "" {
		t.Errorf("messages and schemas differ (-messages +schemas):\n%s", diff)
	}
}

// A valid sample validates, is read, and what is written back validates and
// says the same. Answers, entries and events come back byte for byte.
func TestValidSamples(t *testing.T) {
	t.Parallel()
	all := schemas(t)
	for _, s := range samples(t, "valid") {
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			m := find(t, s.message)
			if err := validate(all[s.message], s.body); err != nil {
				t.Fatalf("schema: %v", err)
			}
			v, err := m.read(s.body)
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			out := m.write(v)
			if err := validate(all[s.message], out); err != nil {
				t.Fatalf("schema of what was written: %v\n%s", err, out)
			}
			if diff := cmp.Diff(tree(t, s.body), tree(t, out)); diff != "" {
				t.Errorf("meaning changed (-sample +written):\n%s", diff)
			}
			if !m.request && !bytes.Equal(out, s.body) {
				t.Errorf("bytes changed:\n%s\n%s", s.body, out)
			}
			again, err := m.read(out)
			if err != nil || !cmp.Equal(v, again) {
				t.Errorf("read again: %v\n%s", err, cmp.Diff(v, again))
			}
		})
	}
}

func tree(t *testing.T, body []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestInvalidSamples(t *testing.T) {
	t.Parallel()
	all := schemas(t)
	for _, s := range samples(t, "invalid") {
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			m := find(t, s.message)
			v, err := m.read(s.body)
			if err == nil {
				t.Fatalf("read as %+v", v)
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("not an *Error: %v", err)
			}
			want := CodeInvalidArgument
			if strings.HasPrefix(s.fault, "broker-") {
				want = CodeBrokerArgument
			}
			if e.Code != want || e.Message == "" || e.Retryable {
				t.Errorf("error %+v, want code %s", e, want)
			}
			if err := validate(all["error"], e.Append(nil)); err != nil {
				t.Errorf("the error's own schema: %v\n%s", err, e.Append(nil))
			}
			if validate(all[s.message], s.body) == nil && !s.lexical() {
				t.Error("the schema takes it: mark the fault lexical or tighten the schema")
			}
		})
	}
}

// The field an error names is where a person must look.
func TestFieldOfErrors(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"reserve--amount-zero":               "amounts.usd_microcents",
		"reserve--amount-string":             "amounts.usd_microcents",
		"reserve--lexical-amount-nan":        "amounts.usd_microcents",
		"reserve--lexical-amount-hex":        "amounts.usd_microcents",
		"reserve--lexical-ttl-exponent":      "ttl_ms",
		"reserve--amounts-missing":           "amounts",
		"reserve--amounts-empty":             "amounts",
		"reserve--unit-upper":                "amounts.USD",
		"reserve--unknown-field":             "wat",
		"reserve--upper-case-name":           "Amounts",
		"reserve--broker-agentId":            "agentId",
		"reserve--broker-budget-key":         "budget_key",
		"reserve--lexical-duplicate":         "amounts",
		"reserve--lexical-duplicate-unit":    "amounts.usd_microcents",
		"reserve--pool-null":                 "pool",
		"reserve--label-value-number":        "labels.a",
		"settle--both":                       "key",
		"settle--neither":                    "reservation",
		"settle--usage-array":                "usage",
		"register--caps-missing":             "budget.caps",
		"pool_create--cap-missing":           "limits.cap",
		"pool_set--cap-string":               "cap",
		"agent_register--broker-root":        "root",
		"reserve--settler-upper":             "settler",
		"reserve--lexical-duplicate-label":   "labels.a",
		"reserve--lexical-amount-exponent":   "amounts.usd_microcents",
		"reserve--purpose-257":               "purpose",
		"extend--nothing":                    "ttl_ms",
		"reservation--limit-with-key":        "limit",
		"operator_settle--agent-missing":     "agent",
		"principal_set--lexical-both":        "remove",
		"principal_create--manager-word":     "managers",
		"pool_create--lexical-same-limit":    "limits",
		"settle--lexical-usage-duplicate":    "usage.a",
		"reserve--lexical-trailing":          "",
		"reserve--lexical-duplicate-escaped": "amounts",
		"reserve--lexical-surrogate":         "pool",
		"reserve--lexical-pool-raw-newline":  "pool",
	} {
		body, err := os.ReadFile(filepath.Join("testdata", "invalid", file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(file, "--")
		_, err = find(t, name).read(body)
		var e *Error
		if !errors.As(err, &e) || e.Field != want {
			t.Errorf("%s: error %v, want field %q", file, err, want)
		}
	}
}

func TestPayloadLimit(t *testing.T) {
	t.Parallel()
	body := func(size int) []byte {
		b := []byte(`{"amounts":{"calls":1}`)
		return append(append(b, bytes.Repeat([]byte(" "), size-len(b)-1)...), '}')
	}
	if _, e := DecodeReserve(body(MaxPayloadBytes)); e != nil {
		t.Errorf("64 KiB: %v", e)
	}
	if _, e := DecodeReserve(body(MaxPayloadBytes + 1)); e == nil || e.Code != CodePayloadTooLarge {
		t.Errorf("64 KiB and one: %v", e)
	}
	deep := []byte(strings.Repeat(`{"a":`, 20000))
	if _, e := DecodeReserve(deep); e == nil || e.Code != CodePayloadTooLarge {
		t.Errorf("deep: %v", e)
	}
}

func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	for _, m := range messages() {
		if !m.request {
			continue
		}
		_, err := m.read(nil)
		optional := slices.Contains([]string{VerbBalance, VerbWhoami, VerbReservation, "org_filter"}, m.name)
		if (err == nil) != optional {
			t.Errorf("%s: empty body: %v", m.name, err)
		}
	}
}
