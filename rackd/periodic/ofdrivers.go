package periodic

import (
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// AddOf adds the tasks that the enabled hardware types declare, each for the nodes of its type.
func (r *Runner) AddOf(types *driver.Registry) {
	types.Periodics(func(hardware string, p driver.Periodic) {
		wants := p.Wants
		if wants == nil {
			wants = func(n *node.Document) bool { return !n.Maintenance }
		}
		r.Add(Task{Name: hardware + "." + p.Name, Every: p.Every, Do: p.Do,
			Wants: func(n *node.Document, hw *driver.Hardware) bool { return hw.Type == hardware && wants(n) }})
	})
}
