package direct

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// withMedia is a task on fake hardware with the boot interface; m, if not nil, wraps its management.
func withMedia(t *testing.T, r *drivertest.Rig, boot driver.Boot, wrap func(driver.Management) driver.Management) *driver.Task {
	t.Helper()
	kind := fake.New(fake.Options{}).Type()
	kind.Interfaces["boot"] = []driver.Named{{Name: "b", Impl: boot}}
	if wrap != nil {
		kind.Interfaces["management"] = []driver.Named{{Name: "fake", Impl: wrap(kind.Interfaces["management"][0].Impl.(driver.Management))}}
	}
	reg, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	task := r.Task(boot)
	r.Node.Driver, r.Node.Interfaces = kind.Name, nil
	r.Node.DriverInfo = map[string]any{"deploy_iso": "http://192.0.2.1/ipa.iso"}
	task.Node = r.Node
	if task.Hardware, err = reg.Resolve(r.Node); err != nil {
		t.Fatal(err)
	}
	return task
}

// What an instance's owner has put into a virtual drive does not stay for the next one, whichever drive and boot interface.
func TestAnOwnersMediumGoesWithTheInstance(t *testing.T) {
	for boot, impl := range map[string]driver.Boot{"ipxe": networkboot.IPXE(), "redfish-virtual-media": mediaboot.Interface{}} {
		for _, kind := range hardware.MediaTypes {
			t.Run(boot+" "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig()
					task := withMedia(t, r, impl, nil)
					vm := task.Hardware.Management().(driver.VirtualMedia)
					if err := vm.AttachMedia(t.Context(), task.Fence, r.Node, kind, "http://evil/config-2.iso"); err != nil {
						t.Fatal(err)
					}
					for range 2 { // a successor may do it again
						for _, s := range New(Settings{}).TearDownSteps(r.Node) {
							r.NextStep()
							if _, err := s.Run(t.Context(), task); err != nil {
								t.Fatal(s.Name, err)
							}
						}
					}
					list, err := vm.Media(t.Context(), r.Node)
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range list {
						if m.Inserted {
							t.Errorf("a drive %v holds %s", m.Types, m.Image)
						}
					}
					if got := slices.DeleteFunc(slices.Clone(r.Phases), func(p string) bool { return !strings.HasPrefix(p, "virtual media") }); len(got) != 1 || strings.Contains(got[0], "evil") {
						t.Errorf("the history says %q", got)
					}
				})
			})
		}
	}
}

// media is a BMC's virtual drives, with faults.
type media struct {
	driver.Management
	list   error
	detach error
	stays  int // looks for which an image stays that was ejected; negative: it was never there
	wrote  int
}

func (m *media) Media(context.Context, *node.Document) ([]hardware.Media, error) {
	if m.wrote > 0 {
		m.stays--
	}
	return []hardware.Media{{Types: []string{"Floppy"}}, {Types: []string{"CD", "DVD"}, Inserted: m.stays >= 0, Image: "http://evil/x.iso"}}, m.list
}

func (m *media) AttachMedia(context.Context, driver.Fence, *node.Document, string, string) error {
	return errors.New("not asked for")
}

func (m *media) DetachMedia(context.Context, driver.Fence, *node.Document, []string) error {
	m.wrote++
	return m.detach
}

func (m *media) EjectImage(context.Context, driver.Fence, *node.Document, string, func(string) bool) error {
	return nil
}

// The tear-down fails while an image stays. It writes nothing where there is none, and goes on where the BMC lists no drives.
func TestATearDownReadsItsDrivesBack(t *testing.T) {
	for name, c := range map[string]struct {
		media
		fails  string // part of the error
		writes int
		told   string // part of the history
	}{
		"all are empty":               {media: media{stays: -1}},
		"it goes":                     {media: media{stays: 0}, writes: 1, told: "virtual media: taken out of CD/DVD"},
		"it goes after a while":       {media: media{stays: 5}, writes: 1, told: "virtual media: taken out of CD/DVD"},
		"it stays":                    {media: media{stays: 100}, writes: 1, fails: "still hold an image: CD/DVD"},
		"the BMC does not eject":      {media: media{stays: 100, detach: driver.ErrUnsupported}, writes: 1, fails: "take the images out of the virtual drives (CD/DVD)"},
		"the answer is lost":          {media: media{stays: 2, detach: driver.ErrUnknown}, writes: 3, told: "virtual media: taken out of CD/DVD"},
		"the BMC is silent":           {media: media{stays: 100, list: driver.ErrUnreachable}, fails: "unreachable"},
		"it has no drives":            {media: media{stays: 100, list: driver.ErrUnsupported}},
		"it does not list its drives": {media: media{stays: 100, list: errors.New("403: no licence")}, told: "not cleaned up: the virtual drives, which the BMC does not list: 403: no licence"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				m := c.media
				task := withMedia(t, r, networkboot.IPXE(), func(of driver.Management) driver.Management { m.Management = of; return &m })
				_, err := New(Settings{}).TearDownSteps(r.Node)[0].Run(t.Context(), task)
				if (err != nil) != (c.fails != "") || err != nil && (!strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "evil")) {
					t.Errorf("error %v, want %q", err, c.fails)
				}
				if m.wrote != c.writes {
					t.Errorf("it was told to eject %d times, want %d", m.wrote, c.writes)
				}
				if all := strings.Join(r.Phases, "; "); !strings.Contains(all, c.told) || c.told == "" && strings.Contains(all, "virtual") {
					t.Errorf("the history says %q, want %q", all, c.told)
				}
			})
		})
	}
}

// What is put into a drive while a machine is cleaned after its instance is taken out with the end of the cleaning. After another
// cleaning it stays: an operator's tools are for the operator to take out.
func TestCleaningAfterAnInstanceEmptiesTheDrives(t *testing.T) {
	for name, torn := range map[string]bool{"after an instance": true, "by itself": false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			m := media{stays: 1}
			task := withMedia(t, r, networkboot.IPXE(), func(of driver.Management) driver.Management { m.Management = of; return &m })
			if torn {
				task.Facts[driver.FactTornDown] = "yes"
			}
			if _, err := New(Settings{}).Down(r.Node, driver.InClean)[0].Run(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			if (m.wrote > 0) != torn {
				t.Errorf("%s: it was told to eject %d times", name, m.wrote)
			}
		})
	}
}
