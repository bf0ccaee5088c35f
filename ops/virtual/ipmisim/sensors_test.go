package ipmisim

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"
)

// sensing are commands of the simulator for a machine with sensors. One voltage is beyond a threshold, the scale of a current has an
// offset, two are of laws that are not linear, and the chassis is open. Three records have no readings.
func sensing() string {
	var b strings.Builder
	record := func(raw []byte) {
		b.WriteString("main_sdr_add 0x20")
		for _, v := range raw {
			fmt.Fprintf(&b, " 0x%02x", v)
		}
		b.WriteString("\n")
	}
	law := types.LinearizationFunc_Linear
	full := func(number uint8, kind types.SensorType, unit types.SensorUnitType, format types.SensorAnalogUnitFormat, f types.ReadingFactors, name string, value int) {
		var mask types.Mask
		mask.ParseReading(0x3F3F)
		f.Tolerance = 1
		record((&types.SDRFull{GeneratorID: 0x20, SensorNumber: types.SensorNumber(number), SensorEntityID: 3, SensorEntityInstance: 1, SensorType: kind, SensorEventReadingType: 1,
			Mask: mask, SensorUnit: types.SensorUnit{AnalogDataFormat: format, BaseUnit: unit}, ReadingFactors: f, LinearizationFunc: law,
			NominalReadingSpecified: true, NormalMaxSpecified: true, NormalMinSpecified: true, NominalReadingRaw: 50, NormalMaxRaw: 69, NormalMinRaw: 11, SensorMaxReadingRaw: 0xFF,
			UNR_Raw: 95, UCR_Raw: 90, UNC_Raw: 85, LNR_Raw: 1, LCR_Raw: 3, LNC_Raw: 8, PositiveHysteresisRaw: 1, NegativeHysteresisRaw: 2,
			IDStringTypeLength: types.TypeLength(0xC0 | len(name)), IDStringBytes: []byte(name)}).Pack(0))
		fmt.Fprintf(&b, "sensor_add 0x20 0 %d %d 1\nsensor_set_event_support 0x20 0 %[1]d enable scanning per-state 111111111111111 111111111111111 000000000000000 000000000000000\nsensor_set_value 0x20 0 %[1]d %[3]d 0\n", number, kind, value)
	}
	full(1, types.SensorTypeTemperature, 1, types.SensorAnalogUnitFormat_2sComplement, types.ReadingFactors{M: 1}, "CPU Temp", 40)
	full(2, types.SensorTypeVoltage, 4, types.SensorAnalogUnitFormat_Unsigned, types.ReadingFactors{M: 15, R_Exp: -2}, "P12V", 81)
	b.WriteString("sensor_set_bit 0x20 0 2 3 1 0\n")
	full(3, types.SensorTypeFan, 18, types.SensorAnalogUnitFormat_Unsigned, types.ReadingFactors{M: 100}, "Fan 1", 42)
	full(4, types.SensorTypeCurrent, 5, types.SensorAnalogUnitFormat_Unsigned, types.ReadingFactors{M: 2, B: 3, B_Exp: 1, R_Exp: -1}, "Current 1", 17)
	law = types.LinearizationFunc_EXP10
	full(7, types.SensorTypeFan, 18, types.SensorAnalogUnitFormat_Unsigned, types.ReadingFactors{M: 1, R_Exp: -1}, "Fan 2", 25)
	law = types.LinearizationFunc_SQR
	full(8, types.SensorTypeVoltage, 4, types.SensorAnalogUnitFormat_Unsigned, types.ReadingFactors{M: 3, R_Exp: -1}, "Square", 7)
	compact := &types.SDRCompact{GeneratorID: 0x20, SensorNumber: 5, SensorEntityID: 7, SensorEntityInstance: 1, SensorType: types.SensorTypePhysicalSecurity,
		SensorEventReadingType: 0x6F, IDStringTypeLength: 0xC9, IDStringBytes: []byte("Intrusion")}
	compact.SensorUnit.AnalogDataFormat = types.SensorAnalogUnitFormat_NotAnalog
	record(compact.Pack(0))
	b.WriteString("sensor_add 0x20 0 5 5 0x6f\nsensor_set_event_support 0x20 0 5 enable scanning per-state 111111111111111 111111111111111 000000000000000 000000000000000\nsensor_set_bit 0x20 0 5 0 1 0\n")
	record((&types.SDREventOnly{GeneratorID: 0x20, SensorNumber: 6, SensorType: 0x12, SensorEventReadingType: 0x6F, IDStringTypeLength: 0xC5, IDStringBytes: []byte("Event")}).Pack(0))
	record((&types.SDRFRUDeviceLocator{DeviceAccessAddress: 0x20, DeviceIDBytes: []byte("FRU"), DeviceIDTypeLength: 0xC3}).Pack(0))
	record((&types.SDRMgmtControllerDeviceLocator{DeviceSlaveAddress: 0x20, DeviceIDBytes: []byte("BMC"), DeviceIDTypeLength: 0xC3}).Pack(0))
	return b.String()
}

