package ipmi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	sensors "github.com/bougou/go-ipmi/pkg/command/sensor"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
)

const (
	netFnSensor      = 0x04
	cmdSensorReading = 0x2D
	cmdSensorFactors = 0x23
)

// sensor is a sensor that has readings, out of a full or a compact record (sections 43.1, 43.2).
type sensor struct {
	name         string
	number       uint8
	owner        types.GeneratorID
	entity       types.EntityID
	instance     types.EntityInstance
	kind         types.SensorType
	readingType  types.EventReadingType
	unit         types.SensorUnit
	full         *types.SDRFull // nil: the sensor has no analog values
	above, below uint8          // hysteresis
}

// Sensors implements driver.Sensors: what the BMC's repository lists, in the fields that Ironic takes from ipmitool. One whose reading
// fails is left out.
func (d *Driver) Sensors(ctx context.Context, n *node.Document) (found map[string]map[string]driver.Sensor, err error) {
	err = d.with(ctx, nil, n, "read the sensors", func(c *conn) error {
		records, err := c.records()
		if err != nil {
			return err
		}
		found = map[string]map[string]driver.Sensor{}
		for _, r := range records {
			for _, s := range sensorsOf(r) {
				if err := c.sense(s, found); err != nil {
					return err
				}
			}
		}
		if len(found) == 0 {
			return fmt.Errorf("it shows no sensors: %w", driver.ErrUnsupported)
		}
		return nil
	})
	return found, err
}

// sensorsOf returns the sensors that a record describes. Records of events alone, of places and of controllers have none with readings.
func sensorsOf(r *types.SDR) (list []sensor) {
	switch {
	case r.Full != nil:
		f := r.Full
		s := sensor{nameOf(f.IDStringTypeLength, f.IDStringBytes), uint8(f.SensorNumber), f.GeneratorID, f.SensorEntityID, f.SensorEntityInstance, f.SensorType, f.SensorEventReadingType,
			f.SensorUnit, nil, f.PositiveHysteresisRaw, f.NegativeHysteresisRaw}
		if f.HasAnalogReading() {
			s.full = f
		}
		return []sensor{s}
	case r.Compact != nil:
		k := r.Compact
		name := nameOf(k.IDStringTypeLength, k.IDStringBytes)
		for i := range max(1, k.ShareCount) { // a record may stand for several sensors, numbered on
			s := sensor{name, uint8(k.SensorNumber) + i, k.GeneratorID, k.SensorEntityID, k.SensorEntityInstance, k.SensorType, k.SensorEventReadingType, k.SensorUnit, nil, 0, 0}
			if k.ShareCount > 1 {
				s.name += suffix(k.IDStringInstanceModifierType, k.IDStringInstanceModifierOffset+i)
				if k.EntityInstanceSharing {
					s.instance += types.EntityInstance(i)
				}
			}
			list = append(list, s)
		}
	}
	return list
}

// nameOf decodes a sensor's name.
func nameOf(tl types.TypeLength, raw []byte) string {
	if chars, err := tl.Chars(raw); err == nil {
		raw = chars
	}
	return strings.TrimSpace(strings.ToValidUTF8(strings.TrimRight(string(raw), "\x00"), ""))
}

// suffix numbers a sensor, or letters it (section 43.2, byte 24).
func suffix(kind, i uint8) string {
	if kind != 1 {
		return fmt.Sprint(i)
	}
	if i < 26 {
		return string(rune('A' + i))
	}
	return string(rune('A'+i/26-1)) + string(rune('A'+i%26))
}

// sense reads a sensor. Only an error that concerns the whole BMC is returned.
func (c *conn) sense(s sensor, found map[string]map[string]driver.Sensor) error {
	r := lan.Request{NetFn: netFnSensor, LUN: s.owner.LUN(), Command: cmdSensorReading, Data: []byte{s.number}, Via: c.bridge}
	far := s.owner.OwnerID() != addressBMC && c.bridge == nil
	if s.owner.OwnerIsSystemSoftware() {
		return nil // a program's, which cannot be asked
	}
	if far {
		r.Via = &lan.Bridge{Local: addressBMC, TargetChannel: s.owner.ChannelNumber(), TargetAddress: s.owner.OwnerID()}
	}
	data, err := c.askVia(r)
	if _, silent := errors.AsType[*lan.NoAnswerError](err); codeOf(err) != 0 && !busy(err) || far && silent {
		return nil
	}
	if err != nil {
		return err
	}
	if len(data) < 2 {
		return nil
	}
	if s.curved() && data[1]&(scans|pends) == scans {
		f, err := c.factors(r, data[0])
		if f == nil {
			return err
		}
		here := *s.full
		here.ReadingFactors = f.ReadingFactors
		s.full = &here
	}
	kind, _, _ := strings.Cut(s.kind.String(), " ")
	if found[kind] == nil {
		found[kind] = map[string]driver.Sensor{}
	}
	id := fmt.Sprintf("%s (0x%x)", s.name, s.number)
	found[kind][id] = s.told(id, data)
	return nil
}

const addressBMC = 0x20

// Bits of the second byte of a reading (section 35.14): scanning is on, and the first reading is not there yet.
const scans, pends = 0x40, 0x20

// curved reports whether the sensor's record has no factors that count: the controller tells those of each reading (section 36.2).
func (s sensor) curved() bool { return s.full != nil && s.full.LinearizationFunc.IsNonLinear() }

