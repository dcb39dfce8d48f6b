package reconciler

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
)

// A kept fold is a line that names it, the SHA-256 of what follows, and the
// fold, packed and deflated.
//
// foldVersion is raised with every change of what is packed, and of what an
// entry adds to a fold: a fold of another version is thrown away.
const (
	foldMagic   = "tally-fold\n"
	foldVersion = 1
)

var errFold = errors.New("no fold of this version")

// seal makes the file of a packed fold.
func seal(packed []byte) []byte {
	var out bytes.Buffer
	out.WriteString(foldMagic)
	out.WriteByte(foldVersion)
	out.Write(make([]byte, sha256.Size))
	w, _ := flate.NewWriter(&out, flate.BestSpeed) // fails for a bad level alone
	_, _ = w.Write(packed)                         // a buffer takes everything
	_ = w.Close()
	file := out.Bytes()
	head := len(foldMagic) + 1
	sum := sha256.Sum256(file[head+sha256.Size:])
	copy(file[head:], sum[:])
	return file
}

// unseal is the inverse of seal. Nothing is inflated that is not as it was
// written.
func unseal(file []byte) ([]byte, error) {
	head := len(foldMagic) + 1
	if len(file) < head+sha256.Size || string(file[:len(foldMagic)]) != foldMagic || file[head-1] != foldVersion {
		return nil, errFold
	}
	body := file[head+sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(file[head:head+sha256.Size]) {
		return nil, fmt.Errorf("%w: SHA-256 differs", errFold)
	}
	return io.ReadAll(flate.NewReader(bytes.NewReader(body)))
}

// pack writes the fold down. What follows from the rest is left out: how many
// reservations a limit has, and the units of a path.
func (f *fold) pack() []byte {
	p := packer{b: make([]byte, 0, 1<<16+32*len(f.live))}
	p.size(len(f.positions))
	for _, id := range f.positions {
		p.text(id)
	}
	p.count(f.after)
	p.bytes(f.hash[:])
	p.number(f.entries)
	places := f.packLimits(&p)
	f.packLive(&p, places)
	f.packCauses(&p)
	f.packPrincipals(&p)
	return p.b
}

// packLimits returns each limit's place.
func (f *fold) packLimits(p *packer) map[*limit]int {
	places := make(map[*limit]int, len(f.limits))
	p.size(len(f.limits))
	for _, l := range f.limits {
		places[l] = len(places)
		p.text(l.id.Org)
		p.limit(l.id.LimitID)
		p.counters(l.counters)
		p.rules(l.rules)
	}
	return places
}

func (f *fold) packLive(p *packer, limits map[*limit]int) {
	places := make(map[*path]int, len(f.paths))
	p.size(len(f.paths))
	for _, way := range f.paths {
		places[way] = len(places)
		p.text(way.org)
		p.size(len(way.limits))
		for _, l := range way.limits {
			p.size(limits[l])
		}
	}
	p.size(len(f.live))
	for id, h := range f.live {
		p.bytes(id[:])
		p.size(places[h.path])
		p.number(h.first)
		if h.more != nil {
			for _, n := range *h.more {
				p.number(n)
			}
		}
	}
}

func (f *fold) packCauses(p *packer) {
	p.size(len(f.refused))
	for id, r := range f.refused {
		p.bytes(id[:])
		p.text(r.org)
		p.amounts(r.booked)
		p.amounts(r.uncharged)
	}
	p.size(len(f.late))
	for org, t := range f.late {
		p.text(org)
		p.number(t.count)
		p.amounts(t.amounts)
	}
}

func (f *fold) packPrincipals(p *packer) {
	p.size(len(f.principals))
	for who, limits := range f.principals {
		p.text(who.org)
		p.text(who.name)
		p.size(len(limits))
		for id, c := range limits {
			p.limit(id)
			p.counters(c)
		}
	}
}

// unpack is the inverse of pack.
func unpack(packed []byte) (*fold, error) {
	u := unpacker{b: packed}
	f := newFold(u.size(1))
	for i := range f.positions {
		f.positions[i] = u.text()
	}
	f.after = u.count()
	copy(f.hash[:], u.bytes(len(f.hash)))
	f.entries = u.number()
	limits := f.unpackLimits(&u)
	f.unpackLive(&u, f.unpackPaths(&u, limits))
	f.unpackCauses(&u)
	f.unpackPrincipals(&u)
	if u.failed || len(u.b) > 0 {
		return nil, fmt.Errorf("%w: it does not end where it should", errFold)
	}
	return f, nil
}

func (f *fold) unpackLimits(u *unpacker) []*limit {
	limits := make([]*limit, u.size(10))
	for i := range limits {
		l := f.limit(budget.Counter{Org: u.text(), LimitID: u.limit()})
		l.counters, l.rules = u.counters(), nil
		if l.rules = u.rules(); l.rules != nil {
			l.rules.Pool, l.rules.Unit, l.rules.Period = l.id.Pool, l.id.Unit, l.id.Period
		}
		limits[i] = l
	}
	return limits
}

func (f *fold) unpackPaths(u *unpacker, limits []*limit) []*path {
	paths := make([]*path, u.size(2))
	for i := range paths {
		org, on := u.text(), make([]*limit, u.size(1))
		for j := range on {
			if on[j] = u.place(limits); on[j] == nil {
				return nil
			}
			f.mark(on[j]) // Redis may have counts that are older than the fold
		}
		paths[i] = f.newPath(org, on)
	}
	return paths
}

func (f *fold) unpackLive(u *unpacker, paths []*path) {
	n := u.size(len(uuid.UUID{}) + 2)
	f.live = make(map[uuid.UUID]holding, n)
	for range n {
		id, i := uuid.UUID(u.bytes(len(uuid.UUID{}))), u.size(0)
		if i >= len(paths) {
			u.fail()
			return
		}
		h := paths[i].holding()
		h.first = u.number()
		if h.more != nil {
			for j := range *h.more {
				(*h.more)[j] = u.number()
			}
		}
		f.live[id] = h
		f.count(h.path, +1)
	}
}

func (f *fold) unpackCauses(u *unpacker) {
	for range u.size(len(uuid.UUID{}) + 3) {
		id := uuid.UUID(u.bytes(len(uuid.UUID{})))
		f.refused[id] = refusal{u.text(), u.amounts(), u.amounts()}
	}
	for range u.size(3) {
		org := u.text()
		f.late[org] = &tally{u.number(), u.amounts()}
	}
}

func (f *fold) unpackPrincipals(u *unpacker) {
	for range u.size(3) {
		who := principal{u.text(), u.text()}
		n := u.size(8)
		limits := make(map[budget.LimitID]budget.Counters, n)
		for range n {
			id := u.limit()
			limits[id] = u.counters()
		}
		f.principals[who] = limits
	}
}
