package events

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fault is why a text is not what the reader accepts.
type fault uint8

const (
	faultNone      fault = iota
	faultSyntax          // not JSON
	faultUTF8            // JSON with bytes that are no UTF-8
	faultSurrogate       // an escaped half of a surrogate pair
	faultDuplicate       // a name twice in one object
	faultDepth           // nested too deeply
	faultMeaning         // JSON, but not what the message allows there
)

// reader reads one JSON text strictly. encoding/json takes duplicates, the
// last one winning, matches names regardless of case and repairs bad UTF-8:
// on a money path each of these makes two readers see two different requests.
// It keeps the first fault and every later call does nothing.
type reader struct {
	data  []byte
	pos   int
	depth int
	deep  bool // allow readerDepth instead of MaxDepth
	fault fault
	err   *Error
}

// readerDepth bounds what is only passed over in a ledger entry, which a
// later version may have written.
const readerDepth = 64

func (r *reader) ok() bool { return r.fault == faultNone }

// fail keeps the first fault.
func (r *reader) fail(f fault, field, message, hint string) {
	if r.fault != faultNone {
		return
	}
	r.fault = f
	r.err = InvalidArgument(field, message, hint)
}

func (r *reader) syntax(what string) {
	if r.fault != faultNone {
		return
	}
	r.fail(faultSyntax, "", "not JSON: "+what+" at byte "+strconv.Itoa(r.pos), "")
}

func (r *reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return
		}
	}
}

// peek gives the next byte that is no space, or 0 at the end.
func (r *reader) peek() byte {
	r.space()
	if r.pos >= len(r.data) {
		return 0
	}
	return r.data[r.pos]
}

// end demands that nothing but space is left.
func (r *reader) end() {
	if r.ok() && (r.peek() != 0 || r.pos < len(r.data)) {
		r.syntax("more text after the value")
	}
}

// members walks the members of one object. Up to sixteen names are compared
// in place, more go through a map.
type members struct {
	r     *reader
	path  string
	name  []byte
	count int
	seen  [16][]byte
	more  map[string]struct{}
}

// object opens an object; path names it in errors and is "" at the top.
func (r *reader) object(path string) members {
	m := members{r: r, path: path}
	if !r.ok() {
		return m
	}
	switch c := r.peek(); {
	case c == '{':
		r.deeper(path)
	case path == "" && r.pos == len(r.data):
		r.fail(faultSyntax, "", "the body is empty", "send a JSON object")
	default:
		r.wrong(path, "must be a JSON object")
	}
	return m
}

func (r *reader) deeper(path string) {
	r.pos++
	r.depth++
	if r.depth > readerDepth || (!r.deep && r.depth > MaxDepth) {
		r.fail(faultDepth, path, "nested too deeply", "")
	}
}

// wrong reports a value of the wrong type, or broken syntax where the next
// byte cannot begin a value.
func (r *reader) wrong(path, message string) {
	if !r.ok() {
		return
	}
	probe := reader{data: r.data, pos: r.pos, depth: r.depth, deep: r.deep}
	probe.skip(path)
	if !probe.ok() {
		r.fault, r.err, r.pos = probe.fault, probe.err, probe.pos
		if r.err.Field == "" {
			r.err.Field = path
		}
		return
	}
	r.fail(faultMeaning, path, message, "")
}

// next moves to the next member's value and reports whether there is one.
func (m *members) next() bool {
	r := m.r
	if !r.ok() {
		return false
	}
	c := r.peek()
	if c == '}' {
		r.pos++
		r.depth--
		return false
	}
	if m.count > 0 {
		if c != ',' {
			r.syntax("expected a comma or the end of the object")
			return false
		}
		r.pos++
		c = r.peek()
	}
	if c != '"' {
		r.syntax("expected a name in quotes")
		return false
	}
	m.name = r.rawString()
	if !r.ok() {
		return false
	}
	if r.peek() != ':' {
		r.syntax("expected a colon")
		return false
	}
	r.pos++
	m.remember()
	return r.ok()
}

func (m *members) remember() {
	twice := false
	for i := range min(m.count, len(m.seen)) {
		twice = twice || string(m.seen[i]) == string(m.name)
	}
	switch {
	case m.count < len(m.seen):
		m.seen[m.count] = m.name
	case m.more == nil:
		m.more = map[string]struct{}{string(m.name): {}}
	default:
		_, again := m.more[string(m.name)]
		twice = twice || again
		m.more[string(m.name)] = struct{}{}
	}
	m.count++
	if twice {
		m.r.fail(faultDuplicate, m.field(), "given twice", "")
	}
}

