package driver

import "context"

// Secrets replaces secrets of driver_info at a machine's BMC, for the step that runs. Only that step may call it. What it keeps
// outlives the step, the rackd and the work: see rackd/driver/credential, which is what steps use.
type Secrets interface {
	// Replace keeps in the checkpoint, sealed, what is about to take the place of a field of driver_info. Once it returns nil, a
	// successor finds it; until then the BMC must not be told. clears are fields that asked for it, which go with the old value.
	Replace(ctx context.Context, field, value string, clears ...string) error
	// Replacing returns what Replace has kept of a field, empty for nothing. sure: the BMC takes it, which Replaced has kept. An error
	// wraps seal.ErrOpen where it was sealed for something else.
	Replacing(field string) (value string, sure bool, err error)
	// Replaced keeps that the BMC takes the value, and tells central. The task's node has the new value from then on.
	Replaced(ctx context.Context, field string) error
	// Forget drops what Replace has kept: the BMC has refused it.
	Forget(ctx context.Context, field string) error
	// Shown reports whether the node's document has the new value. If it has, what Replace has kept goes with the next checkpoint.
	// Else it tells central once more, should that be due.
	Shown(ctx context.Context, field string) (bool, error)
}
