package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Types of sensors, in Ironic's words.
const typeFan, typeTemperature, typePower, typeDrive = "Fan", "Temperature", "Power", "Drive"

// health is a part's state as sensors tell it.
type health struct{ State, Health *string }

// thermal and power are the resources of before, in which all sensors of a chassis stand. thermalSubsystem and powerSubsystem are the
// newer ones, with a resource for each.
type (
	sensingChassis struct {
		ID                                                        string `json:"Id"`
		Thermal, Power, ThermalSubsystem, PowerSubsystem, Sensors ref
	}
	thermal struct {
		Fans         []fan
		Temperatures []temperature
	}
	fan struct {
		MemberID        string `json:"MemberId"`
		Name, FanName   string
		Reading         any
		ReadingUnits    any
		MinReadingRange any
		MaxReadingRange any
		SerialNumber    any
		PhysicalContext any
		Status          health
	}
	temperature struct {
		MemberID            string `json:"MemberId"`
		Name                string
		SensorNumber        any
		ReadingCelsius      any
		MinReadingRangeTemp any
		MaxReadingRangeTemp any
		PhysicalContext     any
		Status              health
	}
	power struct {
		ID            string `json:"Id"`
		PowerSupplies []supply
	}
	supply struct {
		MemberID             string `json:"MemberId"`
		ID                   string `json:"Id"`
		Name                 string
		PowerCapacityWatts   any
		LineInputVoltage     any
		LastPowerOutputWatts any
		SerialNumber         any
		Status               health
	}
)

// sensing is one reading of a machine's sensors. A part that cannot be read is left out.
type sensing struct {
	survey
	found map[string]map[string]driver.Sensor
}

func (g *sensing) add(kind, name string, of driver.Sensor, is health) {
	if g.found[kind] == nil {
		g.found[kind] = map[string]driver.Sensor{}
	}
	for i, same := 2, name; g.found[kind][name] != nil; i++ { // HPE calls drives by their model
		name = fmt.Sprintf("%s (%d)", same, i)
	}
	if is.State != nil {
		of["state"] = *is.State
	}
	if is.Health != nil {
		of["health"] = *is.Health
	}
	g.found[kind][name] = of
}

// Sensors implements driver.Sensors: fans, temperatures and power supplies of the system's chassis, and its drives.
func (d *Driver) Sensors(ctx context.Context, n *node.Document) (found map[string]map[string]driver.Sensor, err error) {
	err = d.change(ctx, nil, n, "read the sensors", func(s *System, c *gofish.APIClient) error {
		g := &sensing{survey{c: c, expand: expansion(c)}, map[string]map[string]driver.Sensor{}}
		if err := g.read(s); err != nil {
			return err
		}
		if found = g.found; len(found) == 0 {
			return fmt.Errorf("it shows no sensors: %w", driver.ErrUnsupported)
		}
		return nil
	})
	return found, err
}

func (g *sensing) read(s *System) error {
	var p parts
	if err := json.Unmarshal(s.raw, &p); err != nil {
		return fmt.Errorf("its system cannot be read: %w", err)
	}
	of, err := g.chassisOf(p)
	if err != nil {
		return err
	}
	var failed error
	err = items(&g.survey, of, func(k sensingChassis) { failed = errors.Join(failed, g.chassis(k)) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if len(g.found[typeFan]) == 0 { // those of some boards are in chassis that the system does not link to
		others, err := g.naming(s)
		if err != nil {
			return err
		}
		others = slices.DeleteFunc(others, func(r ref) bool { return slices.ContainsFunc(of, func(o ref) bool { return samePath(o.Path, r.Path) }) })
		err = items(&g.survey, others, func(k sensingChassis) { failed = errors.Join(failed, g.chassis(k)) })
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	return g.drives(p, path.Base(s.Path))
}

// chassis reads the sensors of a chassis, in the form in which it has them: that of before is one question for all.
func (g *sensing) chassis(k sensingChassis) error {
	fans, temperatures, supplies := 0, 0, 0
	err := items(&g.survey, there(k.Thermal), func(t thermal) {
		for _, f := range t.Fans {
			fans++
			g.fan(k, f)
		}
		for _, t := range t.Temperatures {
			temperatures++
			g.temperature(k, t)
		}
	})
	err = errors.Join(err, items(&g.survey, there(k.Power), func(p power) {
		for _, s := range p.PowerSupplies {
			supplies++
			g.supply(k, p.ID, s)
		}
	}))
	if fans+temperatures == 0 {
		err = errors.Join(err, g.thermalSubsystem(k))
	}
	if supplies == 0 {
		err = errors.Join(err, g.powerSubsystem(k))
	}
	return err
}

// there is a list of a link that may be missing.
func there(r ref) []ref {
	if r.Path == "" {
		return nil
	}
	return []ref{r}
}

func (g *sensing) fan(k sensingChassis, f fan) {
	id := first(f.MemberID, f.Name, f.FanName)
	g.add(typeFan, id+"@"+k.ID, driver.Sensor{"identity": id, "reading": f.Reading, "reading_units": f.ReadingUnits, "min_reading_range": f.MinReadingRange,
		"max_reading_range": f.MaxReadingRange, "serial_number": f.SerialNumber, "physical_context": f.PhysicalContext}, f.Status)
}

func (g *sensing) temperature(k sensingChassis, t temperature) {
	id := first(t.MemberID, t.Name)
	if id == "" && t.ReadingCelsius == nil {
		return // HPE Cray lists places without a sensor
	}
	g.add(typeTemperature, id+"@"+k.ID, driver.Sensor{"identity": id, "reading_celsius": t.ReadingCelsius, "sensor_number": t.SensorNumber,
		"min_reading_range_temp": t.MinReadingRangeTemp, "max_reading_range_temp": t.MaxReadingRangeTemp, "physical_context": t.PhysicalContext}, t.Status)
}

func (g *sensing) supply(k sensingChassis, of string, s supply) {
	g.add(typePower, first(s.MemberID, s.ID, s.Name)+":"+of+"@"+k.ID, driver.Sensor{"power_capacity_watts": s.PowerCapacityWatts,
		"line_input_voltage": s.LineInputVoltage, "last_power_output_watts": s.LastPowerOutputWatts, "serial_number": s.SerialNumber}, s.Status)
}

func first(names ...string) string {
	i := slices.IndexFunc(names, func(n string) bool { return n != "" })
	if i < 0 {
		return ""
	}
	return names[i]
}

// drives are the machine's drives with their health.
func (g *sensing) drives(p parts, system string) error {
	type drive struct {
		Name, Model   string
		CapacityBytes any
		Status        health
	}
	add := func(of string, d drive) {
		if d.Status.State == nil && d.Status.Health != nil {
			enabled := "Enabled" // HPE's drives tell their health only
			d.Status.State = &enabled
		}
		g.add(typeDrive, d.Name+":"+of+"@"+system, driver.Sensor{"name": d.Name, "model": d.Model, "capacity_bytes": d.CapacityBytes}, d.Status)
	}
	simple := false
	err := each(&g.survey, p.SimpleStorage.Path, func(k struct {
		ID      string `json:"Id"`
		Devices []drive
	}) {
		for _, d := range k.Devices {
			simple = true
			add(k.ID, d)
		}
	})
	if err != nil || simple {
		return err
	}
	var failed error
	err = each(&g.survey, p.Storage.Path, func(k struct {
		ID     string `json:"Id"`
		Drives []ref
	}) {
		failed = errors.Join(failed, items(&g.survey, k.Drives, func(d drive) { add(k.ID, d) }))
	})
	return errors.Join(err, failed)
}
