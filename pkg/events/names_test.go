package events

import (
	"encoding/json"
	"strings"
	"testing"
)

// named is one message whose field is a name for people or of an agent.
type named struct {
	field string
	body  func(name []byte) []byte // name is the field's JSON
	read  func(body []byte) (string, *Error)
}

func namedMessages() map[string]named {
	around := func(before, after string) func([]byte) []byte {
		return func(name []byte) []byte { return []byte(before + string(name) + after) }
	}
	return map[string]named{
		AdminOrgCreate: {"display", around(`{"org":"acme","display":`, `}`), func(b []byte) (string, *Error) {
			q, err := DecodeOrgCreate(b)
			if err != nil {
				return "", err
			}
			return *q.Display, nil
		}},
		AdminAgentRegister: {"name", around(`{"org":"acme","name":`, `,"pool":"p"}`), func(b []byte) (string, *Error) {
			q, err := DecodeAgentRegister(b)
			return q.Name, err
		}},
		VerbRegister: {"name", around(`{"purpose":"x","name":`, `}`), func(b []byte) (string, *Error) {
			q, err := DecodeRegister(b)
			return q.Name, err
		}},
	}
}

// TestNamesInAnyScript: a name may have any characters but controls, and
// arrives as it was sent.
func TestNamesInAnyScript(t *testing.T) {
	t.Parallel()
	all := schemas(t)
	for what, name := range map[string]string{
		"one letter":                  "a",
		"Latin":                       "Zoë Ångström & Søn",
		"composed":                    "caf\u00e9",
		"combining mark":              "cafe\u0301",
		"many combining marks":        "Z\u0351\u036b\u0343a\u0363\u0348l",
		"a mark at the beginning":     "\u0301a",
		"Hebrew":                      "\u05e1\u05d5\u05db\u05df",
		"Arabic and Latin":            "\u0648\u0643\u064a\u0644 agent 7",
		"direction marks":             "\u200fabc\u202e\u05d0\u202c",
		"Devanagari with a joiner":    "\u0915\u094d\u200d\u0937",
		"Persian with a non-joiner":   "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
		"Chinese":                     "代理人",
		"Hangul syllables":            "\ud55c\uae00",
		"Hangul letters":              "\u1112\u1161\u11ab",
		"emoji":                       "🤖",
		"a family, joined":            "\U0001f468\u200d\U0001f469\u200d\U0001f467",
		"a flag and a skin tone":      "\U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
		"a variation selector":        "\u2764\ufe0f",
		"a plane nobody uses":         "\U000f0000\U0010fffd",
		"the replacement character":   "\ufffd",
		"a space of another width":    "a\u00a0b\u3000c",
		"a line separator":            "a\u2028b",
		"what JSON and keys use":      `{"a":[1:b]}\/<>&`,
		"64 bytes of two-byte runes":  strings.Repeat("é", 32),
		"64 bytes of four-byte runes": strings.Repeat("😀", 16),
	} {
		for verb, m := range namedMessages() {
			quoted, err := json.Marshal(name)
			if err != nil {
				t.Fatal(err)
			}
			body := m.body(quoted)
			if got, e := m.read(body); e != nil || got != name {
				t.Errorf("%s: %s: %+q came as %+q, %+v", verb, what, name, got, e)
			}
			if err := validate(all[verb], body); err != nil {
				t.Errorf("%s: %s: the schema refuses %+q: %v", verb, what, name, err)
			}
		}
	}
}

