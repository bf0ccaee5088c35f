package conductor

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// raid has one step, which does nothing.
type raid struct{ driver.RAID }

func (raid) Properties() map[string]string { return nil }
func (raid) Validate(*node.Document) error { return nil }
func (raid) NamedSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "raid", Name: "create", Kind: driver.Repeatable, Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
		return driver.Done(), nil
	}}}
}

// What a ramdisk has found of disks is told with its inventory, for later boots to be compared with.
// A BMC's inventory tells nothing of them. A step of the RAID is known to the steps behind it.
func TestFoundDisksAreTold(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"a ramdisk's":                             {`{"disks":[{"name":"/dev/sda","size":7,"serial":"S1","wwn":"0x1"},{"name":"/dev/sdb","size":9,"ironyard_removable":true}]}`, `[["S1","0x1",7]]`},
		"a ramdisk's that finds none":             {`{"disks":[]}`, `[]`},
		"a ramdisk's that finds a stick":          {`{"disks":[{"name":"/dev/sdb","size":9,"ironyard_removable":true}]}`, `[]`},
		"a ramdisk's that tells nothing":          {`{}`, `null`},
		"a ramdisk's that tells nothing readable": {`{"disks":[{"name":"/dev/sda"}]}`, `null`},
		"a BMC's": {"", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var before, behind string
			step := func(name string, run func(*driver.Task)) driver.Step {
				return driver.Step{Interface: "deploy", Name: name, Kind: driver.Repeatable, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
					run(t)
					return driver.Done(), nil
				}}
			}
			m := &machine{power: driver.PowerOn, clean: []driver.Step{
				step("look", func(task *driver.Task) {
					inv := agentapi.Inventory{Disks: []agentapi.Disk{{Name: "/dev/sda", Size: 7}}}
					if c.sent != "" {
						if err := inv.Read(json.RawMessage(c.sent), nil); err != nil {
							t.Error(err)
						}
					}
					task.Record.Inventory(inv)
					before = task.Facts[driver.FactRAID]
				}),
				step("erase", func(task *driver.Task) { behind = task.Facts[driver.FactRAID] }),
			}}
			s := newShelf()
			oneNode(s)
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
				named := []driver.Named{{Name: "x", Impl: m}}
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
					"power": named, "management": named, "boot": named, "deploy": named, "raid": {{Name: "x", Impl: raid{}}}}})
				if err != nil {
					t.Fatal(err)
				}
				cfg.Hardware = reg
			})
			defer kill()
			s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "look"}, {Interface: "raid", Step: "create"}, {Interface: "deploy", Step: "erase"}}})
			time.Sleep(time.Minute)
			synctest.Wait()
			told := 0
			for _, e := range s.events {
				if e.Kind == work.InventoryFound {
					if told++; string(e.Internal[node.DisksKey]) != c.want {
						t.Errorf("%s: told %s, want %s", name, e.Internal[node.DisksKey], c.want)
					}
				}
			}
			if told != 1 || before != "" || behind != "create" {
				t.Errorf("%s: told %d times; a RAID step is known before it as %q, behind it as %q: %+v", name, told, before, behind, s.Work(nodeA).Doc.Result)
			}
		})
	}
}
