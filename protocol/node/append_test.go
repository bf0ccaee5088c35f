package node

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// full is a document of which every field says something.
func full(t testing.TB) Document {
	yes := true
	d := Document{UUID: "u", Name: "a \"name\"", Group: "g", Driver: "redfish", Generation: 7, Revision: 8, Updated: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		Interfaces: map[string]string{"power": "redfish", "boot": "ipxe"}, DriverInfo: map[string]any{"b": 1.5, "a": []any{"ü", nil, true}},
		Properties: map[string]any{"cpus": json.Number("64")}, InstanceInfo: map[string]any{"capabilities": map[string]any{}}, InstanceUUID: "i",
		Traits: []string{"CUSTOM_GOLD"}, Ports: []Port{{UUID: "p", Address: "52:54:00:00:00:01", PXEEnabled: true}, {}}, State: "active", Maintenance: true,
		Fault: PowerFailure, AutomatedClean: &yes, DisablePowerOff: true, Retired: true, TargetRAID: map[string]any{"logical_disks": []any{}},
		Kept: json.RawMessage(`{"session":7}`)}
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Fatalf("the test's document leaves out %s", v.Type().Field(i).Name)
		}
	}
	return d
}

func TestAppendIsMarshal(t *testing.T) {
	d := full(t)
	whole := reflect.ValueOf(d)
	documents := []Document{d, {}}
	for i := range whole.NumField() { // with one field, and with all others
		one, others := Document{}, d
		reflect.ValueOf(&one).Elem().Field(i).Set(whole.Field(i))
		reflect.ValueOf(&others).Elem().Field(i).SetZero()
		documents = append(documents, one, others)
	}
	for _, d := range documents {
		want, err := json.Marshal(&d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Append([]byte("x")); err != nil || !bytes.Equal(got, append([]byte("x"), want...)) {
			t.Errorf("appended %s, %v, want %s", got, err, want)
		}
	}
	d.Properties = map[string]any{"f": func() {}}
	if got, err := d.Append(nil); err == nil {
		t.Errorf("a function is written as %s", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	d := Document{UUID: "11111111-2222-4333-8444-555555555555", Name: "rack-1-unit-7", Driver: "redfish", Generation: 7, Revision: 1 << 50, State: "available",
		Interfaces: map[string]string{}, DriverInfo: map[string]any{"redfish_address": "https://10.0.0.1", "redfish_username": "operator"},
		Properties: map[string]any{"cpus": 64.0, "memory_mb": 262144.0, "local_gb": 1800.0, "cpu_arch": "x86_64"}}
	for _, kind := range InterfaceKinds {
		d.Interfaces[kind] = "redfish"
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Append(make([]byte, 0, 1024)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("marshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(&d); err != nil {
				b.Fatal(err)
			}
		}
	})
}