// TestNamesRefused: the answer says which field and what is wrong there.
func TestNamesRefused(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ raw, hint string }{
		"NUL":                         {`"a\u0000b"`, `byte 1 is the control character '\x00'`},
		"newline":                     {`"caf\u00e9\n"`, `byte 5 is the control character '\n'`},
		"carriage return":             {`"\r"`, `byte 0 is the control character '\r'`},
		"tab":                         {`"a\tb"`, `byte 1 is the control character '\t'`},
		"escape":                      {`"\u001b[31m"`, `byte 0 is the control character '\x1b'`},
		"delete":                      {`"a\u007f"`, `byte 1 is the control character '\x7f'`},
		"a control of the second row": {"\"a\u0085b\"", `byte 1 is the control character '\u0085'`},
		"a bare NUL":                  {"\"a\x00b\"", `JSON has it escaped, such as \n`},
		"a bare newline":              {"\"a\nb\"", `JSON has it escaped, such as \n`},
		"a bare newline after escape": {"\"\\u0061\nb\"", `JSON has it escaped, such as \n`},
		"a byte that begins nothing":  {"\"a\xffb\"", "begins no character"},
		"a character cut short":       {"\"a\xe2\x82\"", "begins no character"},
		"an overlong NUL":             {"\"\xc0\x80\"", "begins no character"},
		"a surrogate as UTF-8":        {"\"\xed\xa0\x80\"", "begins no character"},
		"half a surrogate pair":       {`"\ud83d"`, "escape both halves, or send the character itself"},
		"a leading space":             {`" a"`, "it begins or ends with a space"},
		"a wide space at the end":     {`"a\u3000"`, "it begins or ends with a space"},
		"nothing":                     {`""`, "it has 0"},
		"65 bytes in 33 characters":   {`"` + strings.Repeat("é", 32) + `x"`, "it has 65"},
	} {
		for verb, m := range namedMessages() {
			got, e := m.read(m.body([]byte(c.raw)))
			if e == nil || e.Code != CodeInvalidArgument || e.Field != m.field || e.Message == "" || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("%s: %s: %+q, %+v; want field %s and hint %q", verb, what, got, e, m.field, c.hint)
			}
		}
	}
}

// TestNotUTF8SaysWhere: the field is the top one whose value is broken, and no
// field where the text around the values is.
func TestNotUTF8SaysWhere(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"{\"org\":\"acme\",\"display\":\"\xff\"}":        "display",
		"{\"display\":\"\xff\",\"org\":\"\xff\"}":        "display",
		"{\"org\":{\"a\":[\"\xff\"]},\"display\":\"x\"}": "org",
		"{\"a\xff\":1}":            "",
		"\xff{\"org\":\"acme\"}":   "",
		"{\"org\":\"acme\"}\xff":   "",
		"{\"org\":\"acme\"\xff}":   "",
		"{\"org\" \xff \"acme\"}":  "",
		"[\"\xff\"]":               "",
		"{\"org\":\"acme\xff":      "org",
		"{\"org\":\"acme\",\xff\"": "",
	} {
		_, e := DecodeOrgCreate([]byte(body))
		if e == nil || e.Message != "the body is not UTF-8" || e.Field != want || e.Hint == "" {
			t.Errorf("%q: %+v, want field %q", body, e, want)
		}
	}
}

// TestNamesAreNotFolded: names that look alike are two names. Nobody normalises
// on the way, so nobody can disagree about it.
func TestNamesAreNotFolded(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"\u00e9", "e\u0301"},                    // composed, decomposed
		{"\u212b", "\u00c5"},                     // Angstrom sign, A with ring
		{"\ud55c", "\u1112\u1161\u11ab"},         // syllable, letters
		{"\ufb01", "fi"},                         // ligature
		{"a\u0323\u0307", "a\u0307\u0323"},       // order of marks
		{"Agent", "agent"},                       // case
		{"\u0430gent", "agent"},                  // Cyrillic a
		{"agent\u200d", "agent"},                 // unseen
		{"\uff21\uff22", "AB"},                   // full width
		{"\u2764\ufe0f", "\u2764"},               // variation selector
		{"stra\u00dfe", "strasse"},               // sharp s
		{"\u0130stanbul", "\u0069\u0307stanbul"}, // dotted I
	} {
		for verb, m := range namedMessages() {
			var got [2]string
			for i, name := range pair {
				quoted, err := json.Marshal(name)
				if err != nil {
					t.Fatal(err)
				}
				var e *Error
				if got[i], e = m.read(m.body(quoted)); e != nil {
					t.Fatalf("%s: %+q: %v", verb, name, e)
				}
			}
			if got != pair {
				t.Errorf("%s: %+q came as %+q", verb, pair, got)
			}
		}
		if (Register{Name: pair[0]}).Fingerprint() == (Register{Name: pair[1]}).Fingerprint() {
			t.Errorf("%+q have one fingerprint", pair)
		}
	}
}
