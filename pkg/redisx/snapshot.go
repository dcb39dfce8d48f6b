package redisx

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tallystick/pkg/budget"
)

// SnapshotMax is how many limits one cut may have.
const SnapshotMax = 256

// Snapshot is a consistent cut of one partition: the figures of some limits
// and the outbox id up to which they include every entry.
type Snapshot struct {
	Cut  string // "0-0" where nothing was ever written
	Rows []SnapshotRow
}

// SnapshotRow is one limit at the cut.
type SnapshotRow struct {
	budget.Counters
	Missing bool   // the limit's hash is gone
	Corrupt string // the field that holds no integer; "" where all do
}

type snapshotCall struct {
	store     *Store
	partition int
	limits    []budget.Counter
	out       Snapshot
	err       error
}

func (c *snapshotCall) failed(err error) { c.err = err }

func (c *snapshotCall) command() (*script, []string, []any) {
	k := &c.store.partitions[c.partition]
	keys := make([]string, 1, 1+len(c.limits))
	keys[0] = k.outbox
	for _, l := range c.limits {
		keys = append(keys, k.limit(l.Org, l.LimitID))
	}
	return c.store.scripts["snapshot"], keys, nil
}

func (c *snapshotCall) reply(values []string) (bool, error) {
	if len(values) != 2+5*len(c.limits) {
		return false, fmt.Errorf("redisx: snapshot answered %d values for %d limits", len(values), len(c.limits))
	}
	c.out.Cut = values[1]
	for i := range c.limits {
		c.out.Rows = append(c.out.Rows, snapshotRow(values[2+5*i:7+5*i]))
	}
	return false, nil
}

func snapshotRow(v []string) SnapshotRow {
	if v[0] == "" && v[1] == "" && v[2] == "" && v[3] == "" && v[4] == "" {
		return SnapshotRow{Missing: true}
	}
	var row SnapshotRow
	names := [...]string{"cap", "adj", "held", "spent", "withheld"}
	for i, into := range []*int64{&row.Cap, &row.Adj, &row.Held, &row.Spent, &row.Withheld} {
		n, err := strconv.ParseInt(v[i], 10, 64)
		if err != nil && row.Corrupt == "" {
			row.Corrupt = names[i]
		}
		*into = n
	}
	return row
}

// Snapshot cuts a partition; the limits are of orgs of that partition, at most
// SnapshotMax.
func (s *Store) Snapshot(ctx context.Context, partition int, limits []budget.Counter) (Snapshot, error) {
	if len(limits) > SnapshotMax {
		return Snapshot{}, fmt.Errorf("redisx: a cut has at most %d limits, not %d", SnapshotMax, len(limits))
	}
	c := &snapshotCall{store: s, partition: partition, limits: limits}
	s.one(ctx, c)
	return c.out, c.err
}

// Opened lists every limit that a partition ever had, with its pool's revision
// when it was last changed.
func (s *Store) Opened(ctx context.Context, partition int) (map[budget.Counter]int64, error) {
	fields, err := s.client.HGetAll(ctx, s.partitions[partition].opened).Result()
	if err != nil {
		return nil, redisError(err)
	}
	out := make(map[budget.Counter]int64, len(fields))
	for field, rev := range fields {
		c, err := parseField(field)
		if err != nil {
			return nil, err
		}
		out[c], _ = strconv.ParseInt(rev, 10, 64)
	}
	return out, nil
}

// parseField is the inverse of fieldOf.
func parseField(field string) (budget.Counter, error) {
	var parts [4]string
	rest, ok := field, true
	for i := range parts {
		if parts[i], rest, ok = unseg(rest); !ok {
			return budget.Counter{}, fmt.Errorf("redisx: %q names no limit", field)
		}
	}
	if rest != "" {
		return budget.Counter{}, fmt.Errorf("redisx: %q names no limit", field)
	}
	return budget.Counter{Org: parts[0], LimitID: budget.LimitID{Pool: parts[1], Unit: parts[2], Period: parts[3]}}, nil
}

// texts is the answer of an HMGET as strings, "" where a field is absent.
func texts(cmd redis.Cmder) ([]string, error) {
	slice, ok := cmd.(*redis.SliceCmd)
	if !ok {
		return nil, fmt.Errorf("redisx: unexpected answer %T", cmd)
	}
	values, err := slice.Result()
	if err != nil {
		return nil, redisError(err)
	}
	out := make([]string, len(values))
	for i, v := range values {
		out[i], _ = v.(string)
	}
	return out, nil
}
