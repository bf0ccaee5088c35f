package daemon

import (
	"time"

	"github.com/ironyard/ironyard/rackd/bmcevents"
	"github.com/ironyard/ironyard/rackd/bootguard"
	"github.com/ironyard/ironyard/rackd/eventlog"
	"github.com/ironyard/ironyard/rackd/mediaguard"
	"github.com/ironyard/ironyard/rackd/metrics"
	"github.com/ironyard/ironyard/rackd/powersync"
	"github.com/ironyard/ironyard/rackd/sensordata"
)

// addTasks adds what is done for idle nodes from time to time, a line for each task.
func (r *rackd) addTasks(m *metrics.Metrics) {
	c := r.cfg
	if c.PowerSync > 0 {
		powersync.Add(powersync.Config{Name: c.Name, Nodes: r.conductor, Tasks: r.tasks, Every: c.PowerSync, Recovery: c.PowerRecovery,
			Failures: c.PowerFailures, Force: c.ForcePower, Metrics: m, Log: c.Log})
	}
	gauges := metrics.NewSensors(r.registry, r.conductor.Owns, max(3*c.Sensors.Every, time.Minute))
	r.tasks.Add(sensordata.Task(sensordata.Config{Name: c.Name, Every: c.Sensors.Every, Workers: c.Sensors.Workers, Types: c.Sensors.Types, Undeployed: c.Sensors.Undeployed,
		Gauges: gauges, Bus: c.Conn, Log: c.Log}))
	if c.BMCEvents && c.PowerSync > 0 {
		ec := bmcevents.Config{Look: func(node string, within time.Duration) { r.tasks.Hasten(powersync.Name, node, within) }, Nodes: r.conductor, History: r.conductor, Metrics: m,
			Codes: eventCodes{c.Keys}, Strangers: r.strangers, Log: c.Log}
		if c.Rack != nil {
			ec.Base = c.Rack.face().agents()
		}
		r.events = bmcevents.New(ec)
		r.tasks.Add(r.events.Task())
	}
	r.tasks.AddOf(r.hardware.Registry, r.conductor)
	r.tasks.Add(eventlog.Task(c.EventLog, r.conductor))
	r.tasks.Add(bootguard.Task(c.BootOrder, r.conductor))
	if r.cache != nil {
		r.tasks.Add(mediaguard.Task(r.conductor, r.media, r.stock))
	}
}
