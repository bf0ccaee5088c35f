package ilo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// web is a management interface whose machine's firmware loads URLs.
type web struct {
	driver.Management
	urls []string
}

func (w *web) SetHTTPBoot(_ context.Context, f driver.Fence, _ *node.Document, url string, _ bool) error {
	w.urls = append(w.urls, url)
	return f.Check()
}

// Only UEFI firmware loads a URL. A machine in BIOS mode is switched over where the node asks for UEFI. Where it asks for none, its machine
// stays as it is, and the boot is refused.
func TestHTTPSBootSetsTheBootMode(t *testing.T) {
	for name, c := range map[string]struct {
		asks, is string
		writes   []string
		refused  bool
	}{
		"asked for":       {"boot_mode:uefi", "bios", []string{"mode uefi"}, false},
		"is so":           {"boot_mode:uefi", "uefi", nil, false},
		"not asked":       {"", "uefi", nil, false},
		"not asked, BIOS": {"", "bios", nil, true},
	} {
		r := drivertest.NewRig()
		k := r.Task(HTTPSBoot{})
		w := &web{Management: k.Hardware.Management()}
		reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: k.Hardware.Power()}},
			"management": {{Name: "m", Impl: w}}, "boot": {{Name: "b", Impl: HTTPSBoot{}}}, "deploy": {{Name: "d", Impl: deployless{}}}}})
		if err != nil {
			t.Fatal(err)
		}
		r.Mode = c.is
		k.Node = &node.Document{UUID: "n", Driver: "t", BootSet: "pxe", DriverInfo: map[string]any{fieldRamdisk: "https://images.example/ipa.iso"}, Properties: map[string]any{"capabilities": c.asks}}
		if k.Hardware, err = reg.Resolve(k.Node); err != nil {
			t.Fatal(err)
		}
		err = HTTPSBoot{}.PrepareRamdisk(t.Context(), k)
		if (err != nil) != c.refused || c.refused && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "needs the boot mode uefi")) {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(r.Log, c.writes) || (len(w.urls) == 0) != c.refused {
			t.Errorf("%s: writes %q, want %q; it loads %q", name, r.Log, c.writes, w.urls)
		}
		if err := (HTTPSBoot{}).PrepareInstance(t.Context(), k); err != nil || r.Observed.BootSet == nil || *r.Observed.BootSet != "disk" {
			t.Errorf("%s: of the instance's boot device the node's document learns %v: %v", name, r.Observed.BootSet, err)
		}
	}
}
