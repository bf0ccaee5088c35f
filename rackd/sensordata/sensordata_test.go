package sensordata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/metrics"
)

// sensing is a management interface with sensors.
type sensing struct {
	driver.Management
	err error
}

func (s sensing) Sensors(context.Context, *node.Document) (map[string]map[string]driver.Sensor, error) {
	return map[string]map[string]driver.Sensor{"Fan": {"0@1U": {"identity": "0", "health": "OK"}}, "Temperature": {"1@1U": {"reading_celsius": 20.0}}}, s.err
}

// shown keeps what was shown and published.
type shown struct {
	readings  []metrics.Reading
	forgotten []string
	subjects  []string
	bodies    [][]byte
	err       error
}

func (s *shown) Set(r metrics.Reading) { s.readings = append(s.readings, r) }
func (s *shown) Forget(node string)    { s.forgotten = append(s.forgotten, node) }
func (s *shown) Publish(subject string, body []byte) error {
	s.subjects, s.bodies = append(s.subjects, subject), append(s.bodies, body)
	return s.err
}

func hardware(t *testing.T, m driver.Management) *driver.Hardware {
	t.Helper()
	hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	reg, err := driver.NewRegistry(driver.Type{Name: "redfish", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: hw.Power()}}, "management": {{Name: "m", Impl: m}},
		"boot": {{Name: "b", Impl: hw.Boot()}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	hw, err = reg.Resolve(&node.Document{Driver: "redfish"})
	if err != nil {
		t.Fatal(err)
	}
	return hw
}

func TestSensorsAreShownAndTold(t *testing.T) {
	s := &shown{}
	task := Task(Config{Name: "r1", Types: []string{"fan"}, Gauges: s, Bus: s, Log: slog.New(slog.DiscardHandler)})
	n := &node.Document{UUID: "u1", Name: "web1", Group: "rack.a", Driver: "redfish", State: provision.Active, InstanceUUID: "i1"}
	if err := task.Do(t.Context(), n, hardware(t, sensing{})); err != nil {
		t.Fatal(err)
	}
	if len(s.readings) != 1 || s.readings[0].Types["Fan"]["0@1U"]["health"] != "OK" || s.readings[0].Types["Temperature"] != nil || s.readings[0].Instance != "i1" {
		t.Errorf("shown %+v", s.readings)
	}
	if want := []string{"NOTIFY.hardware.redfish.metrics.rack=2Ea.u1"}; !slices.Equal(s.subjects, want) {
		t.Fatalf("told at %v, want %v", s.subjects, want)
	}
	var m struct {
		Type     string `json:"event_type"`
		Priority string `json:"priority"`
		Payload  map[string]any
	}
	if err := json.Unmarshal(s.bodies[0], &m); err != nil {
		t.Fatal(err)
	}
	if m.Type != "hardware.redfish.metrics" || m.Priority != "INFO" || m.Payload["event_type"] != "hardware.redfish.metrics.update" || m.Payload["node_uuid"] != "u1" ||
		m.Payload["node_name"] != "web1" || m.Payload["instance_uuid"] != "i1" || !strings.Contains(string(s.bodies[0]), `"payload":{"Fan":{"0@1U":{`) {
		t.Errorf("told %s", s.bodies[0])
	}
	s.err = errors.New("the bus is away")
	if err := task.Do(t.Context(), n, hardware(t, sensing{})); err != nil || len(s.readings) != 2 {
		t.Errorf("a bus that is away is held against the BMC: %v", err)
	}
	silent := fmt.Errorf("no answer: %w", driver.ErrUnreachable)
	if err := task.Do(t.Context(), n, hardware(t, sensing{err: silent})); !errors.Is(err, driver.ErrUnreachable) || len(s.readings) != 2 {
		t.Errorf("a silent BMC: %v", err)
	}
}

// As in Ironic: deployed nodes, unless asked for all; none in maintenance.
func TestWhoseSensorsAreRead(t *testing.T) {
	with, without := hardware(t, sensing{}), hardware(t, drivertest.NewRig().Task(networkboot.IPXE()).Hardware.Management())
	for _, c := range []struct {
		n          node.Document
		hw         *driver.Hardware
		undeployed bool
		want       bool
	}{
		{node.Document{State: provision.Active}, with, false, true},
		{node.Document{State: provision.Active}, without, false, false},
		{node.Document{State: provision.Available}, with, false, false},
		{node.Document{State: provision.Available}, with, true, true},
		{node.Document{State: provision.Active, Maintenance: true}, with, true, false},
	} {
		s := &shown{}
		task := Task(Config{Undeployed: c.undeployed, Gauges: s})
		if got := task.Wants(&c.n, c.hw); got != c.want || (len(s.forgotten) == 0) != c.want {
			t.Errorf("%s, maintenance %t, all %t: %t, forgotten %v", c.n.State, c.n.Maintenance, c.undeployed, got, s.forgotten)
		}
	}
}
