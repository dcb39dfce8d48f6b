package reconciler_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/registry"
	"tallystick/internal/report"
	"tallystick/internal/worker"
	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// reports is a Reports of the world, which may be one of several.
func (w *world) reports(t testing.TB) *reconciler.Reports {
	t.Helper()
	objects, err := registry.OpenObjects(t.Context(), w.js, events.StoreReports)
	must(t, err)
	r, err := reconciler.NewReports(reconciler.ReportsConfig{
		Store: w.store, Ledger: w.ledger, Events: ledger.NewEvents(w.js), Objects: objects, Log: zerolog.Nop(),
		Orgs: func() []string { return []string{org} }, DailyEvery: 5 * time.Millisecond, DailyAfter: time.Nanosecond,
	})
	must(t, err)
	return r
}

func (w *world) withStore(t testing.TB) {
	t.Helper()
	_, err := w.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: events.StoreReports})
	must(t, err)
}

// tell writes entries of an org on the ledger, as of a time.
func (w *world) tell(t testing.TB, at time.Time, spent ...int64) {
	t.Helper()
	a, err := w.ledger.Resume(t.Context(), w.store.Partitions())
	must(t, err)
	var entries []budget.Entry
	for i, n := range spent {
		entries = append(entries, budget.Entry{
			Partition: w.store.Partition(org), OutboxID: fmt.Sprintf("%d-%d", at.UnixMilli(), i), Org: org, At: at, Kind: budget.KindCharged, Agent: agent.ID,
			Moves: []budget.Move{{LimitID: budget.LimitID{Pool: "team", Unit: "tokens", Period: budget.PeriodNone}, Spent: n}},
		})
	}
	must(t, a.Append(t.Context(), entries))
}

func asked[Q any, A any](t testing.TB, r *reconciler.Reports, verb string, q Q, parse func([]byte) (A, error)) A {
	t.Helper()
	body, err := json.Marshal(q)
	must(t, err)
	answer, err := r.Verbs()[verb](t.Context(), worker.AdminRequest{Verb: verb, Body: body})
	must(t, err)
	a, err := parse(answer)
	must(t, err)
	return a
}

func refusal(t testing.TB, r *reconciler.Reports, verb string, q any) events.Code {
	t.Helper()
	body, err := json.Marshal(q)
	must(t, err)
	_, err = r.Verbs()[verb](t.Context(), worker.AdminRequest{Verb: verb, Body: body})
	var e *events.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s %s: %v", verb, body, err)
	}
	return e.Code
}

// fetched puts a report together from its parts.
func fetched(t testing.TB, r *reconciler.Reports, id, format string) string {
	t.Helper()
	var content []byte
	for part := int64(0); ; part++ {
		a := asked(t, r, events.AdminReportGet, events.ReportGet{Org: org, Report: id, Format: format, Part: &part}, events.ParseReportGetAnswer)
		content = append(content, a.Content...)
		if part+1 == a.Parts {
			if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != a.SHA256 || int64(len(content)) != a.Size {
				t.Errorf("%s: %d bytes, %+v", format, len(content), a)
			}
			return string(content)
		}
	}
}

func (w *world) announced(t testing.TB) uint64 {
	t.Helper()
	s, err := w.js.Stream(t.Context(), events.StreamEvents)
	must(t, err)
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(events.Event(org, events.EventReportReady)))
	must(t, err)
	return info.State.Subjects[events.Event(org, events.EventReportReady)]
}

