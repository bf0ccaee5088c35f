package ipmi

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/rackd/driver"
)

// repository answers for a repository of sensors: records by id, each linked to the next. change is called before each record is read.
func repository(r *rig, records [][]byte, next func(id uint16) uint16, change func(offset byte) types.CompletionCode) {
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			switch {
			case q.NetFn == netFnStorage && q.Command == cmdReserveSDR:
				return []byte{7, 0}, 0, true
			case q.NetFn == netFnStorage && q.Command == cmdGetSDR:
				if code := change(q.Data[4]); code != 0 {
					return nil, code, true
				}
				id := uint16(q.Data[2]) | uint16(q.Data[3])<<8
				raw, after := records[int(id)%len(records)], next(id)
				offset, n := int(q.Data[4]), int(q.Data[5])
				return append([]byte{byte(after), byte(after >> 8)}, raw[offset:offset+n]...), 0, true
			case q.NetFn == netFnSensor && q.Command == cmdSensorReading:
				return []byte{40, 0xC0, 0}, 0, true
			}
			return nil, 0, false
		}
	})
}

func thermometer(number uint8) []byte {
	return (&types.SDRFull{GeneratorID: 0x20, SensorNumber: types.SensorNumber(number), SensorType: types.SensorTypeTemperature, SensorEventReadingType: 1,
		SensorUnit: types.SensorUnit{BaseUnit: 1}, ReadingFactors: types.ReadingFactors{M: 1}, IDStringTypeLength: 0xC4, IDStringBytes: []byte("Temp")}).Pack(0)
}

// A repository that others change is reserved again; records that are garbled are left out.
func TestRepository(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	garbled := append([]byte{0, 0, 0x51, 0x01, 0x04}, 1, 2, 3, 4)
	records := [][]byte{thermometer(1), garbled, {0, 0, 0x51, 0xC0, 0x04, 1, 2, 3, 4}, thermometer(2)}
	var changed atomic.Int32
	repository(r, records, func(id uint16) uint16 {
		if id == 3 {
			return lastRecord
		}
		return id + 1
	}, func(offset byte) types.CompletionCode {
		if offset > 16 && changed.Add(1) < 3 {
			return 0xC5
		}
		return 0
	})
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	found, err := d.Sensors(t.Context(), n)
	if err != nil || len(found) != 1 || len(found["Temperature"]) != 2 || found["Temperature"]["Temp (0x2)"]["Sensor Reading"] != "40 (+/- 0) degrees C" {
		t.Errorf("%v, %v", found, err)
	}
	changed.Store(-1 << 20)
	if _, err := d.Sensors(t.Context(), n); err == nil || !strings.Contains(err.Error(), "C5h") {
		t.Errorf("a repository that never rests: %v", err)
	}
}

// Records of events alone, of entities and of devices are of no sensor that has a reading (sections 43.3 to 43.10).
func TestRecordsWithoutAReading(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	name := []byte("Board")
	records := [][]byte{
		(&types.SDREventOnly{GeneratorID: 0x20, SensorNumber: 9, SensorType: types.SensorTypeProcessor, SensorEventReadingType: 0x6F, IDStringTypeLength: 0xC5, IDStringBytes: name}).Pack(0),
		(&types.SDREntityAssociation{}).Pack(1),
		(&types.SDRDeviceRelative{}).Pack(2),
		(&types.SDRGenericDeviceLocator{}).Pack(3),
		(&types.SDRFRUDeviceLocator{}).Pack(4),
		(&types.SDRMgmtControllerDeviceLocator{}).Pack(5),
		thermometer(1),
	}
	var kinds []string
	for _, raw := range records {
		kinds = append(kinds, fmt.Sprintf("%02x", raw[3]))
	}
	if got, want := strings.Join(kinds, " "), "03 08 09 10 11 12 01"; got != want {
		t.Fatalf("the records are of kinds %s, want %s", got, want)
	}
	repository(r, records, func(id uint16) uint16 {
		if int(id) == len(records)-1 {
			return lastRecord
		}
		return id + 1
	}, func(byte) types.CompletionCode { return 0 })
	found, err := newDriver(t, Options{}).Sensors(t.Context(), r.node("s3cret-pass", nil))
	if err != nil || len(found) != 1 || len(found["Temperature"]) != 1 {
		t.Errorf("%v, %v, want the thermometer alone", found, err)
	}
}

// A repository whose records are linked in a circle has an end all the same; one that is empty or absent is none.
func TestRepositoryWithoutEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	repository(r, [][]byte{thermometer(1)}, func(uint16) uint16 { return 5 }, func(byte) types.CompletionCode { return 0 })
	if _, err := d.Sensors(t.Context(), n); err == nil || !strings.Contains(err.Error(), "no end") {
		t.Error(err)
	}
	repository(r, nil, nil, func(byte) types.CompletionCode { return 0xCB })
	if _, err := d.Sensors(t.Context(), n); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("an empty repository: %v", err)
	}
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) { return nil, 0xC1, q.NetFn == netFnStorage }
	})
	if _, err := d.Sensors(t.Context(), n); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("no repository: %v", err)
	}
}

