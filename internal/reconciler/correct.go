package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"tallystick/internal/ledger"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// serveCorrect writes a correction, a refund or a dispute of an entry.
func (r *Reconciler) serveCorrect(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeLedgerCorrect(req.Body)
	if refused == nil {
		refused = events.CheckKey(req.Key)
	}
	if refused != nil {
		return nil, refused
	}
	m, e, err := r.corrected(ctx, q)
	if err != nil {
		return nil, answerable(err)
	}
	args, err := r.correctArgs(ctx, q, m, e)
	if err != nil {
		return nil, answerable(err)
	}
	args.Execution = redisx.ExecutionID(q.Org, events.ByOperator, "correct", req.Key)
	args.Told.By, args.Told.Why = req.By, req.Why
	args.Extra.Key, args.Extra.Trace = req.Key, req.Trace
	done, err := r.cfg.Store.Correct(ctx, args)
	if err != nil {
		return nil, answerable(correctError(err, args.Amounts))
	}
	answer := events.LedgerCorrectAnswer{
		Outcome: string(done.Kind), Org: q.Org, Seq: m.Seq, Hash: m.Hash.String(), PoolMissing: done.PoolMissing, ID: args.Execution,
	}
	for _, v := range done.Moves {
		answer.Moves = append(answer.Moves, events.CorrectionMove{Pool: v.Pool, Unit: v.Unit, Period: v.Period, Spent: v.Spent, Missing: v.Missing})
	}
	return answer.Append(nil), nil
}

// corrected is the entry that a request names, and what it says.
func (r *Reconciler) corrected(ctx context.Context, q events.LedgerCorrect) (m ledger.Message, e budget.Entry, err error) {
	m, ok, err := r.cfg.Ledger.Find(ctx, q.Org, uint64(q.Seq))
	if err != nil {
		return m, e, err
	}
	if !ok {
		missing := events.NotFound("entry")
		missing.Field = "seq"
		return m, e, missing
	}
	if q.Hash != nil && *q.Hash != m.Hash.String() {
		return m, e, events.InvalidArgument("hash", "entry "+strconv.FormatUint(m.Seq, 10)+" has another hash",
			"read the entry again, and verify the ledger")
	}
	e, err = ledger.Decode(m.Body)
	return m, e, err
}

// correctArgs are what moves by a request: every limit that the entry moved,
// by the amount of its unit; nothing where the amount is only disputed.
func (r *Reconciler) correctArgs(ctx context.Context, q events.LedgerCorrect, m ledger.Message, e budget.Entry) (redisx.CorrectArgs, error) {
	kind := q.KindOf()
	args := redisx.CorrectArgs{
		CorrectCall: budget.CorrectCall{
			Agent: budget.Agent{Org: q.Org, ID: e.Agent}, Fingerprint: q.Fingerprint(), Kind: budget.Kind(kind), Amounts: budget.Amounts{},
		},
		Told: redisx.CorrectTold{
			Corrects: redisx.Corrects{Seq: m.Seq, Hash: m.Hash.String()}, Amounts: q.Amounts, Reason: q.Reason,
		},
		Extra: redisx.Extra{OnBehalfOf: e.OnBehalfOf, Labels: e.Labels},
	}
	limits := limitsIn(e)
	for unit, n := range q.Amounts {
		if !slices.ContainsFunc(limits, func(id budget.LimitID) bool { return id.Unit == unit }) {
			return args, events.InvalidArgument("amounts."+unit, fmt.Sprintf("entry %d, %s, moves no %s", m.Seq, e.Kind, unit), "")
		}
		if kind == events.KindRefunded {
			n = -n
		}
		args.Amounts[unit] = n
	}
	if kind != events.KindDisputed {
		args.Limits = slices.DeleteFunc(limits, func(id budget.LimitID) bool { return args.Amounts[id.Unit] == 0 })
	}
	var err error
	args.Told.Evidence, err = r.evidenceOf(ctx, q)
	return args, err
}

// limitsIn are the limits on which an entry has spent or held, each once. A
// policy moves caps: there is nothing spent to correct.
func limitsIn(e budget.Entry) []budget.LimitID {
	var out []budget.LimitID
	for _, v := range e.Moves {
		if e.Kind != budget.KindPolicyChanged && !slices.Contains(out, v.LimitID) {
			out = append(out, v.LimitID)
		}
	}
	return out
}

// evidenceOf is what the store says of the file that a correction rests on.
func (r *Reconciler) evidenceOf(ctx context.Context, q events.LedgerCorrect) (redisx.Evidence, error) {
	if q.Evidence == nil {
		return redisx.Evidence{}, nil
	}
	if r.evidence.Files == nil {
		e := errNoEvidence()
		e.Field = "evidence"
		return redisx.Evidence{}, e
	}
	mediaType, size, err := r.Evidence(ctx, q.Org, *q.Evidence)
	return redisx.Evidence{ID: *q.Evidence, Type: mediaType, Size: size}, err
}

// correctError is a refusal as an operator gets it.
func correctError(err error, amounts budget.Amounts) error {
	var out *budget.RangeError
	switch {
	case errors.As(err, &out):
		return events.InvalidArgument("amounts."+out.Limit.Unit,
			fmt.Sprintf("pool %s, period %s, has spent %d and cannot move by %d: spent stays between 0 and 2^53-1",
				out.Limit.Pool, out.Limit.Period, out.Spent, amounts[out.Limit.Unit]), "nothing was moved")
	case errors.Is(err, budget.ErrKeyReused):
		return events.KeyReused(events.HeaderKey)
	}
	return err
}