// ironicSensors reads ipmitool's "sdr -v" as Ironic does: a block a sensor, a line a field; blocks without a reading are left out.
func ironicSensors(out string) map[string]map[string]map[string]string {
	found := map[string]map[string]map[string]string{}
	for block := range strings.SplitSeq(out, "\n\n") {
		fields, kind := map[string]string{}, ""
		for line := range strings.Lines(block) {
			if parts := strings.Split(line, ":"); len(parts) == 2 {
				fields[strings.TrimSpace(parts[0])] = strings.TrimSpace(parts[1])
			}
		}
		for name, value := range fields {
			if strings.HasPrefix(name, "Sensor Type (") {
				kind, _, _ = strings.Cut(value, " ")
			}
		}
		if fields["Sensor Reading"] == "" || kind == "" {
			continue
		}
		if found[kind] == nil {
			found[kind] = map[string]map[string]string{}
		}
		found[kind][fields["Sensor ID"]] = fields
	}
	return found
}

// The driver tells the same of sensors as Ironic by ipmitool.
func TestSensors(t *testing.T) {
	t.Parallel()
	needs(t, "ipmi_sim", "ipmitool")
	probe, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	at := probe.LocalAddr().(*net.UDPAddr).AddrPort()
	probe.Close()
	dir := t.TempDir()
	b, err := Start(t.Context(), Config{Dir: filepath.Join(dir, "sim"), Address: at, Emulation: sensing(), Users: []User{{"admin", "s3cret-pass", "admin"}}}, &computer{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Stop() }()
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte("s3cret-pass"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", strconv.Itoa(int(at.Port())), "-U", "admin", "-f", secret, "sdr", "-v").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := ironicSensors(string(out))
	got, err := newDriver(t).Sensors(t.Context(), nodeAt(at.Port(), "s3cret-pass", nil))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for kind, sensors := range want {
		for id, fields := range sensors {
			seen++
			is := got[kind][id]
			if is == nil {
				t.Errorf("%s %s is missing: %v", kind, id, got)
				continue
			}
			for _, name := range []string{"Sensor ID", "Entity ID", "Sensor Type (Threshold)", "Sensor Type (Discrete)", "Sensor Reading", "Status", "Nominal Reading", "Normal Minimum", "Normal Maximum",
				"Positive Hysteresis", "Negative Hysteresis"} {
				value, _ := is[name].(string)
				if !strings.EqualFold(value, fields[name]) {
					t.Errorf("%s %s: %s is %q, by ipmitool %q", kind, id, name, value, fields[name])
				}
			}
		}
	}
	if seen != 7 {
		t.Errorf("ipmitool shows %d sensors, want 7", seen)
	}
	for name, value := range map[string]string{"Upper critical": "90.000", "Lower non-critical": "8.000"} {
		if is := got["Temperature"]["CPU Temp (0x1)"][name]; is != value {
			t.Errorf("%s is %v, want %s", name, is, value)
		}
	}
	if is := got["Physical"]["Intrusion (0x5)"]["States Asserted"]; !strings.Contains(fmt.Sprint(is), "General Chassis Intrusion") {
		t.Errorf("States Asserted is %v", is)
	}
}

// A controller behind the BMC has records of its own sensors, no repository, and no reservation, since its sensors are always the same.
// ipmitool gives up there.
func TestSensorsOfAControllerBehind(t *testing.T) {
	needs(t, "ipmi_sim")
	probe, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	at := probe.LocalAddr().(*net.UDPAddr).AddrPort()
	probe.Close()
	var b strings.Builder
	b.WriteString("mc_add 0x30 0 has-device-sdrs 0x23 9 8 0x01 0x1234 0xf02\nmc_enable 0x30\ndevice_sdr_add 0x30 0") // 0x01: it has sensors
	for _, v := range (&types.SDRFull{GeneratorID: 0x30, SensorNumber: 1, SensorEntityID: 3, SensorEntityInstance: 1, SensorType: types.SensorTypeTemperature, SensorEventReadingType: 1,
		SensorUnit: types.SensorUnit{BaseUnit: 1}, ReadingFactors: types.ReadingFactors{M: 1}, SensorMaxReadingRaw: 0xFF, IDStringTypeLength: 0xC5, IDStringBytes: []byte("Riser")}).Pack(0) {
		fmt.Fprintf(&b, " 0x%02x", v)
	}
	b.WriteString("\nsensor_add 0x30 0 1 1 1\nsensor_set_event_support 0x30 0 1 enable scanning per-state 111111111111111 111111111111111 000000000000000 000000000000000\nsensor_set_value 0x30 0 1 33 0\n")
	sim, err := Start(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "sim"), Address: at, Emulation: b.String(), Users: []User{{"admin", "s3cret-pass", "admin"}}}, &computer{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sim.Stop() }()
	behind := nodeAt(at.Port(), "s3cret-pass", map[string]any{"ipmi_bridging": "single", "ipmi_target_channel": "0", "ipmi_target_address": "0x30"})
	got, err := newDriver(t).Sensors(t.Context(), behind)
	is, _ := got["Temperature"]["Riser (0x1)"]["Sensor Reading"].(string)
	if err != nil || is != "33 (+/- 0) degrees C" {
		t.Errorf("%v, %v", got, err)
	}
}
