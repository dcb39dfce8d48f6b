package worker

import "sync"

// backlog bounds how many commands one agent has queued: waiting to be stored,
// or stored and not yet decided. Otherwise one agent could fill COMMANDS for
// everybody while Redis is away.
//
// What this worker decides itself is released at once. What another worker of
// the role decides is released when the consumer's floor passes it.
type backlog struct {
	mu        sync.Mutex
	admission admission
	bySeq     map[uint64]string   // stored here, undecided as far as known
	early     map[uint64]struct{} // decided before this intake knew the sequence
	floor     uint64
}

func newBacklog(limit int) *backlog {
	return &backlog{
		admission: admission{count: make(map[string]int), limit: limit},
		bySeq:     make(map[uint64]string),
		early:     make(map[uint64]struct{}),
	}
}

func (b *backlog) admit(who string) bool { return b.admission.admit(who) }
func (b *backlog) cancel(who string)     { b.admission.release(who) }

// stored notes a batch whose last command got sequence last.
func (b *backlog) stored(last uint64, cmds []*command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range cmds {
		seq := last - uint64(len(cmds)-1-i)
		if _, done := b.early[seq]; done || seq <= b.floor {
			delete(b.early, seq)
			b.admission.release(c.who)
			continue
		}
		b.bySeq[seq] = c.who
	}
}

// decided releases commands whose decision is about to be published.
func (b *backlog) decided(dels []*delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range dels {
		if who, ok := b.bySeq[d.seq]; ok {
			delete(b.bySeq, d.seq)
			b.admission.release(who)
		} else if d.seq > b.floor {
			b.early[d.seq] = struct{}{}
		}
	}
}

// passed releases everything up to floor.
func (b *backlog) passed(floor uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.floor = max(b.floor, floor)
	for seq, who := range b.bySeq {
		if seq <= b.floor {
			delete(b.bySeq, seq)
			b.admission.release(who)
		}
	}
	for seq := range b.early {
		if seq <= b.floor {
			delete(b.early, seq)
		}
	}
}

// idle says that there is nothing a floor could release.
func (b *backlog) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.bySeq) == 0 && len(b.early) == 0
}
