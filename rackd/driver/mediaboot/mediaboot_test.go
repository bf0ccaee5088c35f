package mediaboot

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

var _ driver.Boot = Interface{}

const (
	ramdiskISO  = "http://192.0.2.1/ipa.iso"
	instanceISO = "http://192.0.2.1/live.iso"
)

// task is work on a machine whose management has virtual media.
func task(t *testing.T, n *node.Document) *driver.Task {
	t.Helper()
	kind := fake.New(fake.Options{}).Type()
	kind.Interfaces["boot"] = []driver.Named{{Name: "redfish-virtual-media", Impl: Interface{}}}
	reg, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	n.Driver = kind.Name
	r := drivertest.NewRig()
	out := r.Task(Interface{})
	if out.Hardware, err = reg.Resolve(n); err != nil {
		t.Fatal(err)
	}
	out.Node = n
	return out
}

// state reads what is in the drives, and the boot device.
func state(t *testing.T, k *driver.Task) string {
	t.Helper()
	drives, err := k.Hardware.Management().(driver.VirtualMedia).Media(t.Context(), k.Node)
	if err != nil {
		t.Fatal(err)
	}
	var in string
	for _, d := range drives {
		if d.Inserted {
			in += d.Image + " "
		}
	}
	b, err := k.Hardware.Management().BootDevice(t.Context(), k.Node)
	if err != nil {
		t.Fatal(err)
	}
	in += b.Device
	if b.Persistent != nil && *b.Persistent {
		in += " for good"
	}
	return in
}

func TestRamdiskThenDisk(t *testing.T) {
	k := task(t, &node.Document{UUID: "u", DriverInfo: map[string]any{fieldRamdisk: ramdiskISO}})
	for _, step := range []struct {
		name string
		do   func() error
		fact string
		want string
	}{
		{"ramdisk", func() error { return Interface{}.PrepareRamdisk(t.Context(), k) }, driver.BootRamdisk, ramdiskISO + " cdrom"},
		{"again", func() error { return Interface{}.PrepareRamdisk(t.Context(), k) }, driver.BootRamdisk, ramdiskISO + " cdrom"},
		{"instance", func() error { return Interface{}.PrepareInstance(t.Context(), k) }, driver.BootInstance, "disk for good"},
		{"end", func() error { return Interface{}.CleanUpInstance(t.Context(), k) }, "", "disk for good"},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := state(t, k); got != step.want || k.Facts[driver.FactBoot] != step.fact {
			t.Errorf("%s: the machine boots %q (fact %q), want %q (%q)", step.name, got, k.Facts[driver.FactBoot], step.want, step.fact)
		}
	}
}

func TestInstanceIsAnImage(t *testing.T) {
	k := task(t, &node.Document{UUID: "v", InstanceInfo: map[string]any{fieldInstance: instanceISO}})
	if err := (Interface{}).Validate(k.Node); err != nil {
		t.Error(err)
	}
	if err := (Interface{}).PrepareInstance(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got := state(t, k); got != instanceISO+" cdrom for good" {
		t.Errorf("the machine boots %q", got)
	}
	if err := (Interface{}).CleanUpInstance(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got := state(t, k); strings.Contains(got, instanceISO) {
		t.Errorf("after the instance it boots %q", got)
	}
}

func TestRefusals(t *testing.T) {
	for _, info := range []map[string]any{nil, {fieldRamdisk: "file:///ipa.iso"}, {fieldRamdisk: "http:///x"}} {
		n := &node.Document{UUID: "w", Name: "web1", DriverInfo: info}
		if err := (Interface{}).Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fieldRamdisk) {
			t.Errorf("driver_info %v: %v", info, err)
		}
		if err := (Interface{}).PrepareRamdisk(t.Context(), task(t, n)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("driver_info %v: prepared with %v", info, err)
		}
	}
}
