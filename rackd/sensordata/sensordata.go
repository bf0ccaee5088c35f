// Package sensordata is the periodic task that reads the sensors of machines. It shows them as gauges and tells them as Ironic's
// notifications hardware.DRIVER.metrics.
//
// It may import protocol, rackd/driver, rackd/metrics and rackd/periodic; it declares what else it needs.
// Invariants:
//   - It only reads. Sensors are off unless an operator switches them on, as in Ironic.
//   - A reading is shown by the rackd that owns the node, and not for longer than three intervals.
//   - What is told is kept nowhere. A reading that cannot be told is in the next one.
package sensordata

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/metrics"
	"github.com/ironyard/ironyard/rackd/periodic"
)

// Name of the task.
const Name = "sensors"

// Gauges shows readings (metrics.Sensors).
type Gauges interface {
	Set(r metrics.Reading)
	Forget(node string)
}

// Bus publishes messages that are kept nowhere (nats.Conn).
type Bus interface {
	Publish(subject string, data []byte) error
}

// Config of the task. Ironic's section sensor_data has the same settings.
type Config struct {
	Name string // this rackd's
	// Every is the interval; Ironic's default is 600 s.
	Every time.Duration
	// Workers bounds how many machines are read at once; default 4.
	Workers int
	// Types are the types of sensors to tell, in any case; empty, or with ALL: all.
	Types []string
	// Undeployed: sensors of nodes that are not active are read too.
	Undeployed bool
	Gauges     Gauges
	Bus        Bus
	Log        *slog.Logger
}

// readTimeout bounds one reading. A BMC with 200 sensors takes some ten seconds by IPMI.
const readTimeout = 2 * time.Minute

// Task reads the sensors of nodes.
func Task(c Config) periodic.Task {
	if c.Workers <= 0 {
		c.Workers = 4
	}
	return periodic.Task{Name: Name, Every: c.Every, Workers: c.Workers, Wants: c.wants, Do: c.read}
}

func (c Config) wants(n *node.Document, hw *driver.Hardware) bool {
	_, can := hw.Management().(driver.Sensors)
	if can && !n.Maintenance && (c.Undeployed || n.State == provision.Active) {
		return true
	}
	c.Gauges.Forget(n.UUID)
	return false
}

func (c Config) read(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := hw.Management().(driver.Sensors).Sensors(reading, n)
	if err != nil {
		return err
	}
	now := time.Now()
	r := metrics.Reading{Node: n.UUID, Name: n.Name, Instance: n.InstanceUUID, At: now, Types: map[string]map[string]map[string]any{}}
	for kind, sensors := range found {
		if !c.tells(kind) {
			continue
		}
		r.Types[kind] = map[string]map[string]any{}
		for id, s := range sensors {
			r.Types[kind][id] = s
		}
	}
	c.Gauges.Set(r)
	if len(r.Types) == 0 {
		return nil
	}
	if err := c.tell(n, r); err != nil { // the BMC has answered
		c.Log.Warn("sensors are not told on the bus", "node", n.UUID, "error", err)
	}
	return nil
}

// tells reports whether a type of sensors is to be told.
func (c Config) tells(kind string) bool {
	return len(c.Types) == 0 || slices.ContainsFunc(c.Types, func(t string) bool { return strings.EqualFold(t, kind) || strings.EqualFold(t, "all") })
}

// message is Ironic's notification of sensors, in the envelope of its other notifications.
type message struct {
	ID        string  `json:"message_id"`
	Publisher string  `json:"publisher_id"`
	Type      string  `json:"event_type"`
	Priority  string  `json:"priority"`
	At        string  `json:"timestamp"`
	Payload   payload `json:"payload"`
}

type payload struct {
	ID       string                               `json:"message_id"`
	Type     string                               `json:"event_type"`
	At       string                               `json:"timestamp"`
	Node     string                               `json:"node_uuid"`
	Name     *string                              `json:"node_name"`
	Instance *string                              `json:"instance_uuid"`
	Sensors  map[string]map[string]map[string]any `json:"payload"`
}

// written is how Ironic writes times in notifications.
const written = "2006-01-02T15:04:05.000000"

func (c Config) tell(n *node.Document, r metrics.Reading) error {
	event := "hardware." + n.Driver + ".metrics"
	m := message{ID: uuid.NewString(), Publisher: "ironyard.rackd." + c.Name, Type: event, Priority: "INFO", At: r.At.UTC().Format(written),
		Payload: payload{ID: uuid.NewString(), Type: event + ".update", At: r.At.UTC().Format(written), Node: n.UUID, Name: orNull(n.Name), Instance: orNull(n.InstanceUUID), Sensors: r.Types}}
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the sensors of node %s: %w", n.Label(), err)
	}
	return c.Bus.Publish(bus.SensorSubject(n.Driver, n.Group, n.UUID), body)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