// TestDailyOnce: two reconcilers make yesterday's report, and there is one: one
// description, one event, files that are what they are said to be.
func TestDailyOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withStore(t)
	now, err := w.store.Now(t.Context())
	must(t, err)
	yesterday := report.Day(now, -1, time.UTC)
	w.tell(t, yesterday.Add(-time.Hour), 1000)
	w.tell(t, yesterday.Add(time.Hour), 20, 3)
	w.tell(t, now, 500)
	one, two := w.reports(t), w.reports(t)
	background(t, one.Run)
	background(t, two.Run)
	list := func() []events.ReportInfo {
		return asked(t, one, events.AdminReportList, events.ReportList{Org: org}, events.ParseReportListAnswer).Reports
	}
	eventually(t, "yesterday's report is there", func() bool { return len(list()) > 0 })
	again := w.reports(t) // restarted, it makes none again
	background(t, again.Run)
	i := list()[0]
	if i.From != events.FormatTime(yesterday) || i.Entries != 2 || i.AsOfSeq != 3 || len(i.Files) != 3 {
		t.Errorf("%+v", i)
	}
	var doc report.Report
	must(t, json.Unmarshal([]byte(fetched(t, two, i.Report, "json")), &doc))
	if len(doc.Totals) != 1 || doc.Totals[0].Spent != 23 || doc.Limits[0].Spent != 1023 || doc.Series.Step != report.StepHour {
		t.Errorf("%+v %+v", doc.Totals, doc.Limits)
	}
	if n := w.announced(t); n != 1 || len(list()) != 1 {
		t.Errorf("%d announcements, %d reports", n, len(list()))
	}
}

// TestReportsOnDemand: a report made twice is one; drift of the range is in it;
// what is unknown is refused.
func TestReportsOnDemand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withStore(t)
	r := w.reports(t)
	now, err := w.store.Now(t.Context())
	must(t, err)
	w.tell(t, now.Add(-48*time.Hour), 7)
	must(t, ledger.NewEvents(w.js).Publish(t.Context(), events.Drift{
		EventHead: events.NewEventHead(events.EventDrift, "drift-1", org, now), Verdict: events.VerdictDrift, Cut: "0-1-0",
		Drift: []events.DriftRow{{Pool: "team", Unit: "tokens", Period: "none", Counter: "spent", Drift: -4}},
	}))
	from, to := report.Day(now, -5, time.UTC).Format(time.DateOnly), report.Day(now, 1, time.UTC).Format(time.DateOnly)
	q := events.ReportMake{Org: org, From: &from, To: &to}
	first := asked(t, r, events.AdminReportMake, q, events.ParseReportAnswer)
	second := asked(t, r, events.AdminReportMake, q, events.ParseReportAnswer)
	if d := gocmp.Diff(first, second); d != "" || w.announced(t) != 1 {
		t.Errorf("made twice, announced %d times: %s", w.announced(t), d)
	}
	var doc report.Report
	must(t, json.Unmarshal([]byte(fetched(t, r, first.Report.Report, "json")), &doc))
	if len(doc.Drift.Points) != 1 || doc.Drift.Points[0].Amounts["tokens"] != 4 || doc.Drift.Since != doc.From {
		t.Errorf("drift %+v", doc.Drift)
	}
	if page := fetched(t, r, first.Report.Report, "html"); !strings.Contains(page, "<svg") {
		t.Error("no plot")
	}
	part, zone := int64(1), "Mars/Olympus"
	for _, c := range []struct {
		verb string
		q    any
		want events.Code
	}{
		{events.AdminReportMake, events.ReportMake{Org: "nobody"}, events.CodeNotFound},
		{events.AdminReportList, events.ReportList{Org: "nobody"}, events.CodeNotFound},
		{events.AdminReportGet, events.ReportGet{Org: "nobody", Report: first.Report.Report, Format: "csv"}, events.CodeNotFound},
		{events.AdminReportGet, events.ReportGet{Org: org, Report: "none", Format: "csv"}, events.CodeNotFound},
		{events.AdminReportGet, events.ReportGet{Org: org, Report: first.Report.Report, Format: "csv", Part: &part}, events.CodeInvalidArgument},
		{events.AdminReportMake, events.ReportMake{Org: org, Zone: &zone}, events.CodeInvalidArgument},
		{events.AdminReportMake, events.ReportMake{Org: org, From: &to, To: &from}, events.CodeInvalidArgument},
	} {
		if got := refusal(t, r, c.verb, c.q); got != c.want {
			t.Errorf("%s %+v: %s", c.verb, c.q, got)
		}
	}
}
