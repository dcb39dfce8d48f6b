package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/registry"
	"tallystick/internal/report"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

const (
	dailyEveryDefault = time.Minute
	// dailyAfterDefault is late enough for the scribe to have carried what was
	// written before midnight.
	dailyAfterDefault = 5 * time.Minute
	// rangeDefault is how many days a report is about if nobody says.
	rangeDefault = 30
	// partMax bounds a part, which travels in base64, below the largest answer.
	partMax = answerMax / 4 * 3
)

// ReportsConfig is what Reports needs.
type ReportsConfig struct {
	Store   *redisx.Store
	Ledger  *ledger.Ledger
	Events  *ledger.Events
	Objects *registry.Objects
	Orgs    func() []string // of which a daily report is made
	Log     zerolog.Logger

	NoDaily    bool          // make none by itself
	DailyEvery time.Duration // how often it looks whether one is due; 0: 1 min
	DailyAfter time.Duration // how long after midnight; 0: 5 min
}

// Validate reports everything that is missing.
func (c ReportsConfig) Validate() error {
	var errs []error
	for what, ok := range map[string]bool{"Store": c.Store != nil, "Ledger": c.Ledger != nil, "Events": c.Events != nil, "Objects": c.Objects != nil, "Orgs": c.Orgs != nil} {
		if !ok {
			errs = append(errs, errors.New("reports: no "+what))
		}
	}
	return errors.Join(errs...)
}

// Reports makes, lists and gives reports for finance people. A report is
// written once: its name says of which range it is and as of which entry, so
// two reconcilers that make the same one write the same.
type Reports struct {
	cfg    ReportsConfig
	making chan struct{} // one at a time: each walks an org's ledger
	done   map[string]string
	made   prometheus.Counter
	failed prometheus.Counter
}

// NewReports makes a Reports.
func NewReports(cfg ReportsConfig) (*Reports, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.DailyEvery <= 0 {
		cfg.DailyEvery = dailyEveryDefault
	}
	if cfg.DailyAfter <= 0 {
		cfg.DailyAfter = dailyAfterDefault
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tally_reconciler_" + name, Help: help})
	}
	return &Reports{
		cfg: cfg, making: make(chan struct{}, 1), done: map[string]string{},
		made:   counter("reports_total", "Reports made and stored."),
		failed: counter("report_failures_total", "Reports that could not be made."),
	}, nil
}

// Collectors are the metrics of reports.
func (r *Reports) Collectors() []prometheus.Collector {
	return []prometheus.Collector{r.made, r.failed}
}

// Verbs are the operators' verbs about reports.
func (r *Reports) Verbs() map[string]worker.AdminFunc {
	return map[string]worker.AdminFunc{
		events.AdminReportMake: r.serveMake,
		events.AdminReportList: r.serveList,
		events.AdminReportGet:  r.serveGet,
	}
}

// Names in the object store: the description last, so that what is listed is
// whole. An id has neither dots nor slashes.
func reportName(org, id string) string       { return org + "/" + id }
func fileName(org, id, format string) string { return org + "/" + id + "." + format }
func isReport(name string) bool              { return !strings.Contains(name, ".") }
func describedBy(o registry.Object) (i events.ReportInfo, ok bool) {
	return i, json.Unmarshal([]byte(o.Meta[metaInfo]), &i) == nil
}

// metaInfo is where an object's metadata describe a report.
const metaInfo = "info"

func (r *Reports) serveMake(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeReportMake(req.Body)
	if refused != nil {
		return nil, refused
	}
	now, err := r.cfg.Store.Now(ctx)
	if err != nil {
		return nil, answerable(err)
	}
	span, refused := rangeOf(q, now)
	if refused != nil {
		return nil, refused
	}
	info, err := r.Make(ctx, q.Org, span)
	if err != nil {
		return nil, answerable(err)
	}
	return events.ReportAnswer{Report: info}.Append(nil), nil
}

// rangeOf is the range that a request means.
func rangeOf(q events.ReportMake, now time.Time) (report.Range, *events.Error) {
	span := report.Range{To: now.Truncate(time.Second).Add(time.Second), Zone: time.UTC}
	var err error
	if q.Zone != nil {
		if span.Zone, err = time.LoadLocation(*q.Zone); err != nil {
			return span, events.InvalidArgument("zone", "there is no such time zone", "Such as UTC or Europe/Berlin.")
		}
	}
	if q.To != nil {
		if span.To, err = events.ParseMoment(*q.To, span.Zone); err != nil {
			return span, events.InvalidArgument("to", err.Error(), "")
		}
	}
	span.From = report.Day(span.To, -rangeDefault, span.Zone)
	if q.From != nil {
		if span.From, err = events.ParseMoment(*q.From, span.Zone); err != nil {
			return span, events.InvalidArgument("from", err.Error(), "")
		}
	}
	if err := span.Check(); err != nil {
		return span, events.InvalidArgument("from", err.Error(), "")
	}
	return span, nil
}

func (r *Reports) serveList(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeReportList(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.known(ctx, q.Org); err != nil {
		return nil, answerable(err)
	}
	all, err := r.cfg.Objects.List(ctx, reportName(q.Org, ""))
	if err != nil {
		return nil, objectsAnswerable(err)
	}
	limit, after := int(events.ListLimitDefault), ""
	if q.Limit != nil {
		limit = int(*q.Limit)
	}
	if q.After != nil {
		after = reportName(q.Org, *q.After)
	}
	answer := events.ReportListAnswer{End: true}
	for _, o := range all {
		info, ok := describedBy(o)
		if !ok || !isReport(o.Name) || o.Name <= after {
			continue
		}
		if len(answer.Reports) == limit {
			answer.End = false
			break
		}
		answer.Reports = append(answer.Reports, info)
	}
	return answer.Append(nil), nil
}

func (r *Reports) serveGet(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeReportGet(req.Body)
	if refused != nil {
		return nil, refused
	}
	about, err := r.cfg.Objects.Stat(ctx, reportName(q.Org, q.Report))
	if err != nil {
		return nil, objectsAnswerable(err)
	}
	_, content, err := r.cfg.Objects.Get(ctx, fileName(q.Org, q.Report, q.Format))
	if err != nil {
		return nil, objectsAnswerable(err)
	}
	part := int64(0)
	if q.Part != nil {
		part = *q.Part
	}
	size := int64(len(content))
	parts := max(1, (size+partMax-1)/partMax)
	if part >= parts {
		return nil, events.InvalidArgument("part", "the report has fewer parts", "The answer to part 0 says how many.")
	}
	answer := events.ReportGetAnswer{Org: q.Org, Report: q.Report, Format: q.Format, Part: part, Parts: parts, Size: size}
	info, _ := describedBy(about)
	for _, f := range info.Files {
		if f.Format == q.Format {
			answer.SHA256 = f.SHA256
		}
	}
	answer.Content = content[part*partMax : min(size, (part+1)*partMax)]
	return answer.Append(nil), nil
}

// known refuses an org of which the ledger knows nothing.
func (r *Reports) known(ctx context.Context, org string) error {
	if _, found, err := r.cfg.Ledger.OrgTail(ctx, org); err != nil || found {
		return err
	}
	return events.NotFound("org")
}

// objectsAnswerable is an error of the object store as an operator gets it.
func objectsAnswerable(err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return events.NotFound("report")
	}
	if errors.Is(err, registry.ErrUnavailable) {
		e := events.Unavailable(retryAfterMS)
		e.Message = err.Error()
		return e
	}
	return answerable(err)
}
