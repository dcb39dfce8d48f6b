package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/registry"
	"tallystick/internal/topology"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// Rows of the section audit.
const (
	groupAudit = "audit"
	rowAppend  = "append to the ledger, batches of 1000"
	rowChain   = "verify a chain, the entries at hand"
	rowVerify  = "verify a chain, read from the ledger"
	rowFold    = "fold the ledger, from its first entry"
)

const (
	pastLive = 10 // one reservation in so many is not settled
	atHand   = 100_000
	newOnes  = 9 // comparisons after one new entry each
)

// auditor measures what keeps the books, part by part.
type auditor struct {
	*run
	s       *system
	ledger  *ledger.Ledger
	out     *ledger.Appender
	js      jetstream.JetStream // of the reconciler
	store   *redisx.Store       // of the reconciler
	past    string              // the org whose entries make the ledger long
	written int                 // how many it has
}

// audit measures the scribe on full outboxes, then everything that reads a
// long ledger.
func (b *run) audit(ctx context.Context) error {
	return b.on(ctx, groupAudit, func(ctx context.Context, s *system) error {
		if err := b.scribe(ctx, s); err != nil {
			return err
		}
		b.scaled = append(b.scaled, Finding{"scribe, sync always", b.report.row(rowScribe, 0).Rate, "entries/s", "≥ 50,000"})
		a := &auditor{run: b, s: s}
		for _, part := range []func(context.Context) error{a.open, a.append, a.verify, a.fold, a.keep, a.rebuild} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	}, topology.Scribe)
}

// open borrows what the parts need. Only the scribe may append.
func (a *auditor) open(ctx context.Context) error {
	a.past = a.s.freeName()
	a.s.orgs = append(a.s.orgs, a.past)
	js, store, err := a.s.up.Borrow(topology.Scribe)
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, js)
	if err != nil {
		return err
	}
	if a.out, err = l.Resume(ctx, store.Partitions()); err != nil {
		return err
	}
	if a.js, a.store, err = a.s.up.Borrow(topology.Reconciler); err != nil {
		return err
	}
	a.ledger, err = ledger.Open(ctx, a.js)
	return err
}

// more appends entries as reserves and settles write them. Their org has no
// policy, so no counters in Redis, and nothing compares them.
func (a *auditor) more(ctx context.Context, n int) error {
	batch := make([]budget.Entry, n)
	for i := range batch {
		batch[i] = pastEntry(a.past, a.store.Partition(a.past), a.written)
		a.written++
	}
	return a.out.Append(ctx, batch)
}

func pastEntry(org string, partition, i int) budget.Entry {
	e := budget.Entry{
		Partition: partition, OutboxID: fmt.Sprintf("1-%d", i+1), Org: org, At: time.UnixMilli(1764550000000), Kind: budget.KindReserved,
		Agent: "0196b7a0-0000-7000-8000-000000000001", Key: fmt.Sprintf("key-%d", i),
	}
	id := budget.LimitID{Pool: benchPool, Unit: benchUnit, Period: budget.PeriodNone}
	reservation, held := i, int64(benchAmount)
	if i%2 == 1 && i%pastLive != 1 { // settles what came before
		reservation, e.Kind = i-1, budget.KindSettled
		e.Moves = []budget.Move{{LimitID: id, Held: -held, Spent: benchSpent}}
		e.Detail = []byte(`{"amounts":{"tokens":100},"charged":{"tokens":60},"returned":{"tokens":40},"status":"success"}`)
	} else {
		e.Moves = []budget.Move{{LimitID: id, Held: held}}
		e.Detail = []byte(`{"amounts":{"tokens":100},"created_at":"2026-12-01T00:00:00.123Z","expires_at":"2026-12-01T00:10:00.123Z","fingerprint":"0123456789abcdef0123456789abcdef"}`)
	}
	e.Execution = uuid.NewSHA1(uuid.Nil, fmt.Append(nil, reservation)).String()
	e.Record = "1 held 1764550000123 1764550600123 0\n0123456789abcdef0123456789abcdef\n" + org + "\t" + e.Agent + "\t\t\ntokens=100\nbench\ttokens\tnone\n\n{\"key\":\"k-1\",\"ttl\":600000}\n\n"
	return e
}

func (a *auditor) append(ctx context.Context) error {
	a.say("%s: making a ledger of %d entries", groupAudit, a.cfg.Ledger)
	own, begun := ownCPU(), time.Now()
	for a.written < a.cfg.Ledger {
		if err := a.more(ctx, min(ledger.MaxBatch, a.cfg.Ledger-a.written)); err != nil {
			return err
		}
	}
	a.row(rowAppend, a.written, time.Since(begun), ownCPU()-own, "each batch fsynced")
	if err := a.tell(ctx); err != nil {
		return err
	}
	// The system's own reconciler is done with them when it has answered.
	_, err := a.s.operator.Do(ctx, events.AdminReconcile, "", map[string]any{})
	return err
}

// tell lets Redis know what the ledger knows, or it looks as if it had lost it.
func (a *auditor) tell(ctx context.Context) error {
	partition, head := a.store.Partition(a.past), a.out.Head()
	anchor := redisx.Anchor{Position: a.out.Position(partition), StreamSeq: head.StreamSeq, Hash: head.Hash.String()}
	const fence = "bench"
	if err := a.store.Fence(ctx, partition, fence); err != nil {
		return err
	}
	if err := a.store.Restore(partition, fence).Outbox(ctx, anchor); err != nil {
		return err
	}
	return a.store.Unfence(ctx, partition)
}

