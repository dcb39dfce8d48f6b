package reconciler

import (
	"context"
	"errors"
	"time"

	"tallystick/internal/ledger"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// AdminTimeout is how long an operator's request may take: a rebuild waits for
// the scribe and walks the whole ledger.
const AdminTimeout = 10 * time.Minute

const (
	retryAfterMS = 1000
	// answerMax keeps an answer below the server's largest message.
	answerMax = 600 << 10
)

// Verbs are the operators' verbs that the reconciler serves.
func (r *Reconciler) Verbs() map[string]worker.AdminFunc {
	return map[string]worker.AdminFunc{
		events.AdminLedger:        r.serveLedger,
		events.AdminCheckpoint:    r.serveCheckpoint,
		events.AdminReconcile:     r.serveReconcile,
		events.AdminLedgerCorrect: r.serveCorrect,
		events.AdminRebuild:       r.serveRebuild,
		events.AdminAcceptLoss:    r.serveAcceptLoss,

		events.AdminPrincipalBalance: r.servePrincipalBalance,

		events.AdminEvidencePut:  r.serveEvidencePut,
		events.AdminEvidenceGet:  r.serveEvidenceGet,
		events.AdminEvidenceList: r.serveEvidenceList,
	}
}

func (r *Reconciler) serveLedger(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeLedgerRead(req.Body)
	if refused != nil {
		return nil, refused
	}
	limit, after := int(events.LedgerLimitDefault), uint64(0)
	if q.Limit != nil {
		limit = int(*q.Limit)
	}
	if q.After != nil {
		after = uint64(*q.After)
	}
	from := r.cfg.Ledger
	if q.Mirror != nil && *q.Mirror {
		if from = r.cfg.Mirror; from == nil {
			return nil, events.InvalidArgument("mirror", "this installation has no mirror of the ledger", "")
		}
	}
	tail, found, err := from.OrgTail(ctx, q.Org)
	if err != nil {
		return nil, answerable(err)
	}
	answer := events.LedgerReadAnswer{Last: after, End: !found || tail.StreamSeq <= after}
	if answer.End {
		return answer.Append(nil), nil
	}
	reader := from.Reader(q.Org, after)
	defer reader.Close(context.WithoutCancel(ctx))
	page, err := reader.Next(ctx, limit, 0)
	if err != nil {
		return nil, answerable(err)
	}
	size := 0
	for _, m := range page {
		if size += 2*len(m.Body) + len(m.Subject); size > answerMax && len(answer.Entries) > 0 {
			break
		}
		answer.Entries = append(answer.Entries, line(m))
		answer.Last = m.StreamSeq
	}
	answer.End = answer.Last >= tail.StreamSeq
	return answer.Append(nil), nil
}

func line(m ledger.Message) events.LedgerLine {
	return events.LedgerLine{
		StreamSeq: m.StreamSeq, Seq: m.Seq, Subject: m.Subject,
		Prev: m.Prev.String(), Hash: m.Hash.String(), Body: string(m.Body),
	}
}

func (r *Reconciler) serveReconcile(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeOrgFilter(req.Body)
	if refused != nil {
		return nil, refused
	}
	answer, err := r.Reconcile(ctx, orgOf(q))
	if err != nil {
		return nil, answerable(err)
	}
	return answer.Append(nil), nil
}

func (r *Reconciler) serveRebuild(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeOrgFilter(req.Body)
	if refused != nil {
		return nil, refused
	}
	partitions := make([]int, r.cfg.Store.Partitions())
	for p := range partitions {
		partitions[p] = p
	}
	if org := orgOf(q); org != "" {
		partitions = []int{r.cfg.Store.Partition(org)}
	}
	answer, err := r.Rebuild(ctx, partitions)
	if err != nil {
		return nil, answerable(err)
	}
	if err := r.noteRebuild(ctx, answer.Orgs, req.By, req.Why); err != nil {
		return nil, answerable(err)
	}
	return answer.Append(nil), nil
}

func orgOf(q events.OrgFilter) string {
	if q.Org == nil {
		return ""
	}
	return *q.Org
}

// answerable is an error as an operator gets it.
func answerable(err error) error {
	if errors.Is(err, budget.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		e := events.Unavailable(retryAfterMS)
		e.Message = err.Error()
		return e
	}
	return err
}
