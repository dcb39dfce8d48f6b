package redisx

// PendingExpire is the answer to come of an expire: expired, lapsed, early,
// gone (resolved meanwhile), corrupt (set aside in the quarantine).
type PendingExpire struct {
	Outcome string
	Err     error
}

// Expire adds the end of a hold or of its late window: lua/expire.lua. rec is
// the record as read just before, from which the keys are taken; for one that
// is gone or unreadable pass a Record without limits.
func (b *Batch) Expire(partition int, o Overdue, rec Record) *PendingExpire {
	c := &expireCall{store: b.store, partition: partition, overdue: o}
	c.guess = guess{org: rec.Org}
	c.guess.correct(rec)
	b.calls = append(b.calls, c)
	return &c.PendingExpire
}

type expireCall struct {
	PendingExpire
	store     *Store
	partition int
	overdue   Overdue
	guess     guess
}

func (c *expireCall) failed(err error) { c.Err = err }

func (c *expireCall) command() (*script, []string, []any) {
	k := &c.store.partitions[c.partition]
	live := k.live(c.guess.org, c.guess.holder)
	if c.guess.holder == "" && c.overdue.live != "" {
		live = c.overdue.live // whose record cannot be read
	}
	keys := []string{k.record(c.overdue.Execution), k.lapsing, live, k.revoked, k.epoch, k.outbox, k.quarantine}
	args := []any{c.overdue.Execution, c.guess.holder, c.guess.limits, c.guess.slots}
	return c.store.scripts["expire"], c.guess.keys(keys, k), c.guess.units(args)
}

func (c *expireCall) reply(v []string) (bool, error) {
	if v[0] == "keys" {
		r, err := ParseRecord(v[1])
		if err != nil {
			return false, err
		}
		c.guess.org = r.Org
		c.guess.correct(r)
		return true, nil
	}
	c.Outcome = v[0]
	return false, nil
}

// PendingRecord is the answer to come of a read of a record.
type PendingRecord struct {
	Record Record
	Err    error // budget.ErrNotFound, an unreadable record, ErrUnavailable
}
