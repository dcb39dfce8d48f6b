package reconciler

import (
	"encoding/json"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// correct follows an entry that undoes another: where what stands is resolved,
// the execution is no longer outstanding.
func (f *fold) correct(e *budget.Entry) {
	var d redisx.UndoDetail
	execution, err := uuid.Parse(e.Execution)
	if err != nil || json.Unmarshal(e.Detail, &d) != nil || !d.ByRebuild() {
		return
	}
	switch d.Standing {
	case budget.StateHeld, budget.StateExpired:
	default:
		f.drop(execution)
	}
}
