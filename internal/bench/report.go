package bench

import (
	"slices"
	"time"
)

// Row is one line of the table. A figure that does not apply is zero.
type Row struct {
	Group   string  `json:"group"`
	Name    string  `json:"name"`
	Clients int     `json:"clients,omitempty"`
	Rate    float64 `json:"per_second,omitempty"`
	P50US   float64 `json:"p50_us,omitempty"`
	P99US   float64 `json:"p99_us,omitempty"`
	// CPU time per decision, by process.
	StoreUS  float64 `json:"store_cpu_us,omitempty"` // Redis, or what the row names
	OwnUS    float64 `json:"tallystick_cpu_us,omitempty"`
	ClientUS float64 `json:"client_cpu_us,omitempty"`
	Ratio    float64 `json:"ratio_to_raw,omitempty"`
	// Ledger is how many entries a second reached the ledger meanwhile.
	Ledger float64 `json:"ledger_per_second,omitempty"`
	Note   string  `json:"note,omitempty"`
}

// Finding is one figure that is compared with a goal.
type Finding struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Goal  string  `json:"goal,omitempty"`
}

// Report is a whole run.
type Report struct {
	StartedAt  time.Time     `json:"started_at"`
	Took       time.Duration `json:"took_ns"`
	CPUs       int           `json:"cpus"`
	LoadBefore string        `json:"load_average_before,omitempty"`
	LoadAfter  string        `json:"load_average_after,omitempty"`
	Redis      string        `json:"redis,omitempty"`
	Window     time.Duration `json:"window_ns"`
	Windows    int           `json:"windows"`
	Rows       []Row         `json:"rows"`
	Findings   []Finding     `json:"findings"`
}

// row is a copy of a row; empty where it was not measured.
func (r *Report) row(name string, clients int) Row {
	for _, row := range r.Rows {
		if row.Name == name && row.Clients == clients {
			return row
		}
	}
	return Row{}
}

// window is one measurement.
type window struct {
	count        int
	took         time.Duration
	p50, p99     time.Duration
	store        time.Duration
	own, client  time.Duration
	allowed      int
	failed       int
	firstFailure string
}

// rowOf takes the median of each figure, so that one disturbed window does
// not show.
func rowOf(group, name string, clients int, windows []window) Row {
	r := Row{Group: group, Name: name, Clients: clients}
	of := func(figure func(w window) float64) float64 {
		values := make([]float64, 0, len(windows))
		for _, w := range windows {
			if w.count > 0 && w.took > 0 {
				values = append(values, figure(w))
			}
		}
		return median(values)
	}
	each := func(d func(w window) time.Duration) float64 {
		return of(func(w window) float64 { return micros(d(w)) / float64(w.count) })
	}
	r.Rate = of(func(w window) float64 { return float64(w.count) / w.took.Seconds() })
	r.P50US = of(func(w window) float64 { return micros(w.p50) })
	r.P99US = of(func(w window) float64 { return micros(w.p99) })
	r.StoreUS = each(func(w window) time.Duration { return w.store })
	r.OwnUS = each(func(w window) time.Duration { return w.own })
	r.ClientUS = each(func(w window) time.Duration { return w.client })
	return r
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// quantile of sorted times.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
