package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// FuzzReader holds the reader against encoding/json: what it takes is JSON
// with the same meaning, and what it calls no JSON is none.
func FuzzReader(f *testing.F) {
	seed(f)
	for _, s := range []string{
		`[1,-0,0.5,1e9,-1.5E+2]`, `"\ud83d\ude00\u0000"`, `"\ud83d"`, `"\ud83dx`, `{"a":{"a":1},"b":[{}]}`, `{"a":1,"a":2}`,
		`[[[[[[[[[1]]]]]]]]]`, "\"\t\"", `tru`, `nullx`, `1.`, `.1`, `01`, `-`, `[1,]`, `{"a":1,}`, `{,}`, `"\x"`, "\"\xff\"", ` 1 `, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := reader{data: data}
		r.checkUTF8()
		r.skip("")
		r.end()
		valid := json.Valid(data)
		switch r.fault {
		case faultNone:
			if !valid || !utf8.Valid(data) {
				t.Fatalf("took %q", data)
			}
			if name := duplicate(data); name != "" {
				t.Fatalf("took %q with %q twice", data, name)
			}
		case faultSyntax:
			if valid {
				t.Fatalf("refused %q: %v", data, r.err)
			}
		case faultUTF8:
			if utf8.Valid(data) {
				t.Fatalf("called %q no UTF-8", data)
			}
		case faultDuplicate:
			if valid && duplicate(data) == "" {
				t.Fatalf("saw a duplicate in %q", data)
			}
		case faultMeaning:
			t.Fatalf("skip judged the meaning of %q: %v", data, r.err)
		case faultDepth, faultSurrogate: // encoding/json has no opinion
		}
	})
}

// duplicate gives a name that one object of a valid text has twice.
func duplicate(data []byte) string {
	type level struct {
		names  map[string]bool
		isName bool
	}
	var stack []level
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if err != nil {
			return ""
		}
		top := len(stack) - 1
		if name, ok := tok.(string); ok && top >= 0 && stack[top].names != nil && stack[top].isName {
			if stack[top].names[name] {
				return fmt.Sprintf("%s ", name)
			}
			stack[top].names[name] = true
			stack[top].isName = false
			continue
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{names: map[string]bool{}, isName: true})
			continue
		case json.Delim('['):
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if top = len(stack) - 1; top >= 0 && stack[top].names != nil {
			stack[top].isName = true
		}
	}
}

// FuzzDecode: nothing panics, and a request that is taken says the same to
// encoding/json, which therefore cannot be shown another one.
func FuzzDecode(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range messages() {
			v, err := m.read(data)
			if err != nil || !m.request {
				continue
			}
			if len(data) == 0 {
				continue
			}
			again, err := m.read(m.write(v))
			if err != nil {
				t.Fatalf("%s: %q was taken, but not what was written back: %v", m.name, data, err)
			}
			if q, ok := v.(interface{ Fingerprint() string }); ok && q.Fingerprint() != again.(interface{ Fingerprint() string }).Fingerprint() {
				t.Fatalf("%s: %q changed its meaning", m.name, data)
			}
		}
		q, e := DecodeReserve(data)
		if e != nil {
			return
		}
		var std Reserve
		if err := json.Unmarshal(data, &std); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", data, err)
		}
		if q.Fingerprint() != std.Fingerprint() {
			t.Fatalf("encoding/json reads %q as another request", data)
		}
	})
}

func seed(f *testing.F) {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*", "*.json"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no samples: %v", err)
	}
	for _, path := range paths {
		body, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
}
