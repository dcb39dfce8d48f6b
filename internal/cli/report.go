package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"

	"tallystick/internal/money"
	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func (e *environment) reportCommand() *cobra.Command {
	return group("report", "Reports for finance: per pool, agent, principal, target, kind and day",
		`  tallystick report make --org acme --from 2026-12-01 --to 2027-01-01 --zone Europe/Berlin
  tallystick report list --org acme
  tallystick report get 20261201T000000Z_20261202T000000Z_812 --org acme --format html --file report.html`,
		e.reportMake(), e.reportList(), e.reportGet())
}

func (e *environment) reportMake() *cobra.Command {
	var org, from, to, zone string
	c := &cobra.Command{
		Use: "make --org ORG", Short: "Make a report and store it; without a range, of the last 30 days", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := events.ReportMake{Org: org}
			for flag, to := range map[string]struct {
				field **string
				value *string
			}{"from": {&req.From, &from}, "to": {&req.To, &to}, "zone": {&req.Zone, &zone}} {
				if set(cmd, flag) {
					*to.field = to.value
				}
			}
			return e.admin(cmd, events.AdminReportMake, "", req, func(body []byte) error {
				a, err := events.ParseReportAnswer(body)
				if err != nil {
					return err
				}
				e.note("next: tallystick report get %s --org %s --format html --file report.html", a.Report.Report, org)
				return e.reports(a.Report)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&from, "from", "", "first `DAY`, such as 2026-12-01, or second, such as 2026-12-01T08:00:00Z")
	f.StringVar(&to, "to", "", "`DAY` or second that the report ends before; default: now")
	f.StringVar(&zone, "zone", "", "`ZONE` of its days, such as Europe/Berlin; default: UTC")
	require(c, "org")
	return c
}

func (e *environment) reportList() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List an org's reports, the earliest range first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []events.ReportInfo
			err := e.operated(cmd, func(ctx context.Context, op *client.Operator) error {
				return eachReport(ctx, op, org, func(i events.ReportInfo) { all = append(all, i) })
			})
			if err != nil {
				return err
			}
			if e.json() {
				return e.raw(events.ReportListAnswer{Reports: all, End: true}.Append(nil))
			}
			return e.reports(all...)
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

// eachReport pages through an org's reports.
func eachReport(ctx context.Context, op *client.Operator, org string, visit func(events.ReportInfo)) error {
	q := events.ReportList{Org: org, Limit: new(events.ListLimitMax)}
	for {
		body, err := op.Do(ctx, events.AdminReportList, "", q)
		if err != nil {
			return err
		}
		a, err := events.ParseReportListAnswer(body)
		if err != nil {
			return err
		}
		for _, i := range a.Reports {
			visit(i)
			q.After = new(i.Report)
		}
		if a.End || len(a.Reports) == 0 {
			return nil
		}
	}
}

func (e *environment) reports(all ...events.ReportInfo) error {
	t := newTable(e.out, "REPORT", "FROM", "TO", "ZONE", "ENTRIES", "AS OF", "BYTES OF JSON, CSV, HTML")
	for _, i := range all {
		sizes := ""
		for n, f := range i.Files {
			if n > 0 {
				sizes += ", "
			}
			sizes += money.Grouped(f.Size)
		}
		t.row(i.Report, i.From, i.To, i.Zone, money.Grouped(i.Entries), i.AsOfSeq, sizes)
	}
	return t.flush()
}

func (e *environment) reportGet() *cobra.Command {
	var org, format, file string
	c := &cobra.Command{
		Use: "get REPORT --org ORG", Short: "Fetch a report: to stdout, or to a new file",
		Args: exactly("a report's id, which `report list` shows"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if e.json() && set(cmd, "format") && format != events.ReportJSON {
				return usagef("-o json gives the report as JSON: leave out --format, or -o json")
			}
			q := events.ReportGet{Org: org, Report: args[0], Format: format}
			var content []byte
			err := e.operated(cmd, func(ctx context.Context, op *client.Operator) (err error) {
				content, err = fetchReport(ctx, op, q)
				return err
			})
			if err != nil {
				return err
			}
			if file == "" {
				_, err = e.out.Write(content)
				return err
			}
			if err := writeNew(file, content); err != nil {
				return err
			}
			e.note("%s bytes in %s", money.Grouped(int64(len(content))), file)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&format, "format", events.ReportJSON, "json, csv or html")
	f.StringVar(&file, "file", "", "write to a new `FILE` instead of stdout")
	require(c, "org")
	return c
}

// fetchReport puts the parts together and checks that they are the whole.
func fetchReport(ctx context.Context, op *client.Operator, q events.ReportGet) ([]byte, error) {
	var content []byte
	for part := int64(0); ; part++ {
		q.Part = &part
		body, err := op.Do(ctx, events.AdminReportGet, "", q)
		if err != nil {
			return nil, err
		}
		a, err := events.ParseReportGetAnswer(body)
		if err != nil {
			return nil, err
		}
		if content = append(content, a.Content...); part+1 < a.Parts {
			continue
		}
		if sum := sha256.Sum256(content); int64(len(content)) != a.Size || hex.EncodeToString(sum[:]) != a.SHA256 {
			return nil, fmt.Errorf("the report that came is not the one that is stored: %d bytes of %d", len(content), a.Size)
		}
		return content, nil
	}
}
