package redfish

import (
	"sync"

	"github.com/ironyard/ironyard/protocol/node"
)

// tasksOf remembers which node's order a task of a BMC has answered. Nodes that share a BMC see each other's tasks. It knows those that
// this rackd has ordered. Safe for concurrent use.
type tasksOf struct {
	mu sync.Mutex
	by map[string]string // node, by BMC and path
}

// mostTasks bounds what is remembered: then all is forgotten.
const mostTasks = 10_000

// claims are the tasks of a node's BMC, as that node sees them.
type claims struct {
	all       *tasksOf
	bmc, node string
}

// claims returns those of n's BMC.
func (d *Driver) claims(n *node.Document) *claims {
	a, err := d.pool.opts.Dialect.parse(n)
	if err != nil {
		return nil // the step ends before it orders anything
	}
	return &claims{&d.tasks, a.endpoint, n.UUID}
}

// take notes that a task is the node's; empty: there is none.
func (c *claims) take(task string) {
	if c == nil || task == "" {
		return
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.all.by == nil || len(c.all.by) >= mostTasks {
		c.all.by = map[string]string{}
	}
	c.all.by[c.bmc+" "+task] = c.node
}

// another reports whether a task is known to be another node's.
func (c *claims) another(task string) bool {
	if c == nil {
		return false
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	of := c.all.by[c.bmc+" "+task]
	return of != "" && of != c.node
}
