package reconciler

import (
	"encoding/binary"

	"tallystick/pkg/budget"
)

// packer writes values one after the other.
type packer struct{ b []byte }

func (p *packer) count(n uint64)   { p.b = binary.AppendUvarint(p.b, n) }
func (p *packer) size(n int)       { p.count(uint64(n)) } //nolint:gosec // never negative
func (p *packer) number(n int64)   { p.b = binary.AppendVarint(p.b, n) }
func (p *packer) bytes(raw []byte) { p.b = append(p.b, raw...) }

func (p *packer) text(s string) {
	p.size(len(s))
	p.b = append(p.b, s...)
}

func (p *packer) limit(id budget.LimitID) {
	p.text(id.Pool)
	p.text(id.Unit)
	p.text(id.Period)
}

func (p *packer) counters(c budget.Counters) {
	for _, n := range [...]int64{c.Cap, c.Adj, c.Held, c.Spent, c.Withheld} {
		p.number(n)
	}
}

// rules of a limit; its name is known from the limit.
func (p *packer) rules(r *rules) {
	if r == nil {
		p.size(0)
		return
	}
	p.size(1)
	for _, n := range [...]int64{r.Cap, r.Epsilon, r.LateWindowMS, r.Rev, r.Opens, r.Closes} {
		p.number(n)
	}
	p.text(r.OnOverrun)
	p.text(r.State)
}

// amounts tells nil from empty, so that what is unpacked is the same.
func (p *packer) amounts(a budget.Amounts) {
	if a == nil {
		p.size(0)
		return
	}
	p.size(len(a) + 1)
	for unit, n := range a {
		p.text(unit)
		p.number(n)
	}
}

// unpacker reads what a packer wrote. After the first value that is not there
// it has failed and gives zeros.
type unpacker struct {
	b      []byte
	failed bool
}

func (u *unpacker) fail() {
	u.failed, u.b = true, nil
}

func (u *unpacker) count() uint64 {
	n, used := binary.Uvarint(u.b)
	if used <= 0 {
		u.fail()
		return 0
	}
	u.b = u.b[used:]
	return n
}

// size is a number of things of which each takes at least that many bytes, so
// that no nonsense is made room for.
func (u *unpacker) size(each int) int {
	n := u.count()
	if have := uint64(len(u.b)); n > 1<<31 || each > 0 && (n > have || n*uint64(each) > have) { //nolint:gosec // never negative
		u.fail()
		return 0
	}
	return int(n) //nolint:gosec // bounded above
}

func (u *unpacker) number() int64 {
	n, used := binary.Varint(u.b)
	if used <= 0 {
		u.fail()
		return 0
	}
	u.b = u.b[used:]
	return n
}

func (u *unpacker) bytes(n int) []byte {
	if n > len(u.b) {
		u.fail()
		return make([]byte, n)
	}
	raw := u.b[:n]
	u.b = u.b[n:]
	return raw
}

func (u *unpacker) text() string { return string(u.bytes(u.size(1))) }

func (u *unpacker) limit() budget.LimitID {
	return budget.LimitID{Pool: u.text(), Unit: u.text(), Period: u.text()}
}

func (u *unpacker) counters() (c budget.Counters) {
	for _, n := range [...]*int64{&c.Cap, &c.Adj, &c.Held, &c.Spent, &c.Withheld} {
		*n = u.number()
	}
	return c
}

func (u *unpacker) rules() *rules {
	if u.size(0) == 0 {
		return nil
	}
	r := &rules{}
	for _, n := range [...]*int64{&r.Cap, &r.Epsilon, &r.LateWindowMS, &r.Rev, &r.Opens, &r.Closes} {
		*n = u.number()
	}
	r.OnOverrun, r.State = u.text(), u.text()
	return r
}

func (u *unpacker) amounts() budget.Amounts {
	n := u.size(0)
	if n == 0 {
		return nil
	}
	a := budget.Amounts{}
	for range n - 1 {
		if u.failed {
			break
		}
		unit := u.text()
		a[unit] = u.number()
	}
	return a
}

// place is one of some limits; nil where there is no such one.
func (u *unpacker) place(limits []*limit) *limit {
	i := u.size(0)
	if i >= len(limits) {
		u.fail()
		return nil
	}
	return limits[i]
}
