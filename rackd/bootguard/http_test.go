package bootguard

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
)

// web is a machine whose firmware loads a URL. It shows what it was told.
type web struct {
	driver.Management
	is     ask.BootDevice
	writes []string
}

func (w *web) BootDevice(context.Context, *node.Document) (ask.BootDevice, error) { return w.is, nil }

func (w *web) set(f driver.Fence, device, what string, persistent bool) error {
	w.is = ask.BootDevice{Device: device, Persistent: &persistent}
	w.writes = append(w.writes, fmt.Sprint(what, " ", persistent))
	return f.Check()
}

func (w *web) SetBootDevice(_ context.Context, f driver.Fence, _ *node.Document, d driver.BootDevice, persistent bool) error {
	return w.set(f, string(d), string(d), persistent)
}

func (w *web) SetHTTPBoot(_ context.Context, f driver.Fence, _ *node.Document, url string, persistent bool) error {
	return w.set(f, "uefihttp", url, persistent)
}

// A flow has the firmware load an instance's image, on a node that booted its disk before. The guard leaves that, and tells a BMC that has
// forgotten it of the image again. What a rackd serves has an address that the guard does not know, and another task looks after it.
func TestWhatFirmwareLoadsIsGuarded(t *testing.T) {
	const image = "http://192.0.2.1/live.iso"
	m := &web{}
	boot := mediaboot.HTTPBoot(nil)
	r := drivertest.NewRig()
	k := r.Task(boot)
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: k.Hardware.Power()}},
		"management": {{Name: "m", Impl: m}}, "boot": {{Name: "redfish-https", Impl: boot}}, "deploy": {{Name: "ramdisk", Impl: k.Hardware.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Document{UUID: "n", Driver: "t", State: provision.Active, BootSet: "disk", Interfaces: map[string]string{"deploy": "ramdisk"}, InstanceInfo: map[string]any{"boot_iso": image}}
	if k.Hardware, err = reg.Resolve(n); err != nil {
		t.Fatal(err)
	}
	k.Node = n
	if err := boot.PrepareInstance(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if r.Observed.BootSet != nil { // central puts it into the document
		n.BootSet = *r.Observed.BootSet
	}
	told := &rack{}
	guard := Task(time.Hour, told)
	for _, c := range []struct {
		name   string
		shows  ask.BootDevice
		writes []string
	}{
		{"as the flow has left it", m.is, nil},
		{"the BMC has forgotten", ask.BootDevice{}, []string{image + " true"}},
	} {
		m.is, m.writes = c.shows, nil
		if err := guard.Do(t.Context(), n, k.Hardware); err != nil || !slices.Equal(m.writes, c.writes) {
			t.Errorf("%s: %v, writes %q, want %q", c.name, err, m.writes, c.writes)
		}
	}
	if len(told.lines) != 1 {
		t.Errorf("the history says %q", told.lines)
	}
	n.InstanceFiles = map[string]string{node.FileMedium: "w1"}
	for set, want := range map[string]bool{"uefihttp": false, "disk": true} {
		if n.BootSet = set; guard.Wants(n, k.Hardware) != want {
			t.Errorf("an instance of a rackd's medium, boot device %s: guarded %t", set, !want)
		}
	}
}
