package flow

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/none"
	"github.com/ironyard/ironyard/rackd/driver/ramdisk"
	"github.com/ironyard/ironyard/rackd/driver/volume"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

// A machine that boots its own disk is adopted by its power. What the network brings has to be there, and is brought into the rack; the
// machine itself is told nothing.
func TestAdoptLooksAtWhatBoots(t *testing.T) {
	write := direct.New(direct.Settings{})
	live := ramdisk.New(write, bringup.Settings{})
	files := map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r"}
	racks, err := rackramdisk.New(bootfiles.Paths{UKI: "u"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		deploy   driver.Interface
		info     map[string]any
		portless bool
		live     bool   // something is brought into the rack
		fails    string // what cannot be had
		refusal  string
		class    error
		boot     driver.Boot // nil: ipxe
		volume   string      // the IQN of its boot volume
		attaches string      // that of the volume which its firmware attaches
		unnamed  bool        // its connector is no initiator's name
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
		"a volume by the network":         {deploy: write, live: true, volume: volumeIQN},
		"a volume, without ports":         {deploy: write, live: true, volume: volumeIQN, portless: true, refusal: "pxe_enabled", class: driver.ErrInvalid},
		"a volume that has no name":       {deploy: write, live: true, volume: "disk 1", refusal: "target_iqn", class: driver.ErrInvalid},
		"a volume and no initiator":       {deploy: write, live: true, volume: volumeIQN, unnamed: true, refusal: "initiator", class: driver.ErrInvalid},
		"a volume that nothing boots":     {deploy: write, live: true, volume: volumeIQN, boot: networkboot.HTTP(racks), refusal: "must be one that boots volumes", class: driver.ErrInvalid},
		"a volume by firmware":            {deploy: write, live: true, volume: volumeIQN, boot: networkboot.PXE().ByFirmware(), attaches: volumeIQN},
		"another volume by firmware":      {deploy: write, live: true, volume: volumeIQN, boot: networkboot.PXE().ByFirmware(), attaches: "iqn.2026-11.org.example:other", refusal: "its firmware attaches iqn.2026-11.org.example:other, LUN 0", class: driver.ErrInvalid},
		"no volume by firmware":           {deploy: write, live: true, volume: volumeIQN, boot: networkboot.PXE().ByFirmware(), refusal: "its firmware attaches none", class: driver.ErrInvalid},
		"no volume, and virtual media":    {deploy: write, live: true, volume: volumeIQN, boot: mediaboot.VirtualMedia(bootable), refusal: "its firmware attaches none", class: driver.ErrInvalid},
		"a volume, and virtual media":     {deploy: write, live: true, volume: volumeIQN, boot: mediaboot.VirtualMedia(bootable), attaches: volumeIQN},
		"an image beside a volume":        {deploy: write, volume: volumeIQN, info: map[string]any{"image_source": "http://192.0.2.1/i"}},
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
		if c.boot == nil {
			c.boot = networkboot.IPXE()
		}
		task := r.Task(c.boot)
		if c.volume != "" {
			withVolume(t, task, c.volume, c.attaches)
		}
		if c.unnamed {
			task.Node.Connectors[0].ID = "machine 1"
		}
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
		if f, firmware := task.Hardware.Management().(*attaching); len(r.Log) != 0 || firmware && f.wrote || err == nil && (c.live && c.volume == "") != (len(r.Observed.InstanceFiles) == 2) {
			t.Errorf("%s: writes %q, brought %v", name, r.Log, r.Observed.InstanceFiles)
		}
	}
}

const volumeIQN = "iqn.2026-11.org.example:volume"

// bootable says that a rackd makes media for each boot mode.
func bootable(string) error { return nil }

// withVolume gives a task's node a volume to boot from, and its machine firmware that attaches one; attaches is empty for none.
func withVolume(t *testing.T, task *driver.Task, iqn, attaches string) {
	t.Helper()
	n := task.Node
	n.Interfaces = map[string]string{"storage": "external"}
	n.Connectors = []node.Connector{{Type: "iqn", ID: "iqn.2026-11.org.example:machine"}}
	n.Targets = []node.Target{{UUID: "t", Type: "iscsi", Properties: map[string]any{"target_iqn": iqn, "target_portal": "192.0.2.9"}}}
	kinds := map[string][]driver.Named{"storage": {{Name: "noop", Impl: none.Noop{}}, {Name: "external", Impl: volume.External()}}}
	for kind, impl := range task.Hardware.Kinds() {
		kinds[kind] = []driver.Named{impl}
	}
	f := &attaching{Management: task.Hardware.Management()}
	if attaches != "" {
		f.list = []driver.ISCSITarget{{IQN: attaches, Host: "192.0.2.9", Port: 3260}}
	}
	kinds["management"] = []driver.Named{{Name: "rig", Impl: f}}
	reg, err := driver.NewRegistry(driver.Type{Name: "rig", Interfaces: kinds})
	if err != nil {
		t.Fatal(err)
	}
	if task.Hardware, err = reg.Resolve(n); err != nil {
		t.Fatal(err)
	}
}

// attaching is a management interface of firmware that attaches volumes.
type attaching struct {
	driver.Management
	driver.VirtualMedia // of a machine with a drive, which no adoption touches
	list                []driver.ISCSITarget
	wrote               bool
}

func (a *attaching) ISCSIRoom() driver.ISCSIRoom { return driver.ISCSIRoom{Paths: 2} }

func (a *attaching) ISCSIBoot(context.Context, *node.Document) ([]driver.ISCSITarget, error) {
	return a.list, nil
}

func (a *attaching) SetISCSIBoot(_ context.Context, f driver.Fence, _ *node.Document, target driver.ISCSITarget) error {
	a.list, a.wrote = []driver.ISCSITarget{target}, true
	return f.Check()
}

func (a *attaching) ClearISCSIBoot(_ context.Context, f driver.Fence, _ *node.Document) error {
	a.list, a.wrote = nil, true
	return f.Check()
}
