package flow

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/ramdisk"
)

// A machine that boots its own disk is adopted by its power. What the network brings has to be there, and is brought into the rack; the
// machine itself is told nothing.
func TestAdoptLooksAtWhatBoots(t *testing.T) {
	write := direct.New(direct.Settings{})
	live := ramdisk.New(write, bringup.Settings{})
	files := map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r"}
	for name, c := range map[string]struct {
		deploy   driver.Interface
		info     map[string]any
		portless bool
		live     bool   // something is brought into the rack
		fails    string // what cannot be had
		refusal  string
		class    error
	}{
		"its own disk":                    {deploy: write},
		"its own disk, without ports":     {deploy: write, portless: true},
		"an image from its own disk":      {deploy: write, info: map[string]any{"image_source": "http://192.0.2.1/i"}},
		"a ramdisk":                       {deploy: live, live: true, info: files},
		"a ramdisk, without ports":        {deploy: live, live: true, info: files, portless: true, refusal: "pxe_enabled", class: driver.ErrInvalid},
		"no ramdisk":                      {deploy: live, live: true, refusal: "Missing are: ['kernel', 'ramdisk']", class: driver.ErrInvalid},
		"a ramdisk that cannot be had":    {deploy: live, live: true, info: files, fails: "latest http://192.0.2.1/k", refusal: "kernel into the rack's cache", class: driver.ErrUnreachable},
		"the network, and no image":       {deploy: write, info: map[string]any{"capabilities": "boot_option:netboot"}, refusal: "image_source", class: driver.ErrInvalid},
		"the network, and then its disk":  {deploy: write, info: map[string]any{"capabilities": "boot_option:netboot", "image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32)}},
		"the network, and what is no URL": {deploy: live, live: true, info: map[string]any{"boot_iso": "i.iso"}, refusal: "boot_iso must be", class: driver.ErrInvalid},
	} {
		r := drivertest.NewRig()
		r.Deploy, r.Node.InstanceInfo = c.deploy, c.info
		r.SetPowerState(driver.PowerOn)
		if c.portless {
			r.Node.Ports = nil
		}
		r.Fail = func(call string) error {
			if c.fails != "" && call == c.fails {
				return driver.ErrUnreachable
			}
			return nil
		}
		task := r.Task(networkboot.IPXE())
		catalog := NewCatalog(Config{Log: slog.New(slog.DiscardHandler)})
		steps, err := catalog.Steps(&work.Document{Verb: work.Adopt}, task)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var names []string
		for _, s := range steps {
			names = append(names, s.ID())
			if s.Interface != "conductor" || err != nil { // the power and the rest are read, and told to central
				continue
			}
			_, err = s.Run(t.Context(), task)
		}
		if want := []string{"conductor.validate", "power.verify"}; !slices.Equal(names[:2], want) || slices.Contains(names, "conductor.take_over") != c.live {
			t.Errorf("%s: steps %q", name, names)
		}
		if (err == nil) != (c.refusal == "") || err != nil && (!errors.Is(err, c.class) || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s: %v, want %q", name, err, c.refusal)
		}
		if len(r.Log) != 0 || err == nil && c.live != (len(r.Observed.InstanceFiles) == 2) {
			t.Errorf("%s: writes %q, brought %v", name, r.Log, r.Observed.InstanceFiles)
		}
	}
}