func (a *auditor) row(name string, count int, took, own time.Duration, note string) float64 {
	r := rowOf(groupAudit, name, 0, []window{{count: count, took: took, own: own}})
	r.Note = note
	a.add(r)
	return r.Rate
}

func (a *auditor) verify(ctx context.Context) error {
	var entries []ledger.Message
	own, begun := ownCPU(), time.Now()
	v := ledger.NewVerifier(a.past)
	err := a.ledger.Walk(ctx, a.past, 0, func(m ledger.Message) error {
		if len(entries) < atHand {
			entries = append(entries, m)
		}
		v.Add(m)
		return nil
	})
	if err != nil {
		return err
	}
	if r := v.Result(); r.Verdict != ledger.VerdictOK || r.Entries != uint64(a.written) { //nolint:gosec // never negative
		return fmt.Errorf("the chain is %s after %d of %d entries", r.Verdict, r.Entries, a.written)
	}
	a.row(rowVerify, a.written, time.Since(begun), ownCPU()-own, "with the server and the reading")
	own, begun = ownCPU(), time.Now()
	v = ledger.NewVerifier(a.past)
	for _, m := range entries {
		v.Add(m)
	}
	rate := a.row(rowChain, len(entries), time.Since(begun), ownCPU()-own, "one core")
	a.scaled = append(a.scaled, Finding{"verify, per core", rate, "entries/s", "≥ 300,000"})
	return nil
}

func (a *auditor) reconciler(ctx context.Context, folds reconciler.Folds) (*reconciler.Reconciler, error) {
	directory, err := registry.OpenDirectory(ctx, a.js)
	if err != nil {
		return nil, err
	}
	return reconciler.New(reconciler.Config{
		Store: a.store, Ledger: a.ledger, Events: ledger.NewEvents(a.js), Epochs: directory, Folds: folds, Log: zerolog.Nop(), KeepEntries: keepEntries,
	})
}

// keepEntries makes a small ledger's fold worth keeping too.
const keepEntries = 100

// compared is one comparison of everything: how long, and how much work.
func compared(ctx context.Context, r *reconciler.Reconciler) (took, work time.Duration, err error) {
	own, begun := ownCPU(), time.Now()
	answer, err := r.Reconcile(ctx, "")
	took, work = time.Since(begun), ownCPU()-own
	if err == nil && answer.Verdict != events.VerdictOK {
		err = fmt.Errorf("reconcile: %+v", answer)
	}
	return took, work, err
}

// fold reads the ledger from its first entry, then compares after one new
// entry at a time.
func (a *auditor) fold(ctx context.Context) error {
	r, err := a.reconciler(ctx, nil)
	if err != nil {
		return err
	}
	took, work, err := compared(ctx, r)
	if err != nil {
		return err
	}
	n := int(a.out.Head().StreamSeq) //nolint:gosec // far below 2^63
	a.row(rowFold, n, took, work, "with the server and the reading")
	a.scaled = append(a.scaled, Finding{fmt.Sprintf("start with %d entries, from the first", n), ms(took), "ms", ""})
	var walls, works []float64
	for range newOnes {
		if err := a.more(ctx, 1); err != nil {
			return err
		}
		took, work, err := compared(ctx, r)
		if err != nil {
			return err
		}
		walls, works = append(walls, ms(took)), append(works, ms(work))
	}
	what := fmt.Sprintf("reconcile after 1 new entry, %d behind it, ", n)
	a.scaled = append(a.scaled, Finding{what + "CPU of all but Redis", median(works), "ms", "≤ 100"}, Finding{what + "until the answer", median(walls), "ms", ""})
	return a.tell(ctx)
}

func ms(d time.Duration) float64 { return micros(d) / 1000 }

// keep has a fold kept, and starts from it.
func (a *auditor) keep(ctx context.Context) error {
	folds, err := registry.OpenObjects(ctx, a.js, events.StoreFolds)
	if err != nil {
		return err
	}
	r, err := a.reconciler(ctx, folds)
	if err != nil {
		return err
	}
	if _, _, err = compared(ctx, r); err != nil {
		return err
	}
	done, stop := context.WithCancel(ctx)
	stop()
	if err := r.Run(done); err != nil { // keeps the fold at its end
		return err
	}
	if r, err = a.reconciler(ctx, folds); err != nil {
		return err
	}
	took, _, err := compared(ctx, r)
	a.scaled = append(a.scaled, Finding{"the same start, from a kept fold", ms(took), "ms", ""})
	return err
}

// rebuild fills an org's partition with reservations and has it written anew.
func (a *auditor) rebuild(ctx context.Context) error {
	org, agents, err := a.s.newOrg(ctx, unlimited)
	if err != nil {
		return err
	}
	spec := loadSpec{Kind: loadDirect, Clients: clientsMax, Org: org, Agents: agents, Requests: int64(a.cfg.Live)}
	if _, err := a.load(ctx, a.s, spec, nil); err != nil {
		return err
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, reconciler.AdminTimeout)
	defer cancel()
	if _, err := a.s.operator.Do(ctx, events.AdminRebuild, "", map[string]any{"org": org}); err != nil {
		return err
	}
	a.scaled = append(a.scaled, Finding{fmt.Sprintf("rebuild of %d reservations, %d entries on the ledger", a.cfg.Live, a.out.Head().StreamSeq), ms(time.Since(begun)), "ms", ""})
	return nil
}
