package ipmisim

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/metrics"
	"github.com/ironyard/ironyard/rackd/sensordata"
)

// notified keeps what is published.
type notified struct{ subject, body string }

func (n *notified) Publish(subject string, body []byte) error {
	n.subject, n.body = subject, string(body)
	return nil
}

// What the sensors of a foreign BMC tell reaches Prometheus and the bus under the names of ironic-prometheus-exporter.
func TestSensorsBecomeGauges(t *testing.T) {
	needs(t, "ipmi_sim")
	probe, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	at := probe.LocalAddr().(*net.UDPAddr).AddrPort()
	probe.Close()
	b, err := Start(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "sim"), Address: at, Emulation: sensing(), Users: []User{{"admin", "s3cret-pass", "admin"}}}, &computer{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Stop() }()
	hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	registry, err := driver.NewRegistry(driver.Type{Name: "ipmi", Interfaces: map[string][]driver.Named{"power": {{Name: "ipmitool", Impl: hw.Power()}},
		"management": {{Name: "ipmitool", Impl: newDriver(t)}}, "boot": {{Name: "ipxe", Impl: hw.Boot()}}, "deploy": {{Name: "direct", Impl: hw.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	n := nodeAt(at.Port(), "s3cret-pass", nil)
	n.Driver, n.State = "ipmi", provision.Active
	if hw, err = registry.Resolve(n); err != nil {
		t.Fatal(err)
	}
	reg, told := prometheus.NewRegistry(), &notified{}
	gauges := metrics.NewSensors(reg, func(string) bool { return true }, time.Hour)
	task := sensordata.Task(sensordata.Config{Name: "r1", Every: time.Hour, Gauges: gauges, Bus: told, Log: slog.New(slog.DiscardHandler)})
	if !task.Wants(n, hw) {
		t.Fatal("the sensors are not wanted")
	}
	if err := task.Do(t.Context(), n, hw); err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(rec.Body.Bytes()))
	if err != nil {
		t.Fatalf("%v: %s", err, rec.Body)
	}
	f := found["baremetal_cpu_temp_celsius"]
	if f == nil || len(f.Metric) != 1 || f.Metric[0].GetGauge().GetValue() < 1 {
		t.Fatalf("no gauge of the processor's temperature: %s", rec.Body)
	}
	labels := map[string]string{}
	for _, l := range f.Metric[0].Label {
		labels[l.GetName()] = l.GetValue()
	}
	if labels["node_name"] != "web1" || labels["node_uuid"] != "b3d1" || labels["sensor_id"] != "CPU Temp (0x1)" || labels["status"] == "" || labels["entity_id"] == "" {
		t.Errorf("labels %v", labels)
	}
	var m struct {
		Payload struct {
			Payload map[string]map[string]map[string]string
		}
	}
	if err := json.Unmarshal([]byte(told.body), &m); err != nil || m.Payload.Payload["Temperature"]["CPU Temp (0x1)"]["Sensor ID"] != "CPU Temp (0x1)" || told.subject != "NOTIFY.hardware.ipmi.metrics.=.b3d1" {
		t.Errorf("told at %s: %v, %s", told.subject, err, told.body)
	}
}
