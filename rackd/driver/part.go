package driver

import (
	"context"
	"encoding/json"
)

// Part is the Recorder of a part of a step that keeps a handle of its own, such as a boot: the part's
// handle is kept within that of the step.
type Part struct {
	Recorder
	// Kept is the part's handle, a field of the step's.
	Kept *json.RawMessage
	// Save saves the step's handle.
	Save func(context.Context) error
}

// Handle implements Recorder.
func (p Part) Handle() json.RawMessage { return *p.Kept }

// SaveHandle implements Recorder.
func (p Part) SaveHandle(ctx context.Context, handle any) error {
	raw, err := json.Marshal(handle)
	if err != nil {
		return err
	}
	*p.Kept = raw
	return p.Save(ctx)
}
