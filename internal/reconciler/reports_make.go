package reconciler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"tallystick/internal/ledger"
	"tallystick/internal/report"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Make makes a report of an org, stores it in every format and announces it. A
// report that is there already stays as it is.
func (r *Reports) Make(ctx context.Context, org string, span report.Range) (events.ReportInfo, error) {
	if err := r.known(ctx, org); err != nil {
		return events.ReportInfo{}, err
	}
	made, err := r.aggregate(ctx, org, span)
	if err != nil {
		return events.ReportInfo{}, err
	}
	return r.keep(ctx, made)
}

// aggregate waits for its turn and counts its failures.
func (r *Reports) aggregate(ctx context.Context, org string, span report.Range) (*report.Report, error) {
	select {
	case r.making <- struct{}{}:
		defer func() { <-r.making }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	made, err := r.walk(ctx, org, span)
	if err != nil {
		r.failed.Inc()
	}
	return made, err
}

// walk adds up an org's ledger from its beginning: what is held at the end was
// reserved at some time.
func (r *Reports) walk(ctx context.Context, org string, span report.Range) (*report.Report, error) {
	a, err := report.New(org, span)
	if err != nil {
		return nil, err
	}
	unreadable := 0
	err = r.cfg.Ledger.Walk(ctx, org, 0, func(m ledger.Message) error {
		e, err := ledger.Decode(m.Body)
		if err != nil {
			unreadable++
			return nil
		}
		a.Add(&e, report.AsOf{Seq: m.Seq, StreamSeq: m.StreamSeq, Hash: m.Hash.String()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if unreadable > 0 {
		r.cfg.Log.Error().Str("org", org).Int("entries", unreadable).Msg("ALARM: a report counts without entries that are unreadable")
	}
	since, err := r.cfg.Events.History(ctx, org, events.EventDrift, span.From, func(e events.EventMessage) {
		drift, ok := e.(events.Drift)
		if at, err := time.Parse(time.RFC3339Nano, e.Head().At); ok && err == nil {
			a.AddDrift(at, drift)
		}
	})
	if err != nil {
		return nil, err
	}
	if since.Before(span.To) {
		a.DriftSince(since)
	} else {
		a.DriftSince(span.To)
	}
	return a.Report(), nil
}

// keep stores a report, tells of it, and at last describes it: what is listed
// has been told of. Where it dies in between, the next one to make the report
// finds equal files, tells again under the same id, and describes it.
func (r *Reports) keep(ctx context.Context, made *report.Report) (events.ReportInfo, error) {
	info := events.ReportInfo{
		Report: made.ID, Org: made.Org, From: made.From, To: made.To, Zone: made.Zone,
		Entries: made.Entries, AsOfSeq: made.AsOf.Seq, Hash: made.AsOf.Hash,
	}
	if o, err := r.cfg.Objects.Stat(ctx, reportName(made.Org, made.ID)); err == nil {
		if known, ok := describedBy(o); ok {
			return known, nil
		}
	}
	for _, format := range report.Formats() {
		content, err := made.Render(format)
		if err != nil {
			return info, err
		}
		// What is there already is what counts: its hash is that of another
		// version's page, say.
		_, fresh, err := r.cfg.Objects.Put(ctx, fileName(made.Org, made.ID, format), nil, content)
		if err == nil && !fresh {
			_, content, err = r.cfg.Objects.Get(ctx, fileName(made.Org, made.ID, format))
		}
		if err != nil {
			return info, objectsAnswerable(err)
		}
		sum := sha256.Sum256(content)
		info.Files = append(info.Files, events.ReportFile{Format: format, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])})
	}
	if err := r.announce(ctx, info); err != nil {
		return info, err
	}
	text, err := json.Marshal(info)
	if err != nil {
		return info, err
	}
	if _, _, err := r.cfg.Objects.Put(ctx, reportName(made.Org, made.ID), map[string]string{metaInfo: string(text)}, text); err != nil {
		return info, objectsAnswerable(err)
	}
	r.made.Inc()
	return info, nil
}

// announce tells that a report is ready. The event's id is the report's, so two
// that make the same one tell it once.
func (r *Reports) announce(ctx context.Context, i events.ReportInfo) error {
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return err
	}
	return r.cfg.Events.Publish(ctx, events.ReportReady{
		EventHead: events.NewEventHead(events.EventReportReady, "report-"+i.Org+"-"+i.Report, i.Org, now),
		Report:    i.Report, From: i.From, To: i.To, Zone: i.Zone, AsOfSeq: i.AsOfSeq, Hash: i.Hash, Files: i.Files,
	})
}

// Run makes a report of yesterday for every org, by Redis's clock, until ctx
// ends.
func (r *Reports) Run(ctx context.Context) error {
	if r.cfg.NoDaily {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(r.cfg.DailyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := r.daily(ctx); err != nil && ctx.Err() == nil {
				r.cfg.Log.Warn().Err(err).Msg("daily reports wait")
			}
		}
	}
}

// daily makes what is due and not there.
func (r *Reports) daily(ctx context.Context) error {
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return err
	}
	today := report.Day(now, 0, time.UTC)
	if now.Before(today.Add(r.cfg.DailyAfter)) {
		return nil
	}
	span := report.Range{From: report.Day(now, -1, time.UTC), To: today, Zone: time.UTC}
	day := span.From.Format(time.DateOnly)
	orgs := slices.DeleteFunc(r.cfg.Orgs(), func(org string) bool { return r.done[org] == day })
	if len(orgs) == 0 {
		return nil
	}
	stored, err := r.cfg.Objects.List(ctx, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, org := range orgs {
		there := false
		for _, o := range stored {
			rest, ok := strings.CutPrefix(o.Name, reportName(org, span.Prefix()))
			there = there || ok && isReport(rest) && !strings.Contains(rest, "_") // another zone's has one
		}
		if !there {
			if there, err = r.makeDaily(ctx, org, span); err != nil {
				errs = append(errs, err)
			}
		}
		if there {
			r.done[org] = day
		}
	}
	return errors.Join(errs...)
}

// makeDaily makes an org's report unless the ledger may lack entries of that
// day. It is done, too, where there was no org yet.
func (r *Reports) makeDaily(ctx context.Context, org string, span report.Range) (done bool, err error) {
	whole, err := r.carried(ctx, org, span.To)
	if err != nil || !whole {
		return false, err
	}
	made, err := r.aggregate(ctx, org, span)
	if err != nil || made.AsOf.Seq == 0 {
		return err == nil, err
	}
	_, err = r.keep(ctx, made)
	return err == nil, err
}

// carried reports whether all that an org did before a time is on the ledger:
// its last entry is later, or nothing as old waits in the outbox behind it.
func (r *Reports) carried(ctx context.Context, org string, before time.Time) (bool, error) {
	tail, found, err := r.cfg.Ledger.OrgTail(ctx, org)
	if err != nil || !found {
		return false, err
	}
	e, err := ledger.Decode(tail.Body)
	if err != nil {
		return false, err
	}
	if !e.At.Before(before) {
		return true, nil
	}
	page, err := r.cfg.Store.OutboxRead(ctx, r.cfg.Store.Partition(org), e.OutboxID, readMax)
	if err != nil {
		return false, err
	}
	early := func(e budget.Entry) bool { return e.At.Before(before) }
	return !slices.ContainsFunc(page.Entries, early), nil
}

// Orgs lists the orgs that the ledger knows limits of.
func (r *Reconciler) Orgs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	var out []string
	for id := range r.fold.limits {
		if !seen[id.Org] {
			seen[id.Org] = true
			out = append(out, id.Org)
		}
	}
	slices.Sort(out)
	return out
}
