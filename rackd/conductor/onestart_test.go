package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bootguard"
	"github.com/ironyard/ironyard/rackd/driver"
)

// clearable is a machine whose BMC takes back a boot device for one start. Its firmware uses none up.
type clearable struct{ *bootable }

func (c clearable) ClearOneStart(_ context.Context, f driver.Fence, _ *node.Document) error {
	if err := f.Check(); err != nil {
		return err
	}
	c.device = ""
	return nil
}

// A request sets a boot device for one start, and the machine's firmware does not use it up. After a start that a request for power has
// asked for it is taken back. Without such a start it stays, and so it does where a request or a flow may have set it since.
func TestADeviceThatFirmwareDoesNotUseUp(t *testing.T) {
	boot := func(device string, lasts bool) string {
		return fmt.Sprintf(`{"boot_device":%q,"persistent":%t}`, device, lasts)
	}
	for name, c := range map[string]struct {
		power driver.PowerState
		noOff bool
		set   string // for all starts
		// does are requests in turn: boot devices, power targets, verbs of flows, or "later", which lets 25 minutes pass.
		does  []string
		keeps string
		told  string
	}{
		"a start":                 {driver.PowerOff, false, "", []string{boot("cdrom", false), "power on", "later"}, "", "it was taken back"},
		"a reboot":                {driver.PowerOn, false, "", []string{boot("cdrom", false), "rebooting", "later"}, "", "it was taken back"},
		"a reset":                 {driver.PowerOn, true, "", []string{boot("cdrom", false), "rebooting", "later"}, "", "it was taken back"},
		"with one for all starts": {driver.PowerOff, false, "disk", []string{boot("cdrom", false), "power on", "later"}, "disk", "disk, which was set for all starts, was set again"},
		"no start":                {driver.PowerOff, false, "", []string{boot("cdrom", false), "later"}, "cdrom", ""},
		"it is on already":        {driver.PowerOn, false, "", []string{boot("cdrom", false), "power on", "later"}, "cdrom", ""},
		"it is only switched off": {driver.PowerOn, false, "", []string{boot("cdrom", false), "power off", "later"}, "cdrom", ""},
		"in its firmware":         {driver.PowerOff, false, "", []string{boot("cdrom", false), "power on"}, "cdrom", ""},
		"for the next start":      {driver.PowerOff, false, "", []string{"power on", "later", boot("cdrom", false), "later"}, "cdrom", ""},
		"set again since":         {driver.PowerOff, false, "", []string{boot("cdrom", false), "power on", boot("cdrom", false), "later"}, "cdrom", ""},
		"a flow since":            {driver.PowerOff, false, "", []string{boot("cdrom", false), "power on", string(work.Manage), "later"}, "cdrom", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].BootSet, s.nodes[nodeA].DisablePowerOff = c.set, c.noOff
				m := &bootable{machine: &machine{power: c.power}, device: c.set, lasts: true}
				con, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, func(cfg *Config) {
					named := []driver.Named{{Name: "m", Impl: m}}
					reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": {{Name: "c", Impl: clearable{m}}}, "boot": named, "deploy": named}})
					if err != nil {
						t.Fatal(err)
					}
					cfg.Hardware = reg
				})
				defer kill()
				synctest.Wait()
				time.Sleep(time.Minute)
				for _, do := range c.does {
					switch {
					case do == "later":
						time.Sleep(25 * time.Minute)
					case strings.HasPrefix(do, "{"):
						if a := answersOf(con).Answer(t.Context(), ask.Request{Method: ask.SetBootDevice, Node: nodeA, Args: json.RawMessage(do)}); a.Error != nil {
							t.Fatalf("%s: %+v", do, a.Error)
						}
					default:
						verb, args, entry := work.Power, work.Args{PowerTarget: do}, provision.Available
						if do == string(work.Manage) {
							verb, args, entry = work.Manage, work.Args{}, provision.Verifying
						}
						s.request(nodeA, verb, entry, args)
						time.Sleep(10 * time.Second)
						synctest.Wait()
						if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK {
							t.Fatalf("%s: %+v", do, d.Result)
						}
					}
				}
				n, hw, err := con.Idle(nodeA)
				if err != nil || n == nil {
					t.Fatalf("%v, %v", n, err)
				}
				if err := bootguard.Task(time.Hour, con).Do(t.Context(), n, hw); err != nil {
					t.Fatal(err)
				}
				var lines []string
				for _, e := range s.observed() {
					for _, l := range e.Before {
						lines = append(lines, l.Detail)
					}
				}
				if text := strings.Join(lines, "\n"); m.device != c.keeps || (text != "") != (c.told != "") || !strings.Contains(text, c.told) {
					t.Errorf("it boots from %q, want %q; the history says %q, want %q", m.device, c.keeps, lines, c.told)
				}
			})
		})
	}
}
