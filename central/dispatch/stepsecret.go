package dispatch

import (
	"fmt"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// sealSteps returns steps with the secrets among their arguments sealed for the node's group, the node,
// the step and the work of that id: so they lie in the database, on the bus and in backups.
func (d *Dispatcher) sealSteps(n *store.Node, id string, steps []work.Step) ([]work.Step, error) {
	if len(steps) == 0 {
		return steps, nil
	}
	key, err := d.groupKey(n.ConductorGroup)
	if err != nil {
		return nil, err
	}
	out := make([]work.Step, len(steps))
	for i, s := range steps {
		if s.Args, err = key.SealArgs(work.StepLabel(n.UUID, id, s.Interface, s.Step), s.Args); err != nil {
			return nil, fmt.Errorf("seal the arguments of step %s.%s of node %s: %w", s.Interface, s.Step, n.UUID, err)
		}
		out[i] = s
	}
	return out, nil
}

// groupKey is the key with which what is sent to a group's rackds is sealed.
func (d *Dispatcher) groupKey(group string) (*seal.Key, error) {
	if d.Groups == nil {
		return d.Key.ForGroup(group)
	}
	return d.Groups.ForGroup(group)
}
