package node

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/packed"
	"github.com/ironyard/ironyard/protocol/smbios"
)

const someNode = "11111111-2222-4333-8444-555555555555"

// full is a document of which every field says something.
func full(t testing.TB) Document {
	no := false
	d := Document{UUID: someNode, Name: "a \"name\"", Group: "g", Driver: "redfish", Generation: 7, Revision: 1 << 50,
		Interfaces: map[string]string{"power": "redfish", "boot": "ipxe"}, DriverInfo: map[string]any{"b": 1.5, "a": []any{"ü", nil, true}},
		Properties: map[string]any{"cpus": 64.0}, InstanceInfo: map[string]any{"capabilities": map[string]any{}}, InstanceUUID: "i",
		Traits: []string{"CUSTOM_GOLD"}, Ports: []Port{{UUID: someNode, Address: "52:54:00:00:00:01", PXEEnabled: true}, {}}, State: "active", Maintenance: true,
		Fault: PowerFailure, AutomatedClean: &no, DisablePowerOff: true, Retired: true, TargetRAID: map[string]any{"logical_disks": []any{}},
		Kept: json.RawMessage(`{"session":7}`), Machine: smbios.System{UUID: someNode, Serial: "A1", SKU: "7"}, Disks: json.RawMessage(`[["S1","0x1",7]]`)}
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Fatalf("the test's document leaves out %s", v.Type().Field(i).Name)
		}
	}
	return d
}

// variants are a whole document, an empty one, and for each field one with that alone and one
// without it.
func variants(t testing.TB) []Document {
	d := full(t)
	whole := reflect.ValueOf(d)
	list := []Document{d, {UUID: someNode}}
	for i := range whole.NumField() {
		one, others := Document{}, d
		reflect.ValueOf(&one).Elem().Field(i).Set(whole.Field(i))
		reflect.ValueOf(&others).Elem().Field(i).SetZero()
		one.UUID, others.UUID = someNode, someNode
		list = append(list, one, others)
	}
	return list
}

func TestComesBack(t *testing.T) {
	for _, d := range variants(t) {
		asJSON, err := json.Marshal(&d)
		if err != nil {
			t.Fatal(err)
		}
		body, err := d.Append([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		for form, body := range map[string][]byte{"packed": body[1:], "JSON": asJSON} {
			got, err := Read(someNode, body)
			if err != nil || !reflect.DeepEqual(got, &d) {
				t.Errorf("%s: read %+v, %v, want %+v", form, got, err, d)
			}
			if s, err := Summarize(someNode, body); err != nil || s.Driver != d.Driver || s.Group != d.Group || !reflect.DeepEqual(s.Ports, d.Ports) {
				t.Errorf("%s: summarized as %+v, %v, want %+v", form, s, err, d)
			}
			if rev, err := RevisionOf(someNode, body); err != nil || rev != d.Revision {
				t.Errorf("%s: revision %d, %v, want %d", form, rev, err, d.Revision)
			}
		}
	}
	d := Document{Properties: map[string]any{"f": func() {}}}
	if got, err := d.Append(nil); err == nil {
		t.Errorf("a function is written as %x", got)
	}
}

// What lies on a bus is read by programs of other versions: fields and words keep their
// numbers.
func TestWhatWasWrittenIsRead(t *testing.T) {
	const was = "0105038080808080808004038e024167"
	d := Document{Revision: 1 << 50, Driver: "redfish", Group: "g"}
	if body, err := d.Append(nil); err != nil || hex.EncodeToString(body) != was {
		t.Errorf("written as %x, %v, was %s", body, err, was)
	}
	full := full(t)
	body, err := full.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	// A newer program's field, and more about a port.
	newer := append(packed.AppendText(append(bytes.Clone(body), 200), "whatever"), fieldPorts)
	newer = packed.AppendCount(packed.AppendCount(newer, 1), 4)
	newer = packed.AppendInt(packed.AppendBool(packed.AppendText(packed.AppendText(newer, "p"), "52:54:00:00:00:02"), true), 1500)
	full.Ports = []Port{{UUID: "p", Address: "52:54:00:00:00:02", PXEEnabled: true}}
	if got, err := Read(someNode, newer); err != nil || !reflect.DeepEqual(got, &full) {
		t.Errorf("read %+v, %v, want %+v", got, err, full)
	}
}

func TestRefusesWhatIsNoDocument(t *testing.T) {
	for text, want := range map[string]error{"": ErrFormat, "\x02\x03\x40": ErrFormat, "null": ErrFormat, "\x01\x03": packed.ErrBroken, "\x01\x05\x0f": packed.ErrBroken,
		"\x01\x05\x03": packed.ErrBroken, `{`: nil, `{"uuid":"another"}`: nil, `{"revision":"x"}`: nil} {
		for name, read := range map[string]func() error{
			"Read":       func() error { _, err := Read(someNode, []byte(text)); return err },
			"Summarize":  func() error { _, err := Summarize(someNode, []byte(text)); return err },
			"RevisionOf": func() error { _, err := RevisionOf(someNode, []byte(text)); return err },
		} {
			if err := read(); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s of %q: %v, want %v", name, text, err, want)
			}
		}
	}
}

// FuzzRead holds that no document on the bus harms who reads it, and that what is read once is
// written as what reads the same.
func FuzzRead(f *testing.F) {
	for _, d := range variants(f) {
		body, err := d.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"uuid":"` + someNode + `"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := Read(someNode, body)
		if err != nil {
			return
		}
		again, err := d.Append(nil)
		if err != nil {
			return // NaN
		}
		if back, err := Read(someNode, again); err != nil {
			t.Fatalf("%q became %x, which is not read: %v", body, again, err)
		} else if third, err := back.Append(nil); err != nil || !bytes.Equal(again, third) {
			t.Errorf("%q became %x, then %x, %v", body, again, third, err)
		}
	})
}

// ordinary is a document of ordinary size.
func ordinary() Document {
	d := Document{UUID: someNode, Name: "rack-1-unit-7", Driver: "redfish", Generation: 7, Revision: 1 << 50, State: "available",
		Interfaces: map[string]string{}, DriverInfo: map[string]any{"redfish_address": "https://10.0.0.1", "redfish_username": "operator",
			"redfish_password": "sealed:v1:" + strings.Repeat("c2Vj", 14), "redfish_system_id": "/redfish/v1/Systems/1", "deploy_kernel": "http://images.example/kernel"},
		Properties: map[string]any{"cpus": 64.0, "memory_mb": 262144.0, "local_gb": 1800.0, "cpu_arch": "x86_64", "capabilities": "boot_mode:uefi"},
		Traits:     []string{"CUSTOM_GOLD", "HW_CPU_X86_VMX"}, Ports: []Port{{UUID: someNode, Address: "52:54:00:00:00:01", PXEEnabled: true}}}
	for _, kind := range InterfaceKinds {
		d.Interfaces[kind] = "redfish"
	}
	return d
}

func TestIsAThirdOfJSON(t *testing.T) {
	d := ordinary()
	asJSON, err := json.Marshal(&d)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := d.Append(nil); err != nil || 3*len(body) > len(asJSON) {
		t.Errorf("an ordinary document takes %d bytes, %v, as JSON %d", len(body), err, len(asJSON))
	}
}

func BenchmarkDocument(b *testing.B) {
	d := ordinary()
	body, err := d.Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"append":    func() error { _, err := d.Append(make([]byte, 0, 512)); return err },
		"read":      func() error { _, err := Read(someNode, body); return err },
		"summarize": func() error { _, err := Summarize(someNode, body); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.ReportMetric(float64(len(body)), "bytes/document")
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
