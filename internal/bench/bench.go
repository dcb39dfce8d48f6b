package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"
)

// run is one run under way.
type run struct {
	cfg    Config
	report Report
	redis  *redisServer // of everything that needs Redis alone
	start  time.Time
	raws   rawRuns
	scaled []Finding // of the sections scale, trees and audit
}

// Run measures and returns the table. What is not installed is a row that
// says so.
func Run(ctx context.Context, cfg Config) (_ Report, err error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	b := &run{cfg: cfg, start: time.Now()}
	b.report = Report{
		StartedAt: b.start.UTC(), CPUs: runtime.NumCPU(), LoadBefore: loadAverage(),
		Window: cfg.Window, Windows: cfg.Windows,
	}
	b.redis, err = startRedis(ctx, filepath.Join(cfg.Dir, "raw"))
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, b.redis.close()) }()
	if b.report.Redis, err = info(ctx, b.redis.client, "server", "redis_version"); err != nil {
		return Report{}, err
	}
	for _, s := range b.sections() {
		if err := s.measure(ctx); err != nil {
			return b.report, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	b.finish()
	return b.report, nil
}

type section struct {
	name    string
	measure func(context.Context) error
}

func (b *run) sections() []section {
	all := []section{{SectionRaw, b.raw}, {"one round trip", b.roundTrips}}
	if b.cfg.Clients > 0 || b.cfg.Door != "" {
		return append(all, section{SectionDoors, b.oneLoad})
	}
	for _, s := range []section{{SectionHand, b.hand}, {SectionScale, b.scale}, {SectionTrees, b.trees}, {SectionAudit, b.audit}, {SectionDoors, b.doors}} {
		if b.cfg.has(s.name) {
			all = append(all, s)
		}
	}
	return all
}

// say tells the person who waits.
func (b *run) say(format string, args ...any) {
	fmt.Fprintf(b.cfg.Progress, "%6.1fs  %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}

// add puts a row into the table and says what it found.
func (b *run) add(r Row) {
	b.report.Rows = append(b.report.Rows, r)
	name := r.Name
	if r.Clients > 0 {
		name += fmt.Sprintf(", %d clients", r.Clients)
	}
	if r.Rate > 0 {
		b.say("%s: %s: %.0f/s", r.Group, name, r.Rate)
	} else {
		b.say("%s: %s: %s", r.Group, name, r.Note)
	}
}

func (b *run) find(what string, value float64, unit, goal string) {
	if value > 0 {
		b.report.Findings = append(b.report.Findings, Finding{what, value, unit, goal})
	}
}

// finish compares the rows with the raw script, over all its windows.
func (b *run) finish() {
	b.report.Took, b.report.LoadAfter = time.Since(b.start), loadAverage()
	raws := b.rawRows()
	for i := range b.report.Rows {
		r := &b.report.Rows[i]
		for _, again := range raws {
			if r.Name == again.Name {
				*r = again
			}
		}
		if r.Group != groupScale && r.Group != groupTrees && r.Group != groupAudit {
			r.Ratio = ratio(r.Rate, raws[0].Rate)
		}
	}
	rate := func(name string, clients int) float64 { return b.report.row(name, clients).Rate }
	p50 := func(name string, clients int) float64 { return b.report.row(name, clients).P50US }
	// What the ledger does not keep up with is borrowed, not sustained.
	kept := func(name string) float64 {
		r := b.report.row(name, clientsMax)
		return min(r.Rate, r.Ledger)
	}
	raw := raws[0].Rate
	b.find("reserve.lua against the bare script", ratio(raw, raws[1].Rate), "×", "≥ 0.45")
	b.find("direct door, 512 clients, scribe paused, against raw", ratio(rate(rowDirectPaused, clientsMax), raw), "×", "≥ 0.70")
	b.find("direct door, 512 clients, as far as the ledger keeps up, against raw", ratio(kept(rowDirect), raw), "×", "≥ 0.50")
	b.find("durable door, 512 clients, everything on disk, scribe paused", rate(rowStoredPaused, clientsMax), "/s", "≥ 15,000")
	b.find("durable door, 512 clients, everything on disk, as far as the ledger keeps up", kept(rowDurable), "/s", "≥ 15,000")
	b.find("direct door, one client, against one EVALSHA by unix socket, p50", ratio(p50(rowDirectPaused, 1), p50(rowTripUnix, 1)), "×", "≤ 3")
	b.find("direct door, one client, against one EVALSHA by TCP, p50", ratio(p50(rowDirectPaused, 1), p50(rowTripTCP, 1)), "×", "≤ 3")
	b.report.Findings = append(b.report.Findings, b.scaled...)
}