// field is the path of the current member.
func (m *members) field() string {
	if m.path == "" {
		return string(m.name)
	}
	return m.path + "." + string(m.name)
}

// unknown refuses the current member.
func (m *members) unknown() {
	r := m.r
	if m.path == "" && brokerOwned(string(m.name)) {
		r.fault = faultMeaning
		r.err = BrokerArgument(string(m.name))
		return
	}
	r.fail(faultMeaning, m.field(), "unknown field", "")
}

// brokerOwned names what a payload can never say about its sender, however it
// is spelt: agentId, agent_id, AgentID, agent.id.
func brokerOwned(name string) bool {
	bare := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	switch bare {
	case "agent", "agentid", "parent", "parentid", "root", "rootid", "depth", "ancestors", "budgetkey", "budgetid",
		"token", "tokenhash", "org", "orgid", "tenant", "tenantid":
		return true
	}
	return false
}

// skip passes over any value.
func (r *reader) skip(path string) {
	if !r.ok() {
		return
	}
	switch c := r.peek(); {
	case c == '{':
		m := r.object(path)
		for m.next() {
			r.skip(path)
		}
	case c == '[':
		for a := r.array(path); a.next(); {
			r.skip(path)
		}
	case c == '"':
		r.rawString()
	case c == '-' || digit(c):
		r.number()
	case c == 't':
		r.literal("true")
	case c == 'f':
		r.literal("false")
	case c == 'n':
		r.literal("null")
	default:
		r.syntax("expected a value")
	}
}

func (r *reader) literal(word string) {
	if len(r.data)-r.pos < len(word) || string(r.data[r.pos:r.pos+len(word)]) != word {
		r.syntax("expected a value")
		return
	}
	r.pos += len(word)
}

// elements walks the values of one array.
type elements struct {
	r     *reader
	count int
}

func (r *reader) array(path string) elements {
	if r.ok() {
		if r.peek() != '[' {
			r.wrong(path, "must be a JSON array")
		} else {
			r.deeper(path)
		}
	}
	return elements{r: r}
}

func (a *elements) next() bool {
	r := a.r
	if !r.ok() {
		return false
	}
	c := r.peek()
	if c == ']' {
		r.pos++
		r.depth--
		return false
	}
	if a.count > 0 {
		if c != ',' {
			r.syntax("expected a comma or the end of the array")
			return false
		}
		r.pos++
	}
	a.count++
	return true
}

// number passes over a number and gives its text.
func (r *reader) number() []byte {
	start := r.pos
	i := r.pos
	d := r.data
	if i < len(d) && d[i] == '-' {
		i++
	}
	whole := digits(d, i)
	if whole == 0 || (whole > 1 && d[i] == '0') {
		r.syntax("expected a number")
		return nil
	}
	i += whole
	if i < len(d) && d[i] == '.' {
		n := digits(d, i+1)
		if n == 0 {
			r.syntax("expected a digit after the point")
			return nil
		}
		i += 1 + n
	}
	if i < len(d) && (d[i] == 'e' || d[i] == 'E') {
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		n := digits(d, i)
		if n == 0 {
			r.syntax("expected a digit in the exponent")
			return nil
		}
		i += n
	}
	r.pos = i
	return d[start:i]
}

func digits(d []byte, i int) int {
	n := 0
	for i+n < len(d) && digit(d[i+n]) {
		n++
	}
	return n
}

// checkUTF8 is done once for the whole text.
func (r *reader) checkUTF8() {
	if !r.ok() || utf8.Valid(r.data) {
		return
	}
	at := 0
	for {
		c, n := utf8.DecodeRune(r.data[at:])
		if c == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	r.fail(faultUTF8, r.topField(at), "the body is not UTF-8", "byte "+strconv.Itoa(at)+" begins no character")
}

// topField names the member of the text's object whose value has a byte; "" is
// outside of all values.
func (r *reader) topField(at int) string {
	probe := reader{data: r.data}
	for m := probe.object(""); m.next() && probe.pos <= at; {
		if probe.skip(""); probe.pos > at {
			return m.field()
		}
	}
	return ""
}
