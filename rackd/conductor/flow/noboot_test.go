package flow

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/none"
	"github.com/ironyard/ironyard/rackd/driver/ramdisk"
)

// A hardware type without boot interface is deployed by what boots nothing. Each other deploy, and a cleaning by a ramdisk, is refused with
// the reason before the machine is touched. To the network the machine is told that there is nothing, or its disk.
func TestHardwareTypeWithoutBoot(t *testing.T) {
	write := direct.New(direct.Settings{})
	image := map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32)}
	for name, c := range map[string]struct {
		deploy driver.Interface
		info   map[string]any
		verb   work.Verb
		works  bool
	}{
		"noop":                   {deploy: none.Deploy{}, verb: work.Deploy, works: true},
		"noop, torn down":        {deploy: none.Deploy{}, verb: work.Delete, works: true},
		"noop, taken in":         {deploy: none.Deploy{}, verb: work.Manage, works: true},
		"an image":               {deploy: write, info: image, verb: work.Deploy},
		"custom":                 {deploy: direct.Custom{Interface: write}, verb: work.Deploy},
		"a ramdisk":              {deploy: ramdisk.New(write, bringup.Settings{}), info: map[string]any{"kernel": "http://h/k", "ramdisk": "http://h/r"}, verb: work.Deploy},
		"an image, taken in":     {deploy: write, verb: work.Manage, works: true},
		"cleaning by the agent":  {deploy: write, verb: work.Provide},
		"cleaning that has none": {deploy: none.Deploy{}, verb: work.Provide, works: true},
	} {
		r := drivertest.NewRig()
		r.Deploy, r.Node.InstanceInfo = c.deploy, c.info
		task := r.Task(nil)
		catalog := NewCatalog(Config{Log: slog.New(slog.DiscardHandler), AutomatedClean: true})
		steps, err := catalog.Steps(&work.Document{Verb: c.verb}, task)
		if err == nil {
			err = Bootable(task, steps)
		}
		for _, s := range steps {
			if err != nil {
				break
			}
			if s.Own && s.Name != "validate" {
				continue // of the conductor, which is not here
			}
			_, err = s.Run(t.Context(), task)
		}
		switch {
		case c.works && err != nil:
			t.Errorf("%s: %v", name, err)
		case !c.works && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "the hardware type rig has no boot interface")):
			t.Errorf("%s: %v, want the reason", name, err)
		case !c.works && len(r.Log) > 0:
			t.Errorf("%s: the machine was touched: %q", name, r.Log)
		}
		boot := task.Hardware.Boot()
		if o := boot.RamdiskOrder(r.Node, nil); !o.Refuses() || !strings.Contains(o.Reason, "no boot interface") {
			t.Errorf("%s: for a ramdisk the machine is told %+v", name, o)
		}
		if o := boot.InstanceOrder(r.Node, nil); !o.Disk {
			t.Errorf("%s: for its instance the machine is told %+v", name, o)
		}
	}
}
