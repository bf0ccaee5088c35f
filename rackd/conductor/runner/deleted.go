package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A node may be deleted in maintenance while its flow waits. Nothing ends that flow: its work is gone. What it has made ready on the
// machine is taken back all the same.

// Forget ends Run, which writes nothing more, for the bus has no such work.
func (r *Runner) Forget() {
	r.forgotten.Store(true)
	r.Stop()
}

// CutOff reports, after Run, whether the work is gone in the middle of a flow that has made something ready on its machine.
func (r *Runner) CutOff() bool {
	if !r.forgotten.Load() || !r.doc.Open() || r.task == nil {
		return false
	}
	p := r.partingOf(&work.Leaving{})
	return p.CleanUp || p.Instance
}

// TakeBack takes back, after Run, what the flow of a node that was deleted has made ready: the boot into the ramdisk, and that of an
// instance that is not to be. The machine's power is left as it is, for a person has the machine in hand. f is the fence of these writes.
func (r *Runner) TakeBack(ctx context.Context, f driver.Fence) {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.mu.Lock()
	strayed := r.strayed
	r.mu.Unlock()
	const todo = "look whether the virtual drives of its machine are empty, and whether its firmware attaches a volume"
	if strayed {
		r.log.Warn("a node was deleted in the middle of its flow, and its machine is left as it is, for driver_info leads to another BMC than before", "todo", todo)
		return
	}
	task := *r.task
	task.Fence, task.Record, task.Facts = f, unrecorded{r.log}, maps.Clone(r.task.Facts)
	undone, err := r.deps.Flows.Leave(ctx, &task, r.partingOf(&work.Leaving{}), string(r.doc.Verb)+"/"+r.doc.Checkpoint.Step)
	switch {
	case err != nil:
		r.log.Warn("a node was deleted in the middle of its flow, and its machine is left as it is", "error", err, "todo", todo)
	case undone != "":
		r.log.Warn("a node was deleted in the middle of its flow, and not all that the flow had made ready is taken back", "undone", undone, "todo", todo)
	default:
		r.log.Info("a node was deleted in the middle of its flow, and what that had made ready on the machine is taken back")
	}
}

// unrecorded implements driver.Recorder for a machine whose node has no history any more.
type unrecorded struct{ log *slog.Logger }

func (unrecorded) Handle() json.RawMessage               { return nil }
func (unrecorded) SaveHandle(context.Context, any) error { return nil }
func (unrecorded) Now() time.Time                        { return time.Now() }
func (unrecorded) AgentGone()                            {}
func (unrecorded) Progress(agentapi.Progress)            {}
func (unrecorded) Observe(hardware.Observation)          {}
func (unrecorded) Inventory(agentapi.Inventory)          {}
func (unrecorded) Busy(string)                           {}
func (unrecorded) ChildBusy(string, string)              {}
func (unrecorded) Idle()                                 {}
func (u unrecorded) Phase(name, detail string)           { u.log.Info(name, "detail", detail) }
