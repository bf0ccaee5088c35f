package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// bootable is a machine that keeps its boot device.
type bootable struct {
	*machine
	device  string
	lasts   bool
	refuses bool
	// setting is called once a device may be set, and before it is.
	setting func()
	// reading is called once a read of the device has its answer.
	reading func()
}

func (b *bootable) BootDevice(context.Context, *node.Document) (ask.BootDevice, error) {
	found := ask.BootDevice{Device: b.device, Persistent: new(bool)}
	*found.Persistent = b.lasts
	if b.reading != nil {
		b.reading()
	}
	return found, nil
}

func (b *bootable) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, d driver.BootDevice, lasts bool) error {
	if b.refuses {
		return driver.ErrUnsupported
	}
	err := b.machine.SetBootDevice(ctx, f, n, d, lasts)
	if err == nil {
		if b.setting != nil {
			b.setting()
		}
		b.device, b.lasts = string(d), lasts
	}
	return err
}

// The guard leaves a boot device that a request has set, although central has not yet taken in that it was set. Once central has, the
// guard holds that one.
func TestTheGuardKnowsOfRequests(t *testing.T) {
	const disk, pxe, cdrom = "disk", "pxe", "cdrom"
	for name, c := range map[string]struct {
		// asked for in turn; within: while the guard is between its read and its write.
		asked   []string
		once    bool
		within  bool
		refuses bool
		// documents are the devices of those that come afterwards, and keeps what the machine boots from after the guard's look at each.
		documents, keeps []string
	}{
		"one":                        {asked: []string{pxe}, documents: []string{disk, pxe}, keeps: []string{pxe, pxe}},
		"two":                        {asked: []string{pxe, cdrom}, documents: []string{disk, pxe, cdrom}, keeps: []string{cdrom, cdrom, cdrom}},
		"one, and another by a flow": {asked: []string{pxe}, documents: []string{disk, cdrom}, keeps: []string{pxe, cdrom}},
		"within a look":              {asked: []string{pxe}, within: true, documents: []string{disk, pxe}, keeps: []string{pxe, pxe}},
		"for one start, within":      {asked: []string{pxe}, once: true, within: true, documents: []string{disk}, keeps: []string{pxe}},
		"one that is refused":        {asked: []string{pxe}, refuses: true, documents: []string{disk}, keeps: []string{disk}},
	} {
		for _, state := range []provision.State{provision.Active, provision.Available, provision.Manageable} {
			t.Run(name+", "+string(state), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newShelf()
					oneNode(s)
					s.nodes[nodeA].State, s.nodes[nodeA].BootSet = state, disk
					m := &bootable{machine: &machine{power: driver.PowerOn}, device: disk, lasts: true}
					con, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, func(c *Config) {
						named := []driver.Named{{Name: "m", Impl: m}}
						reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named}})
						if err != nil {
							t.Fatal(err)
						}
						c.Hardware = reg
					})
					defer kill()
					synctest.Wait()
					look := func() {
						n, hw, err := con.Idle(nodeA)
						if err != nil || n == nil {
							t.Fatalf("%v, %v", n, err)
						}
						if err := bootguard.Task(time.Hour, con).Do(t.Context(), n, hw); err != nil {
							t.Error(err)
						}
					}
					request := func() {
						m.reading = nil
						for _, device := range c.asked {
							raw := json.RawMessage(fmt.Sprintf(`{"boot_device":%q,"persistent":%t}`, device, !c.once))
							m.refuses = c.refuses
							a := answersOf(con).Answer(t.Context(), ask.Request{Method: ask.SetBootDevice, Node: nodeA, Args: raw})
							if m.refuses = false; (a.Error != nil) != c.refuses {
								t.Errorf("%+v", a.Error)
							}
						}
					}
					look()
					time.Sleep(5 * time.Minute) // it is this rackd's for long
					if c.within {
						m.device = "" // forgotten
						m.reading = request
						look()
					} else {
						request()
					}
					if c.refuses {
						m.device = ""
						time.Sleep(time.Hour) // until the next look
					}
					for i, device := range c.documents {
						changed := *s.nodes[nodeA]
						changed.BootSet = device
						s.put(&changed)
						look()
						if m.device != c.keeps[i] {
							t.Errorf("with the document of %s: it boots from %q, want %q; written %v", device, m.device, c.keeps[i], m.written())
						}
					}
					if c.once {
						return
					}
					// What was asked for is known everywhere now, so a BMC that forgets is told again.
					m.device = ""
					look()
					if want := c.keeps[len(c.keeps)-1]; m.device != want {
						t.Errorf("a BMC that has forgotten boots from %q, want %q", m.device, want)
					}
					if told := s.observed(); !c.refuses && !slices.ContainsFunc(told, func(e work.Event) bool { return e.Hardware != nil && e.Hardware.BootSet != nil }) {
						t.Error("the device is not reported")
					}
				})
			})
		}
	}
}

