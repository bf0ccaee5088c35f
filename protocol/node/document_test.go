package node

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/smbios"
)

const someNode = "11111111-2222-4333-8444-555555555555"

// full is a document of which every field says something.
func full(t testing.TB) Document {
	no := false
	d := Document{UUID: someNode, Name: "a \"name\"", Group: "g", Driver: "redfish", ResourceClass: "gold", Generation: 7, Revision: 1 << 50,
		Interfaces: map[string]string{"power": "redfish", "boot": "ipxe"}, DriverInfo: map[string]any{"b": 1.5, "a": []any{"ü", nil, true}},
		Properties: map[string]any{"cpus": 64.0}, InstanceInfo: map[string]any{"capabilities": map[string]any{}}, InstanceUUID: "i",
		Traits: []string{"CUSTOM_GOLD"}, Ports: []Port{{UUID: someNode, Address: "52:54:00:00:00:01", PXEEnabled: true}, {}}, State: "active", Maintenance: true,
		Fault: PowerFailure, AutomatedClean: &no, DisablePowerOff: true, Retired: true, Protected: true, PinnedSince: 7, ConsoleEnabled: true, Tenancy: "t", TargetRAID: map[string]any{"logical_disks": []any{}},
		Kept: json.RawMessage(`{"session":7}`), Machine: smbios.System{UUID: someNode, Serial: "A1", SKU: "7"}, BootSet: "disk", InstanceFiles: map[string]string{"kernel": "sha256-1"}, DeployBootMode: "bios", SecureBootBefore: "on", LogMark: "7", Disks: json.RawMessage(`[["S1","0x1",7]]`), AgentSteps: json.RawMessage(`{"release":"1"}`), NetworkData: json.RawMessage(`{"links":[]}`),
		Connectors: []Connector{{Type: "iqn", ID: "iqn.2026-11.org.example:m"}},
		Targets:    []Target{{UUID: someNode, Type: "iscsi", VolumeID: "v", BootIndex: 1, Properties: map[string]any{"target_lun": 1.0}}}}
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
		body, err := d.Append([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		body = body[1:]
		got, err := Read(someNode, body)
		if err != nil || !reflect.DeepEqual(got, &d) {
			t.Errorf("read %+v, %v, want %+v", got, err, d)
		}
		if s, err := summarize(someNode, body); err != nil || s.Driver != d.Driver || s.Group != d.Group || !reflect.DeepEqual(s.Ports, d.Ports) {
			t.Errorf("summarized as %+v, %v, want %+v", s, err, d)
		}
		if rev, err := RevisionOf(someNode, body); err != nil || rev != d.Revision {
			t.Errorf("revision %d, %v, want %d", rev, err, d.Revision)
		}
	}
	d := Document{Properties: map[string]any{"f": func() {}}}
	if got, err := d.Append(nil); err == nil {
		t.Errorf("a function is written as %s", got)
	}
}

// A number comes back as encoding/json reads it; one that float64 does not hold stays as it was written.
func TestNumbersComeBack(t *testing.T) {
	d := Document{UUID: someNode, Properties: map[string]any{"large": json.Number("1e400"), "list": []any{map[string]any{"of": 1.5}}, "whole": 3}}
	body, err := d.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"large": json.Number("1e400"), "list": []any{map[string]any{"of": 1.5}}, "whole": 3.0}
	if got, err := Read(someNode, body); err != nil || !reflect.DeepEqual(got.Properties, want) {
		t.Errorf("%v, %v, want %v", got.Properties, err, want)
	}
}

// A program of another version writes fields that this one does not know, and leaves out fields that it knows.
func TestOtherVersionsAreRead(t *testing.T) {
	key := someKey(t)
	full := full(t)
	raw, err := json.Marshal(&full)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	fields["volumes"] = []any{map[string]any{"iqn": "iqn.2026-11.example:1"}}
	fields["ports"].([]any)[0].(map[string]any)["mtu"] = 1500
	delete(fields, "traits")
	full.Traits = nil
	if raw, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	e := Posted{form: Format, key: key.ID(), node: raw}
	body, err := e.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Read(someNode, append([]byte(`{"since":"2027.1",`), body[1:]...)); err != nil || !reflect.DeepEqual(got, &full) {
		t.Errorf("read %+v, %v, want %+v", got, err, full)
	}
	// What this program does not know is under the code as the rest is.
	e.code = hexOf(key.Code(codeOfNode, e.signed(someNode)...))
	signed, err := e.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, made := verify(someNode, signed, key); !made {
		t.Error("a document with a field that is not known is taken for a forgery")
	}
	if _, made := verify(someNode, bytes.Replace(signed, []byte("iqn.2026"), []byte("iqn.2027"), 1), key); made {
		t.Error("a field that is not known was changed, and the document is taken for central's")
	}
}

func TestCode(t *testing.T) {
	key, other := someKey(t), someKey(t)
	d := full(t)
	d.Kept = json.RawMessage(`{ "spaces" : "<&>" }`) // another compact form than its own
	body, err := d.AppendSigned(nil, key)
	if err != nil {
		t.Fatal(err)
	}
	if keyOf(body) != key.ID() {
		t.Errorf("the key is %q, want %q", keyOf(body), key.ID())
	}
	kept, made := verify(someNode, body, key)
	if !made || keyOf(kept) != "" {
		t.Fatalf("verified: %t, and what is kept names the key %q", made, keyOf(kept))
	}
	if a, err := Read(someNode, body); err != nil {
		t.Error(err)
	} else if b, err := Read(someNode, kept); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("kept %+v, %v, want %+v", b, err, a)
	}
	for name, forged := range map[string]func() bool{
		"another key":  func() bool { _, made := verify(someNode, body, other); return made },
		"another node": func() bool { _, made := verify("n", body, key); return made },
		"another key's name": func() bool {
			_, made := verify(someNode, bytes.Replace(body, []byte(key.ID()), []byte(other.ID()), 1), key)
			return made
		},
		"without a code": func() bool { _, made := verify(someNode, kept, key); return made },
		"changed": func() bool {
			_, made := verify(someNode, bytes.Replace(body, []byte("redfish"), []byte("redfisk"), 1), key)
			return made
		},
		"no document": func() bool { _, made := verify(someNode, []byte("{}"), key); return made },
	} {
		if forged() {
			t.Errorf("%s: taken for central's", name)
		}
	}
}

