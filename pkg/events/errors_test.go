package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

func schemaEnum(t *testing.T, name string) []string {
	t.Helper()
	raw, err := Schema("defs")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Defs map[string]struct {
			Enum []string `json:"enum"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Defs[name].Enum
}

// constants gives the values of all constants whose names begin so.
func constants(t *testing.T, prefix string) []string {
	t.Helper()
	var out []string
	for _, file := range sourceFiles(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				out = append(out, strings.Trim(lit.Value, `"`))
			}
			return true
		})
	}
	return out
}

func TestCatalogueIsClosed(t *testing.T) {
	t.Parallel()
	var codes, reasons []string
	for _, c := range Catalogue() {
		if c.When == "" || c.Hint == "" {
			t.Errorf("%s is not explained", c.Code)
		}
		if c.Denial {
			reasons = append(reasons, c.Code)
		} else {
			codes = append(codes, c.Code)
		}
		if got, ok := Lookup(c.Code); !ok || got != c {
			t.Errorf("Lookup(%s) = %+v %v", c.Code, got, ok)
		}
	}
	same := func(what string, a, b []string) {
		a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
		if !slices.Equal(a, b) {
			t.Errorf("%s differ:\n%v\n%v", what, a, b)
		}
	}
	same("catalogue and constants", codes, constants(t, "Code"))
	same("catalogue and schema", codes, schemaEnum(t, "code"))
	same("reasons and constants", reasons, constants(t, "Reason"))
	same("reasons and schema", reasons, append(schemaEnum(t, "reason"), string(ReasonOverrun)))
	if _, ok := Lookup("teapot"); ok {
		t.Error("Lookup knows teapot")
	}
}

func TestConstructors(t *testing.T) {
	t.Parallel()
	all := schemas(t)
	for code, e := range map[Code]*Error{
		CodeInvalidArgument: InvalidArgument("f", "m", "h"), CodeBrokerArgument: BrokerArgument("depth"),
		CodeUnitMissing: UnitMissing("tokens"), CodeUnitUnknown: UnitUnknown("tokens"), CodeLimitExceeded: LimitExceeded("depth"),
		CodeNotFound: NotFound("reservation"), CodeKeyReused: KeyReused("amounts"), CodeAlreadySettled: AlreadySettled(),
		CodeAlreadyReleased: AlreadyReleased(), CodeAlreadyExpired: AlreadyExpired(), CodePayloadTooLarge: PayloadTooLarge(),
		CodeOverloaded: Overloaded(50), CodeUnavailable: Unavailable(200), CodeInternal: Internal("abc"),
	} {
		entry, ok := Lookup(string(code))
		if !ok || e.Code != code || e.Retryable != entry.Retryable {
			t.Errorf("%s: %+v against %+v", code, e, entry)
		}
		body := e.Append(nil)
		if err := validate(all["error"], body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if got := ParseError(body); got == nil || *got != *e {
			t.Errorf("%s: read back %+v", body, got)
		}
		for _, m := range messages() {
			if m.request || strings.HasPrefix(m.goType, "Ledger") && m.goType != "LedgerReadAnswer" || m.name == "error" || slices.Contains(eventTypes(), m.name) {
				continue
			}
			if _, err := m.read(body); !errors.Is(err, &Error{Code: code}) {
				t.Errorf("%s: answer %s gave %v", m.name, body, err)
			}
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[Code]int{
		CodeInvalidArgument: 2, CodeNotFound: 3, CodeKeyReused: 5, CodeAlreadySettled: 5, CodeAlreadyReleased: 5, CodeAlreadyExpired: 5,
		CodeOverloaded: 7, CodeUnavailable: 7, CodeInternal: 1, "teapot": 1, Code(ReasonDebt): 1,
	} {
		if got := ExitCode(code); got != want {
			t.Errorf("%s exits %d, want %d", code, got, want)
		}
	}
}

func TestErrorIs(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("settle: %w", NotFound("reservation"))
	if !errors.Is(err, &Error{Code: CodeNotFound}) || errors.Is(err, &Error{Code: CodeInternal}) {
		t.Error("errors.Is does not go by code")
	}
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Error(), "not_found") {
		t.Errorf("%v", e)
	}
	if got := InvalidArgument("pool", "bad", "").Error(); got != "invalid_argument: pool: bad" {
		t.Error(got)
	}
}

// An answer that mentions the word error is none.
func TestParseErrorIsExact(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"outcome":"allowed","labels":{"error":"x"}}`, `{"error":"x"}`, `{"error":{}}`, `{"error":null}`, ``, `{`} {
		if e := ParseError([]byte(body)); e != nil {
			t.Errorf("%s: %v", body, e)
		}
	}
	a, err := ParseReserveAnswer([]byte(`{"outcome":"allowed","reservation":"r","amounts":{"calls":1},"labels":{"error":"x"},"news":{"a":1}}`))
	if err != nil || a.Outcome != OutcomeAllowed || a.Labels["error"] != "x" {
		t.Errorf("%+v %v", a, err)
	}
	if _, err := ParseSettleAnswer([]byte("gone")); err == nil {
		t.Error("no JSON was taken for an answer")
	}
	if got := Outcome(bytes.TrimSpace(Accepted{}.Append(nil))); got != OutcomeAccepted {
		t.Error(got)
	}
	if got := Outcome([]byte("{")); got != "" {
		t.Error(got)
	}
}
