package redfish

import (
	"errors"
	"strings"
)

// The newer resources of sensors, since Redfish 2020.4: each fan, supply and sensor is a resource of its own.

// sensorReading is a sensor, or an excerpt of one.
type sensorReading struct {
	ID              string `json:"Id"`
	Name            string
	ReadingType     string
	Reading         any
	ReadingUnits    any
	ReadingRangeMin any
	ReadingRangeMax any
	PhysicalContext any
	Status          health
}

// thermalSubsystem reads the fans of a chassis, and its sensors of temperatures. Where no fan is a resource of its own, sensors of turns
// tell them.
func (g *sensing) thermalSubsystem(k sensingChassis) error {
	var below error
	fans := 0
	err := items(&g.survey, there(k.ThermalSubsystem), func(s struct{ Fans ref }) {
		below = each(&g.survey, s.Fans.Path, func(f struct {
			ID              string `json:"Id"`
			Name            string
			SpeedPercent    struct{ Reading, SpeedRPM any }
			SerialNumber    any
			PhysicalContext any
			Status          health
		}) {
			fans++
			of := fan{MemberID: f.ID, Name: f.Name, Reading: f.SpeedPercent.SpeedRPM, ReadingUnits: "RPM", SerialNumber: f.SerialNumber, PhysicalContext: f.PhysicalContext, Status: f.Status}
			if of.Reading == nil {
				of.Reading, of.ReadingUnits = f.SpeedPercent.Reading, "Percent"
			}
			g.fan(k, of)
		})
	})
	return errors.Join(err, below, each(&g.survey, k.Sensors.Path, func(s sensorReading) {
		switch units, _ := s.ReadingUnits.(string); {
		case s.ReadingType == "Rotational" && fans == 0:
			g.fan(k, fan{MemberID: s.ID, Name: s.Name, Reading: s.Reading, ReadingUnits: s.ReadingUnits, MinReadingRange: s.ReadingRangeMin,
				MaxReadingRange: s.ReadingRangeMax, PhysicalContext: s.PhysicalContext, Status: s.Status})
		case s.ReadingType == "Temperature" || strings.EqualFold(units, "Cel"):
			g.temperature(k, temperature{MemberID: s.ID, Name: s.Name, ReadingCelsius: s.Reading, MinReadingRangeTemp: s.ReadingRangeMin,
				MaxReadingRangeTemp: s.ReadingRangeMax, PhysicalContext: s.PhysicalContext, Status: s.Status})
		}
	}))
}

// powerSubsystem reads the power supplies of a chassis.
func (g *sensing) powerSubsystem(k sensingChassis) error {
	var below, metrics error
	err := items(&g.survey, there(k.PowerSubsystem), func(s struct {
		ID            string `json:"Id"`
		PowerSupplies ref
	}) {
		below = each(&g.survey, s.PowerSupplies.Path, func(p struct {
			supply
			Metrics ref
		}) {
			var m struct{ InputVoltage, OutputPowerWatts struct{ Reading any } }
			err := items(&g.survey, there(p.Metrics), func(read struct{ InputVoltage, OutputPowerWatts struct{ Reading any } }) { m = read })
			p.LineInputVoltage, p.LastPowerOutputWatts = m.InputVoltage.Reading, m.OutputPowerWatts.Reading
			g.supply(k, s.ID, p.supply)
			metrics = errors.Join(metrics, err)
		})
	})
	return errors.Join(err, below, metrics)
}
