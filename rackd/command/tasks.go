package command

import (
	"fmt"
	"time"

	"github.com/ironyard/ironyard/rackd/daemon"
)

// taskFlags say what is done for idle nodes from time to time, besides reading their power. Those of sensors are those of
// Ironic's section sensor_data.
type taskFlags struct {
	BMCEvents bool          `name:"bmc-events" help:"Listen to the events of BMCs: those that they stream (Redfish ServerSentEventUri), one connection for each BMC, or those that they post to the agent port, by a subscription that rackd makes and removes. An event has the power of its machines read at once, so that a change shows in seconds; readings at --power-sync go on." env:"RACKD_BMC_EVENTS" group:"Work"`
	EventLog  time.Duration `name:"event-log" help:"Interval between two readings of a BMC's event log (an IPMI SEL, or a log service of Redfish). New entries become lines of the node's history; the log is cleared only by the step or vendor method clear_event_log. 0: never." default:"0s" env:"RACKD_EVENT_LOG" group:"Work"`
	BootOrder time.Duration `name:"boot-order" help:"Interval between two looks whether the BMC of an active node still has the boot device that was set for all starts; one more follows three minutes after each start. A BMC that has forgotten it is told again, and the history says so. 0: never." default:"1h" env:"RACKD_BOOT_ORDER" group:"Work"`

	SensorData       bool          `name:"sensor-data" help:"Read the sensors of machines: temperatures, fans, power supplies, drives. They become gauges (baremetal_*) at --observe, and messages at NOTIFY.hardware.> on the site's bus, under the names of Ironic and ironic-prometheus-exporter." env:"RACKD_SENSOR_DATA" group:"Sensors"`
	SensorInterval   time.Duration `help:"Interval between two readings of a node's sensors." default:"600s" env:"RACKD_SENSOR_INTERVAL" group:"Sensors"`
	SensorWorkers    int           `help:"Maximum number of nodes whose sensors are read at once." default:"4" env:"RACKD_SENSOR_WORKERS" group:"Sensors"`
	SensorTypes      []string      `help:"Types of sensors to tell, such as Temperature,Fan. ALL: all types that a BMC has." default:"ALL" env:"RACKD_SENSOR_TYPES" placeholder:"TYPE,..." group:"Sensors"`
	SensorUndeployed bool          `help:"Read the sensors of all nodes. Without it those of active nodes are read." env:"RACKD_SENSOR_UNDEPLOYED" group:"Sensors"`
}

func (f *taskFlags) sensors() daemon.Sensors {
	s := daemon.Sensors{Workers: f.SensorWorkers, Types: f.SensorTypes, Undeployed: f.SensorUndeployed}
	if f.SensorData {
		s.Every = f.SensorInterval
	}
	return s
}

func (f *taskFlags) check() error {
	switch {
	case f.EventLog < 0 || f.BootOrder < 0:
		return fmt.Errorf("--event-log %s, --boot-order %s: they cannot be negative", f.EventLog, f.BootOrder)
	case f.SensorInterval < time.Second:
		return fmt.Errorf("--sensor-interval %s: it must be 1s or more", f.SensorInterval)
	case f.SensorWorkers < 1:
		return fmt.Errorf("--sensor-workers %d: it must be 1 or more", f.SensorWorkers)
	}
	return nil
}