// factors asks for the factors at a reading, on the way of the request that has read it. They are nil where the controller tells none:
// the sensor is then left out, since no value of it is known.
func (c *conn) factors(r lan.Request, reading uint8) (*sensors.GetSensorReadingFactorsResponse, error) {
	r.Command, r.Data = cmdSensorFactors, []byte{r.Data[0], reading}
	data, err := c.askVia(r)
	if codeOf(err) != 0 && !busy(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := &sensors.GetSensorReadingFactorsResponse{}
	if f.Unpack(data) != nil {
		return nil, nil
	}
	return f, nil
}

// told is what a sensor tells, in ipmitool's words.
func (s sensor) told(id string, data []byte) driver.Sensor {
	threshold := s.readingType.IsThreshold()
	off, pending := data[1]&scans == 0, data[1]&pends != 0
	var states uint16
	if len(data) > 2 {
		states = uint16(data[2])
	}
	if len(data) > 3 {
		states |= uint16(data[3]&0x7F) << 8
	}
	out := driver.Sensor{"Sensor ID": id, "Entity ID": fmt.Sprintf("%d.%d (%s)", uint8(s.entity), uint8(s.instance), s.entity)}
	class := "Sensor Type (Discrete)"
	switch {
	case threshold:
		class = "Sensor Type (Threshold)"
	case s.full != nil:
		class = "Sensor Type (Analog)"
	}
	out[class] = fmt.Sprintf("%s (0x%02x)", s.kind, uint8(s.kind))
	switch {
	case off:
		out["Sensor Reading"] = "Disabled"
	case pending:
		out["Sensor Reading"] = "No Reading"
	case s.full != nil:
		out["Sensor Reading"] = strings.TrimSpace(fmt.Sprintf("%s (+/- %s) %s", shortly(s.value(data[0])), shortly(s.span(float64(s.full.Tolerance)/2)), s.unit))
	default:
		out["Sensor Reading"] = fmt.Sprintf("%xh", data[0])
	}
	switch {
	case threshold && (off || pending):
		out["Status"] = "Not Available"
	case threshold:
		out["Status"] = status(uint8(states))
	case !off && !pending:
		if names := s.states(states); names != "" {
			out["States Asserted"] = names
		}
	}
	s.limits(out)
	return out
}

// status is the worst of the thresholds that are crossed (section 35.14, byte 4).
func status(crossed uint8) string {
	for _, t := range []struct {
		bit  uint8
		name string
	}{{0x20, "Upper Non-Recoverable"}, {0x04, "Lower Non-Recoverable"}, {0x10, "Upper Critical"}, {0x02, "Lower Critical"}, {0x08, "Upper Non-Critical"}, {0x01, "Lower Non-Critical"}} {
		if crossed&t.bit != 0 {
			return t.name
		}
	}
	return "ok"
}

// states names the states of a discrete sensor that are asserted.
func (s sensor) states(asserted uint16) string {
	var names []string
	for offset := range uint8(15) {
		if asserted&(1<<offset) == 0 {
			continue
		}
		name := fmt.Sprintf("state %d", offset)
		if e := s.readingType.EventForOffset(s.kind, offset); e != nil && e.EventName != "" {
			name = e.EventName
		}
		names = append(names, name)
	}
	return strings.Join(names, "; ")
}

// limits adds what the record says of a sensor's usual values and thresholds.
func (s sensor) limits(out driver.Sensor) {
	f := s.full
	if f == nil || s.curved() { // each raw value of a curve has factors of its own
		return
	}
	set := func(name string, there bool, raw uint8) {
		if there {
			out[name] = fmt.Sprintf("%.3f", s.value(raw))
		}
	}
	set("Nominal Reading", f.NominalReadingSpecified, f.NominalReadingRaw)
	set("Normal Minimum", f.NormalMinSpecified, f.NormalMinRaw)
	set("Normal Maximum", f.NormalMaxSpecified, f.NormalMaxRaw)
	if !s.readingType.IsThreshold() {
		return
	}
	m := f.Mask.Threshold
	set("Upper non-recoverable", m.UNR.Readable, f.UNR_Raw)
	set("Upper critical", m.UCR.Readable, f.UCR_Raw)
	set("Upper non-critical", m.UNC.Readable, f.UNC_Raw)
	set("Lower non-recoverable", m.LNR.Readable, f.LNR_Raw)
	set("Lower critical", m.LCR.Readable, f.LCR_Raw)
	set("Lower non-critical", m.LNC.Readable, f.LNC_Raw)
	for name, raw := range map[string]uint8{"Positive Hysteresis": s.above, "Negative Hysteresis": s.below} {
		if out[name] = "Unspecified"; raw != 0 && raw != 0xFF {
			out[name] = fmt.Sprintf("%.3f", s.span(float64(raw)))
		}
	}
}

// value converts a raw reading: L((M·x + B·10^K1)·10^K2) (section 36.3).
func (s sensor) value(raw uint8) float64 {
	return s.bent(types.ConvertReading(raw, s.unit.AnalogDataFormat, s.full.ReadingFactors, types.LinearizationFunc_Linear))
}

// span converts a distance in raw counts, to which B adds nothing (section 36.4).
func (s sensor) span(raw float64) float64 {
	if d := math.Abs(s.bent(float64(s.full.M) * raw * math.Pow10(int(s.full.R_Exp)))); !math.IsInf(d, 0) && !math.IsNaN(d) {
		return d
	}
	return 0
}

// bent applies the record's L. The library cuts the fraction off the exponent of 10.
func (s sensor) bent(y float64) float64 {
	if s.full.LinearizationFunc == types.LinearizationFunc_EXP10 {
		return math.Pow(10, y)
	}
	return s.full.LinearizationFunc.Apply(y)
}

// shortly writes a number without decimals where it has none.
func shortly(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