// A record of a sensor that follows no law has no factors: the controller tells those of each reading. One that tells none is left out.
func TestFactorsOfAReading(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	curved := func(number uint8) []byte {
		return (&types.SDRFull{GeneratorID: 0x20, SensorNumber: types.SensorNumber(number), SensorType: types.SensorTypeTemperature, SensorEventReadingType: 1, LinearizationFunc: types.LinearizationFunc_NonLinear,
			SensorUnit: types.SensorUnit{BaseUnit: 1}, ReadingFactors: types.ReadingFactors{M: 1}, NominalReadingSpecified: true, NominalReadingRaw: 9, IDStringTypeLength: 0xC4, IDStringBytes: []byte("Bent")}).Pack(0)
	}
	repository(r, [][]byte{curved(1), curved(2)}, func(id uint16) uint16 {
		if id == 1 {
			return lastRecord
		}
		return id + 1
	}, func(byte) types.CompletionCode { return 0 })
	r.set(func() {
		usual := r.answer
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			if q.NetFn != netFnSensor || q.Command != cmdSensorFactors {
				return usual(q)
			}
			if q.Data[0] != 1 || q.Data[1] != 40 {
				return nil, 0xCB, true
			}
			return []byte{41, 3, 0, 5, 0, 0, 0xF0}, 0, true // M 3, B 5, K2 -1
		}
	})
	found, err := newDriver(t, Options{}).Sensors(t.Context(), r.node("s3cret-pass", nil))
	bent := found["Temperature"]["Bent (0x1)"]
	if err != nil || len(found["Temperature"]) != 1 || bent["Sensor Reading"] != "12.500 (+/- 0) degrees C" || bent["Nominal Reading"] != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// One record may stand for several sensors.
func TestSharedRecord(t *testing.T) {
	k := &types.SDRCompact{GeneratorID: 0x20, SensorNumber: 8, SensorType: types.SensorTypeProcessor, SensorEventReadingType: 0x6F, ShareCount: 3, IDStringInstanceModifierOffset: 1,
		IDStringTypeLength: 0xC3, IDStringBytes: []byte("CPU")}
	for kind, want := range map[uint8]string{0: "CPU1 CPU2 CPU3", 1: "CPUB CPUC CPUD"} {
		k.IDStringInstanceModifierType = kind
		r, err := parseRecord(k.Pack(0), lastRecord)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i, s := range sensorsOf(r) {
			if names = append(names, s.name); s.number != uint8(8+i) {
				t.Errorf("sensor %d has number %d", i, s.number)
			}
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%v, want %s", names, want)
		}
	}
}

// The states of a sensor, and those in which it tells nothing.
func TestSensorStates(t *testing.T) {
	r, err := parseRecord(thermometer(1), lastRecord)
	if err != nil {
		t.Fatal(err)
	}
	s := sensorsOf(r)[0]
	for _, c := range []struct {
		data            []byte
		reading, status string
	}{
		{[]byte{21, 0xC0, 0x00}, "21 (+/- 0) degrees C", "ok"},
		{[]byte{21, 0xC0}, "21 (+/- 0) degrees C", "ok"},
		{[]byte{21, 0xC0, 0x18}, "21 (+/- 0) degrees C", "Upper Critical"},
		{[]byte{21, 0xC0, 0x07}, "21 (+/- 0) degrees C", "Lower Non-Recoverable"},
		{[]byte{21, 0xE0, 0x00}, "No Reading", "Not Available"},
		{[]byte{21, 0x80, 0x00}, "Disabled", "Not Available"},
	} {
		told := s.told("Temp (0x1)", c.data)
		if told["Sensor Reading"] != c.reading || told["Status"] != c.status {
			t.Errorf("%x: %v", c.data, told)
		}
	}
}

// Whatever firmware writes into its records and answers, nothing panics.
func FuzzRecord(f *testing.F) {
	f.Add(thermometer(1), []byte{40, 0xC0, 0})
	f.Add((&types.SDRCompact{GeneratorID: 0x20, ShareCount: 3, IDStringTypeLength: 0xC3, IDStringBytes: []byte("CPU")}).Pack(0), []byte{0, 0xC0, 1, 0x80})
	f.Fuzz(func(t *testing.T, raw, data []byte) {
		r, err := parseRecord(raw, 1)
		if err != nil || len(data) < 2 {
			return
		}
		for _, s := range sensorsOf(r) {
			if told := s.told(s.name, data); told["Sensor Reading"] == "" {
				t.Errorf("%x: %v", raw, told)
			}
		}
	})
}
