package reconciler

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"time"
)

//go:embed tolerance.json
var toleranceFile []byte

// Causes of the published tolerance.
const (
	causeOutboxPending  = "outbox_pending"
	causeOverrunRefused = "overrun_refused"
	causeLateSettled    = "late_settled"
	causeQuarantined    = "quarantined"
	causePoolMissing    = "pool_missing"
	causeUnreadable     = "counter_unreadable"
)

// Tolerance says what a reconciliation may show and why. Whatever it does not
// explain must not differ by more than UnexplainedDrift.
type Tolerance struct {
	Version          int       `json:"version"`
	UnexplainedDrift int64     `json:"unexplained_drift"`
	Derivation       []string  `json:"derivation"`
	LagMS            int64     `json:"lag_ms"` // of the outstanding counts
	Sustained        Sustained `json:"sustained"`
	Causes           []Cause   `json:"causes"`
}

// Sustained is when a difference becomes an alarm: when the same counter
// differs in that many comparisons, one after the other. After the first the
// next ones come at this distance.
type Sustained struct {
	Comparisons int    `json:"comparisons"`
	EveryMS     int64  `json:"every_ms"`
	Why         string `json:"why"`
}

func (s Sustained) every() time.Duration { return time.Duration(s.EveryMS) * time.Millisecond }

// Cause is one thing that may show. Drift tells that it makes the verdict
// drift all the same.
type Cause struct {
	Cause  string `json:"cause"`
	Drift  bool   `json:"drift"`
	Count  string `json:"count"`  // what is counted
	Amount string `json:"amount"` // what is summed, per unit
	Ends   string `json:"ends"`
	Why    string `json:"why"`
}

// PublishedTolerance is tolerance.json, as it was built in.
func PublishedTolerance() (Tolerance, error) {
	var t Tolerance
	if err := json.Unmarshal(toleranceFile, &t); err != nil {
		return Tolerance{}, fmt.Errorf("tolerance.json: %w", err)
	}
	return t, nil
}
