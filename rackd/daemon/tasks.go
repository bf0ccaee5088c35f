package daemon

import (
	"github.com/ironyard/ironyard/rackd/metrics"
	"github.com/ironyard/ironyard/rackd/powersync"
)

// addTasks adds what is done for idle nodes from time to time, a line for each task.
func (r *rackd) addTasks(m *metrics.Metrics) {
	c := r.cfg
	if c.PowerSync > 0 {
		powersync.Add(powersync.Config{Name: c.Name, Nodes: r.conductor, Tasks: r.tasks, Every: c.PowerSync, Recovery: c.PowerRecovery,
			Failures: c.PowerFailures, Force: c.ForcePower, Metrics: m, Log: c.Log})
	}
}
