package report

import (
	"slices"

	"tallystick/pkg/budget"
)

// paths are the sets of pools that reservations book on, each kept once.
type paths struct {
	at   map[string]int32
	all  [][]string
	room []byte
}

func newPaths() paths { return paths{at: map[string]int32{}} }

// of gives the path of a reservation, -1 where there are too many to keep.
func (p *paths) of(moves []budget.Move) int32 {
	key := p.room[:0]
	for i := range moves {
		key = append(append(key, moves[i].Pool...), 0)
	}
	p.room = key
	if i, ok := p.at[string(key)]; ok {
		return i
	}
	if len(p.all) >= RowsMax {
		return -1
	}
	var pools []string
	for i := range moves {
		if !slices.Contains(pools, moves[i].Pool) {
			pools = append(pools, moves[i].Pool)
		}
	}
	i := int32(len(p.all)) //nolint:gosec // bounded by RowsMax
	p.all, p.at[string(key)] = append(p.all, pools), i
	return i
}

func (p *paths) pools(path int32) []string {
	if path < 0 {
		return nil
	}
	return p.all[path]
}

// ofPool is what moves did in one pool, each unit once: a pool may have several
// limits of a unit, of different periods.
func ofPool(moves []budget.Move, pool string, into []delta) []delta {
	for i := range moves {
		if moves[i].Pool != pool || seen(into, moves[i].Unit) {
			continue
		}
		var up, down budget.Counters
		for _, m := range moves[i:] {
			if m.Pool == pool && m.Unit == moves[i].Unit {
				widen(&up, &down, m)
			}
		}
		into = append(into, delta{unit: moves[i].Unit, Counters: plus(up, down)})
	}
	return into
}
