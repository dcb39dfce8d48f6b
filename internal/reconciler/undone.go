package reconciler

import (
	"encoding/json"

	"github.com/google/uuid"

	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// undoOf tells an entry by which a rebuild undoes another from an operator's
// correction, which has an execution and a record of its own.
func undoOf(e *budget.Entry) (d redisx.UndoDetail, ok bool) {
	ok = e.Kind == budget.KindCorrected && json.Unmarshal(e.Detail, &d) == nil && d.Standing != ""
	return d, ok
}

// undone follows such an entry: where what stands is resolved, the execution
// is no longer outstanding.
func (f *fold) undone(e *budget.Entry) {
	d, ok := undoOf(e)
	execution, err := uuid.Parse(e.Execution)
	if !ok || err != nil || d.Standing == budget.StateHeld || d.Standing == budget.StateExpired {
		return
	}
	f.drop(execution)
}
