package ledger

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// parseLine reads a line of exactly the form that Export writes, for a tenth
// of the price of a JSON decoder. ok is false for every other form, good or
// bad: a decoder has to look.
func parseLine(b []byte) (m Message, ok bool) {
	p := lineParser{rest: b, ok: true}
	m.StreamSeq = p.number(`{"stream_seq":`)
	m.Seq = p.number(`,"seq":`)
	m.Subject = string(p.text(`,"subject":"`))
	prev, hash := p.text(`,"prev":"`), p.text(`,"hash":"`)
	m.Body = p.text(`,"body":"`)
	if p.shared {
		m.Body = bytes.Clone(m.Body) // the line's bytes are used again
	}
	if !p.ok || string(p.rest) != "}" {
		return Message{}, false
	}
	m.Prev, m.Hash = parseLink(string(prev), string(hash))
	return m, true
}

type lineParser struct {
	rest   []byte
	ok     bool
	shared bool // the last text is part of the line
}

// literal takes what has to come next.
func (p *lineParser) literal(text string) {
	after, found := bytes.CutPrefix(p.rest, []byte(text))
	p.rest, p.ok = after, p.ok && found
}

func (p *lineParser) number(before string) uint64 {
	p.literal(before)
	end := 0
	for end < len(p.rest) && p.rest[end] >= '0' && p.rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(string(p.rest[:end]), 10, 64)
	if err != nil || end > 1 && p.rest[0] == '0' {
		p.ok = false
	}
	p.rest = p.rest[end:]
	return n
}

// text takes a string up to its closing quote. Export writes nothing else
// escaped in a body that is JSON itself.
func (p *lineParser) text(before string) []byte {
	p.literal(before)
	p.shared = true
	b, out, n := p.rest, p.rest, 0
	for i := 0; p.ok && i < len(b); i++ {
		c := b[i]
		switch {
		case c == '"':
			p.rest, p.ok = b[i+1:], utf8.Valid(out[:n])
			return out[:n]
		case c == '\\' && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\\'):
			if p.shared {
				p.shared, out = false, append(make([]byte, 0, len(b)), b[:i]...)[:len(b)]
			}
			i++
			c = b[i]
		case c < 0x20 || c == '\\':
			p.ok = false
			return nil
		}
		if !p.shared {
			out[n] = c
		}
		n++
	}
	p.ok = false
	return nil
}
