package reconciler

import (
	_ "embed"
	"encoding/json"
	"fmt"
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
)

// Tolerance says what a reconciliation may show and why. Whatever it does not
// explain must not differ by more than UnexplainedDrift.
type Tolerance struct {
	Version          int     `json:"version"`
	UnexplainedDrift int64   `json:"unexplained_drift"`
	LagMS            int64   `json:"lag_ms"` // of the outstanding counts
	Causes           []Cause `json:"causes"`
}

// Cause is one thing that may show. Drift tells that it makes the verdict
// drift all the same.
type Cause struct {
	Cause string `json:"cause"`
	Drift bool   `json:"drift"`
	Why   string `json:"why"`
}

// PublishedTolerance is tolerance.json, as it was built in.
func PublishedTolerance() (Tolerance, error) {
	var t Tolerance
	if err := json.Unmarshal(toleranceFile, &t); err != nil {
		return Tolerance{}, fmt.Errorf("tolerance.json: %w", err)
	}
	return t, nil
}