func TestRefusesWhatIsNoDocument(t *testing.T) {
	for text, want := range map[string]error{"": nil, "null": nil, "{": nil, "{}": nil, `{"form":1}`: nil, `{"form":0,"node":{"uuid":"` + someNode + `"}}`: nil,
		`{"form":2,"node":{"uuid":"` + someNode + `"}}`: ErrFormat, `{"form":1,"node":{"uuid":"another"}}`: ErrOther, `{"form":1,"node":{}}`: ErrOther,
		`{"form":1,"node":{"uuid":"` + someNode + `","revision":"x","ports":7}}`: nil, `{"form":1,"node":[]}`: nil} {
		for name, read := range map[string]func() error{
			"Read":    func() error { _, err := Read(someNode, []byte(text)); return err },
			"Summary": func() error { _, err := summarize(someNode, []byte(text)); return err },
			"RevisionOf": func() error {
				_, err := RevisionOf(someNode, []byte(text))
				return err
			},
		} {
			if err := read(); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s of %q: %v, want %v", name, text, err, want)
			}
		}
	}
	if form := formOf([]byte(`{"form":7,"whatever":[]}`)); form != 7 {
		t.Errorf("form %d, want 7", form)
	}
}

// FuzzRead holds that no document on the bus harms its reader, and that what is read once is
// written as what reads the same.
func FuzzRead(f *testing.F) {
	for _, d := range variants(f) {
		body, err := d.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, text := range []string{`{"form":1,"node":{"uuid":"` + someNode + `","properties":{"n":1e999}}}`, `{"form":1,"Form":2,"node":{},"node":null}`,
		`{"uuid":"a","UUID":"b","ports":[{"address":"x"}],"ports":[{"uuid":"y"}],"console_enabled":null}`, `{"form":-0,"node":{"revision":1.0}}`,
		`{"node":{"uuid":"a"},"node":{"revision":1}}`, `{"ports":[{"uuid":"a"},{}],"ports":[{}]}`} {
		f.Add([]byte(text))
	}
	key := someKey(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		verify(someNode, body, key)
		formOf(body)
		sameAsUsual[opened](t, body)
		sameAsUsual[Summary](t, body)
		sameAsUsual[revised](t, body)
		d, err := Read(someNode, body)
		if err != nil {
			return
		}
		again, err := d.Append(nil)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", body, err)
		}
		if back, err := Read(someNode, again); err != nil {
			t.Fatalf("%q became %q, which is not read: %v", body, again, err)
		} else if third, err := back.Append(nil); err != nil || !bytes.Equal(again, third) {
			t.Errorf("%q became %q, then %q, %v", body, again, third, err)
		}
	})
}

// sameAsUsual holds that what is read in the usual form is what encoding/json reads.
func sameAsUsual[T any, P interface {
	*T
	usual(string) bool
}](t *testing.T, body []byte) {
	t.Helper()
	var got, want T
	if !P(&got).usual(string(body)) {
		return
	}
	if err := json.Unmarshal(body, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as %+v; encoding/json reads %+v, %v", body, got, want, err)
	}
}

// What Append writes is in the usual form: it is opened without reflection.
func TestAppendWritesTheUsual(t *testing.T) {
	d := ordinary()
	body, err := d.AppendSigned(nil, someKey(t))
	if err != nil {
		t.Fatal(err)
	}
	var o opened
	var s Summary
	var r revised
	if !o.usual(string(body)) || !s.usual(string(o.Node)) || !r.usual(string(body)) {
		t.Errorf("%s is opened by encoding/json", body)
	}
	sameAsUsual[opened](t, body)
	sameAsUsual[Summary](t, o.Node)
	sameAsUsual[revised](t, body)
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

func BenchmarkDocument(b *testing.B) {
	d := ordinary()
	body, err := d.Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"append":    func() error { _, err := d.Append(make([]byte, 0, 512)); return err },
		"read":      func() error { _, err := Read(someNode, body); return err },
		"summarize": func() error { _, err := summarize(someNode, body); return err },
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

func someKey(t testing.TB) *seal.Key {
	t.Helper()
	k, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if k, err = k.ForGroup("g"); err != nil {
		t.Fatal(err)
	}
	return k
}

func hexOf(code []byte) string { return hex.EncodeToString(code) }

// verify opens and verifies a document, as its readers do.
func verify(uuid string, body []byte, key *seal.Key) ([]byte, bool) {
	p, err := Open(body)
	if err != nil {
		return nil, false
	}
	return p.Verify(uuid, key)
}

func keyOf(body []byte) string {
	p, err := Open(body)
	if err != nil {
		return ""
	}
	return p.Key()
}

func formOf(body []byte) int {
	p, err := Open(body)
	if err != nil && !errors.Is(err, ErrFormat) {
		return 0
	}
	return p.Form()
}

func summarize(uuid string, body []byte) (Summary, error) {
	p, err := Open(body)
	if err != nil {
		return Summary{}, err
	}
	return p.Summary(uuid)
}