// A request sets a boot device by a rackd that loses the node: after the request, or between the write at the BMC and its report. The guard
// of the rackd that has the node then knows of no request. Nor does that of a rackd which was started again. It leaves the device until
// central has taken it in, and holds it from then on. A BMC that has forgotten its device is told again at once.
func TestTheGuardOfTheNextOwnerKnowsOfRequests(t *testing.T) {
	const disk, pxe = "disk", "pxe"
	for name, c := range map[string]struct {
		next   string // owner
		within bool   // the request
		forgot bool
	}{
		"after the request":                 {next: "b"},
		"within the request":                {next: "b", within: true},
		"the same rackd, started again":     {next: "a"},
		"the BMC has forgotten":             {next: "b", forgot: true},
		"within the request, and forgotten": {next: "b", within: true, forgot: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].State, s.nodes[nodeA].BootSet = provision.Active, disk
				m := &bootable{machine: &machine{power: driver.PowerOn}, device: disk, lasts: true}
				owner := owned("a")
				rackd := func(name string) (look func(), con *Conductor, kill func()) {
					con, _, kill = conductorOn(t, s, name, owner, m.machine, func(cfg *Config) {
						named := []driver.Named{{Name: "m", Impl: m}}
						reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named}})
						if err != nil {
							t.Fatal(err)
						}
						cfg.Hardware = reg
					})
					task := bootguard.Task(time.Hour, con)
					return func() {
						t.Helper()
						n, hw, err := con.Idle(nodeA)
						if err != nil || n == nil {
							t.Fatalf("%v, %v", n, err)
						}
						if err := task.Do(t.Context(), n, hw); err != nil {
							t.Error(err)
						}
					}, con, kill
				}
				look, first, kill := rackd("a")
				synctest.Wait()
				look()
				time.Sleep(time.Hour)
				move := func() { owner.Store(c.next) }
				if c.within {
					m.setting = move
				}
				a := answersOf(first).Answer(t.Context(), ask.Request{Method: ask.SetBootDevice, Node: nodeA, Args: json.RawMessage(`{"boot_device":"pxe","persistent":true}`)})
				m.setting = nil
				if a.Error != nil {
					t.Fatalf("%+v", a.Error)
				}
				move()
				if c.next == "a" {
					kill()
				} else {
					defer kill()
				}
				next, _, end := rackd(c.next)
				defer end()
				synctest.Wait()
				want := pxe
				if c.forgot {
					m.device, want = "", disk
				}
				next()
				if m.device != want {
					t.Errorf("before central has taken it in, it boots from %q, want %q; written %v", m.device, want, m.written())
				}
				var told bool
				for _, e := range s.observed() {
					told = told || e.Hardware != nil && e.Hardware.BootSet != nil && *e.Hardware.BootSet == pxe
				}
				if !told {
					t.Error("the device that was asked for is not reported")
				}
				changed := *s.nodes[nodeA]
				changed.BootSet = pxe
				s.put(&changed)
				time.Sleep(time.Hour)
				next()
				m.device = ""
				next()
				if m.device != pxe {
					t.Errorf("once central has taken it in, it boots from %q, want %q; written %v", m.device, pxe, m.written())
				}
				// What was set by hand at the BMC, without a request, is taken back as before.
				m.device = "cdrom"
				next()
				if m.device != pxe {
					t.Errorf("it boots from %q, which no request has set", m.device)
				}
			})
		})
	}
}
