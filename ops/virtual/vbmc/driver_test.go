package vbmc

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// open is a fence that lets everything pass.
type open struct{}

func (open) Check() error  { return nil }
func (open) Work() string  { return "work" }
func (open) Epoch() uint64 { return 1 }

var _ driver.Fence = open{}

// The driver redfish and the abilities of a computer: secure boot, HTTP boot, media. What
// is so already is not written again.
func TestRedfishDriverUsesAbilities(t *testing.T) {
	b, computer, address := serveEquipped(t)
	computer.secure.PlatformKey = true
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
		"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
	fence := open{}
	const image = "http://10.0.0.1/a.iso"
	for range 2 {
		if err := d.SetSecureBoot(t.Context(), fence, n, true); err != nil || !computer.secure.Next {
			t.Fatalf("secure boot %t, %v", computer.secure.Next, err)
		}
		if err := d.SetBootDevice(t.Context(), fence, n, "uefihttp", false); err != nil {
			t.Fatal(err)
		}
		if device, once := computer.BootOverride(); device != HTTP || !once {
			t.Errorf("override %q, once %t", device, once)
		}
		if err := d.AttachMedia(t.Context(), fence, n, "cdrom", image); err != nil || computer.image != image {
			t.Fatalf("image %q, %v", computer.image, err)
		}
	}
	if on, err := d.SecureBoot(t.Context(), n); err != nil || !on {
		t.Errorf("secure boot is read as %t, %v", on, err)
	}
	if o, err := d.Observe(t.Context(), n); err != nil || o.SecureBoot == nil || !*o.SecureBoot {
		t.Errorf("observed %+v, %v", o, err)
	}
	if got := len(b.Journal.Matching("SecureBoot")) + len(b.Journal.Matching("Systems/1")) + len(b.Journal.Matching("VirtualMedia.InsertMedia")); got != 3 {
		t.Errorf("%d writes, want one for each of three settings: %+v", got, b.Journal.Writes())
	}
	computer.image = ""
	computer.unreadable = errors.New("the image's server answers 404")
	if err := d.AttachMedia(t.Context(), fence, n, "cdrom", image); err == nil {
		t.Error("an image that cannot be read was attached")
	}
	computer.unreadable, computer.image = nil, image
	if err := d.EjectImage(t.Context(), fence, n, "cdrom", func(i string) bool { return i == image }); err != nil || computer.image != "" {
		t.Errorf("eject: image %q, %v", computer.image, err)
	}
}
