package metrics

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

type fields = map[string]any

// scrape reads the registry over HTTP with the parser of Prometheus, as "name{label=value,…} value".
func scrape(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("the scrape fails: %s", rec.Body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(rec.Body.Bytes()))
	if err != nil {
		t.Fatalf("Prometheus's parser: %v\n%s", err, rec.Body)
	}
	found := map[string]float64{}
	for name, f := range families {
		if f.GetHelp() == "" || strings.HasPrefix(name, "baremetal_") && f.GetType().String() != "GAUGE" {
			t.Errorf("%s: help %q, type %s", name, f.GetHelp(), f.GetType())
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if !strings.HasPrefix(l.GetName(), "node_") && l.GetName() != "instance_uuid" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			found[name+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return found
}

func all(string) bool { return true }

// The names, labels and values are those of ironic-prometheus-exporter.
func TestSensorsAsIronicNamesThem(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := NewSensors(reg, all, time.Hour)
	s.Set(Reading{Node: "u1", Name: "web1", Instance: "i1", At: time.Unix(1700000000, 0), Types: map[string]map[string]map[string]any{
		"Temperature": {
			"1@1U": {"identity": "1", "reading_celsius": 41.5, "physical_context": "CPU", "sensor_number": 7.0, "health": "OK", "state": "Enabled"},
			"2@1U": {"identity": "2", "reading_celsius": 20.0, "physical_context": "CPU", "sensor_number": 7.0},
			"3@1U": {"identity": "3", "reading_celsius": nil, "physical_context": "Intake", "sensor_number": nil, "health": "OK"},
			"4@1U": {"identity": "4", "reading_celsius": 30.0, "physical_context": nil, "sensor_number": nil},
			"5@1U": {"identity": "5", "reading_celsius": 0.0, "physical_context": "GPU", "health": "OK", "state": "Absent"},
		},
		"Fan": {"0@1U": {"identity": "0", "physical_context": "Backplane", "health": "OK", "reading": 2100.0, "reading_units": "RPM"},
			"1@1U": {"identity": "1", "health": nil}, "2@1U": {"identity": "2", "health": "Splendid"}},
		"Power": {"0:Power@1U": {"health": "Critical", "line_input_voltage": 230.0, "last_power_output_watts": 80.0, "serial_number": "P1"}},
		"Drive": {"bay 1:A@1": {"health": "Warning", "name": "bay 1", "capacity_bytes": 7.0}},
	}})
	s.Set(Reading{Node: "u2", Name: "web2", At: time.Unix(1700000600, 0), Types: map[string]map[string]map[string]any{
		"Temperature": {
			"Temp (0x1)":        {"Sensor Reading": "21 (+/- 1) degrees C", "Entity ID": "3.1 (Processor)", "Sensor ID": "Temp (0x1)", "Status": "ok"},
			"Temp (0x2)":        {"Sensor Reading": "36.500 (+/- 1) degrees C", "Entity ID": "3.2 (Processor)", "Sensor ID": "Temp (0x2)", "Status": "Upper Critical"},
			"Exhaust Temp(0x6)": {"Sensor Reading": "Disabled", "Entity ID": "7.1", "Sensor ID": "x"},
		},
		"Fan": {
			"Fan4B (0x43)":          {"Sensor Reading": "5880 (+/- 60) RPM", "Entity ID": "7.1 (System Board)", "Sensor ID": "Fan4B (0x43)", "Status": "ok"},
			"Fan Redundancy (0x78)": {"Sensor Reading": "0h", "Entity ID": "7.1 (System Board)", "Sensor ID": "Fan Redundancy (0x78)"},
		},
		"Memory":   {"ECC Corr Err (0x1)": {"Sensor Reading": "2h", "Entity ID": "34.1", "Sensor ID": "ECC Corr Err (0x1)"}},
		"Voltage":  {"P3V3-AUX (0x9)": {"Sensor Reading": "3.3 (+/- 0) Volts", "Entity ID": "7.1", "Sensor ID": "P3V3-AUX (0x9)", "Status": "ok"}},
		"Physical": {"Intrusion (0x73)": {"Sensor Reading": "0h", "Entity ID": "7.1", "Sensor ID": "Intrusion (0x73)"}},
	}})
	want := map[string]float64{
		"baremetal_temp_cpu_celsius{entity_id=CPU,health=OK,identity=1,physical_context=CPU,sensor_id=1@1U,sensor_number=7,state=Enabled}":   41.5,
		"baremetal_temperature_status{entity_id=CPU,health=OK,identity=1,physical_context=CPU,sensor_id=1@1U,sensor_number=7,state=Enabled}": 0,
		"baremetal_temp_cpu_celsius{entity_id=CPU,identity=2,physical_context=CPU,sensor_id=2@1U,sensor_number=7}":                           20,
		"baremetal_temp_unknown_celsius{entity_id=,identity=4,sensor_id=4@1U}":                                                               30,
		"baremetal_fan_status{entity_id=Backplane,health=OK,identity=0,physical_context=Backplane,sensor_id=0@1U}":                           0,
		"baremetal_power_status{entity_id=PSU,health=Critical,sensor_id=0:Power@1U,serial_number=P1}":                                        2,
		"baremetal_drive_status{capacity_bytes=7,entity_id=HDD,health=Warning,name=bay 1,sensor_id=bay 1:A@1}":                               1,
		"baremetal_temp_celsius{entity_id=3.1 (Processor),sensor_id=Temp (0x1),status=ok}":                                                   21,
		"baremetal_temp_celsius{entity_id=3.2 (Processor),sensor_id=Temp (0x2),status=Upper Critical}":                                       36.5,
		"baremetal_fan_rpm{entity_id=7.1 (System Board),sensor_id=Fan4B (0x43),status=ok}":                                                   5880,
		"baremetal_fan_redundancy{entity_id=7.1 (System Board),sensor_id=Fan Redundancy (0x78)}":                                             0,
		"baremetal_memory_ecc_corr_err{entity_id=34.1,sensor_id=ECC Corr Err (0x1)}":                                                         1,
		"baremetal_voltage_p_aux_volts{entity_id=7.1,sensor_id=P3V3-AUX (0x9),status=ok}":                                                    3.3,
		"ironyard_rackd_sensor_series{}":                15,
		"ironyard_rackd_sensor_nodes{}":                 2,
		"ironyard_rackd_sensor_series_left_out_total{}": 0,
	}
	got := scrape(t, reg)
	delete(got, lastPayload+"{}")
	for k, v := range want {
		if is, there := got[k]; !there || is != v {
			t.Errorf("%s is %v (there: %t), want %v", k, is, there, v)
		}
	}
	for k := range got {
		if _, known := want[k]; !known {
			t.Errorf("%s is told", k)
		}
	}
}

// Names of IPMI's sensors, as ironic-prometheus-exporter 2b17d92 makes them of the sensors of its own samples and of others.
func TestNamesOfIPMISensors(t *testing.T) {
	for _, c := range []struct {
		kind, sensor, reading, name string
		value                       float64
	}{
		{"Voltage", "3.3V A PG (0x14)", "0h", "baremetal_voltage_a_pg", 0},
		{"Voltage", "5V SW PG (0x10)", "1h", "baremetal_voltage_sw_pg", 1},
		{"Voltage", "MEM012 VDDQ PG (0x24)", "0h", "baremetal_voltage_mem_vddq_pg", 0},
		{"Voltage", "BP2 PG (0xd)", "0h", "baremetal_voltage_bp_pg", 0},
		{"Voltage", "PS1 PG FAIL (0x9)", "0h", "baremetal_voltage_ps_pg_fail", 0},
		{"Voltage", "Voltage 2 (0x6e)", "208 (+/- 0) Volts", "baremetal_voltage_volts", 208},
		{"Voltage", "P1V8_AUX (0x9)", "1.79 (+/- 0) Volts", "baremetal_voltage_p_aux_volts", 1.79},
		{"Voltage", "+12V (0x31)", "12.1 (+/- 0) Volts", "baremetal_voltage_volts", 12.1},
		{"Voltage", "VBAT (0x9)", "3.0 (+/- 0) Volts", "baremetal_voltage_vbat_volts", 3},
		{"Current", "Pwr Consumption (0x76)", "264 (+/- 0) Watts", "baremetal_pwr_consumption", 264},
		{"Memory", "USB Over-current (0x1d)", "0h", "baremetal_memory_usb_over_current", 0},
		{"Memory", "B  (0xd6)", "0h", "baremetal_memory_b", 0},
		{"Temperature", "CPU/VRM - Temp (0x1)", "30 (+/- 1) degrees C", "baremetal_cpu_vrm_temp_celsius", 30},
		{"Fan", "Fan4B (0x43)", "5880 (+/- 60) RPM", "baremetal_fan_rpm", 5880},
	} {
		name, value, ok := ipmiGauge(c.kind, c.sensor, c.reading)
		if name = metricName(name); name != c.name || value != c.value || !ok {
			t.Errorf("%s %q is %s %v (%t), want %s %v", c.kind, c.sensor, name, value, ok, c.name, c.value)
		}
	}
}

// What a hostile BMC tells neither breaks the scrape nor fills it.
func TestSensorsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := NewSensors(reg, all, time.Hour)
	many := func(node string, n int) Reading {
		temperatures := map[string]map[string]any{}
		for i := range n {
			temperatures[fmt.Sprint(node, i)] = fields{"reading_celsius": 1.0, "physical_context": fmt.Sprintf("%s %d \xff\"\n{", node, i), "sensor_number": strings.Repeat("é", 500)}
		}
		return Reading{Node: node, Types: map[string]map[string]map[string]any{"Temperature": temperatures}}
	}
	for i := range 6 {
		s.Set(many(fmt.Sprintf("n%d", i), 1000))
	}
	got := scrape(t, reg)
	if series := got["ironyard_rackd_sensor_series{}"]; series > 6*sensorsOfNode || series < 900 {
		t.Errorf("%v series", series)
	}
	if left := got["ironyard_rackd_sensor_series_left_out_total{}"]; left < 4000 {
		t.Errorf("%v series were left out", left)
	}
	s.mu.Lock()
	if len(s.names) > sensorNames {
		t.Errorf("%d names", len(s.names))
	}
	s.mu.Unlock()
	for i := range 6 {
		s.Forget(fmt.Sprintf("n%d", i))
	}
	if len(s.names)+len(s.nodes) > 0 {
		t.Errorf("%d names and %d nodes are left", len(s.names), len(s.nodes))
	}
	s.Set(Reading{Node: "n", Types: map[string]map[string]map[string]any{"Fan": {"": {"Sensor Reading": " "}, "Fan": {"Sensor Reading": "x y"}}, "Power": {"": {"Sensor Reading": "7h"}}}})
	scrape(t, reg)
}

// A reading goes with the node's rackd, and with time.
func TestSensorsOfOthersAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, ours := prometheus.NewRegistry(), true
		s := NewSensors(reg, func(string) bool { return ours }, 30*time.Minute)
		r := Reading{Node: "n", Types: map[string]map[string]map[string]any{"Fan": {"1": {"health": "OK"}}}}
		shown := func() float64 { return scrape(t, reg)["ironyard_rackd_sensor_series{}"] }
		s.Set(r)
		time.Sleep(29 * time.Minute)
		if n := shown(); n != 2 {
			t.Errorf("%v series, want 2", n)
		}
		time.Sleep(2 * time.Minute)
		if n := shown(); n != 0 {
			t.Errorf("%v series of an old reading", n)
		}
		s.Set(r)
		ours = false
		if n := shown(); n != 0 {
			t.Errorf("%v series of a node of another rackd", n)
		}
	})
}
