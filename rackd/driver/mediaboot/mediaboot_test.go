package mediaboot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/outbound"
)

var _ driver.Boot = Interface{}

const (
	ramdiskISO  = "http://192.0.2.1/ipa.iso"
	instanceISO = "http://192.0.2.1/live.iso"
)

// task is work on a machine whose management has virtual media.
func task(t *testing.T, n *node.Document) *driver.Task {
	t.Helper()
	kind := fake.New(fake.Options{}).Type()
	kind.Interfaces["boot"] = []driver.Named{{Name: "redfish-virtual-media", Impl: VirtualMedia(nil)}}
	reg, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	n.Driver = kind.Name
	r := drivertest.NewRig()
	out := r.Task(VirtualMedia(nil))
	if out.Hardware, err = reg.Resolve(n); err != nil {
		t.Fatal(err)
	}
	out.Node = n
	return out
}

// state reads what is in the drives, and the boot device.
func state(t *testing.T, k *driver.Task) string {
	t.Helper()
	drives, err := k.Hardware.Management().(driver.VirtualMedia).Media(t.Context(), k.Node)
	if err != nil {
		t.Fatal(err)
	}
	var in string
	for _, d := range drives {
		if d.Inserted {
			in += d.Image + " "
		}
	}
	b, err := k.Hardware.Management().BootDevice(t.Context(), k.Node)
	if err != nil {
		t.Fatal(err)
	}
	in += b.Device
	if b.Persistent != nil && *b.Persistent {
		in += " for good"
	}
	return in
}

func TestRamdiskThenDisk(t *testing.T) {
	k := task(t, &node.Document{UUID: "u", DriverInfo: map[string]any{ownramdisk.ImageField: ramdiskISO}})
	for _, step := range []struct {
		name string
		do   func() error
		fact string
		want string
	}{
		{"ramdisk", func() error { return VirtualMedia(nil).PrepareRamdisk(t.Context(), k) }, driver.BootRamdisk, ramdiskISO + " cdrom"},
		{"again", func() error { return VirtualMedia(nil).PrepareRamdisk(t.Context(), k) }, driver.BootRamdisk, ramdiskISO + " cdrom"},
		{"instance", func() error { return VirtualMedia(nil).PrepareInstance(t.Context(), k) }, driver.BootInstance, "disk for good"},
		{"end", func() error { return VirtualMedia(nil).CleanUpInstance(t.Context(), k) }, "", "disk for good"},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := state(t, k); got != step.want || k.Facts[driver.FactBoot] != step.fact {
			t.Errorf("%s: the machine boots %q (fact %q), want %q (%q)", step.name, got, k.Facts[driver.FactBoot], step.want, step.fact)
		}
	}
}

func TestInstanceIsAnImage(t *testing.T) {
	k := task(t, &node.Document{UUID: "v", Interfaces: map[string]string{"deploy": "ramdisk"}, InstanceInfo: map[string]any{fieldInstance: instanceISO}})
	if err := VirtualMedia(nil).Validate(k.Node); err != nil {
		t.Error(err)
	}
	if err := VirtualMedia(nil).PrepareInstance(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got := state(t, k); got != instanceISO+" cdrom for good" {
		t.Errorf("the machine boots %q", got)
	}
	for range 2 {
		if err := VirtualMedia(nil).CleanUpInstance(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if got := state(t, k); got != "disk for good" {
			t.Errorf("after the instance it boots %q", got)
		}
	}
}

// A machine that firmware has load its instance's image by HTTP at each start boots its disk after the instance. So does one whose document
// alone tells what an instance before has set, which its fields no longer name.
func TestTheBootDeviceGoesWithTheInstance(t *testing.T) {
	k := task(t, &node.Document{UUID: "h", Interfaces: map[string]string{"deploy": "ramdisk"}, InstanceInfo: map[string]any{fieldInstance: instanceISO}})
	managedBy(t, k, webbed{k.Hardware.Management(), k.Hardware.Management().(driver.VirtualMedia)})
	web := HTTPBoot(nil)
	if err := web.PrepareInstance(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got := state(t, k); got != "uefihttp for good" {
		t.Fatalf("the machine boots %q", got)
	}
	if err := web.CleanUpInstance(t.Context(), k); err != nil || state(t, k) != "disk for good" {
		t.Errorf("after the instance it boots %q, %v", state(t, k), err)
	}
	for _, before := range []string{"cdrom", "uefihttp", "iscsiboot", "pxe"} {
		k := task(t, &node.Document{UUID: "d-" + before, BootSet: before})
		if err := k.Hardware.Management().SetBootDevice(t.Context(), k.Fence, k.Node, driver.BootDevice(before), true); err != nil {
			t.Fatal(err)
		}
		want := "disk for good"
		if before == "pxe" { // no instance's
			want = "pxe for good"
		}
		if err := VirtualMedia(nil).CleanUpInstance(t.Context(), k); err != nil || state(t, k) != want {
			t.Errorf("%s was set: it boots %q, want %q: %v", before, state(t, k), want, err)
		}
	}
}

// managedBy gives a task's machine another management interface.
func managedBy(t *testing.T, k *driver.Task, m driver.Management) {
	t.Helper()
	kinds := map[string][]driver.Named{}
	for kind, impl := range k.Hardware.Kinds() {
		kinds[kind] = []driver.Named{impl}
	}
	kinds["management"] = []driver.Named{{Name: "m", Impl: m}}
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: kinds})
	if err != nil {
		t.Fatal(err)
	}
	if k.Hardware, err = reg.Resolve(&node.Document{Driver: "t"}); err != nil {
		t.Fatal(err)
	}
}

// webbed is a machine whose firmware loads what it boots by HTTP.
type webbed struct {
	driver.Management
	driver.VirtualMedia
}

func (w webbed) SetHTTPBoot(ctx context.Context, f driver.Fence, n *node.Document, _ string, persistent bool) error {
	return w.SetBootDevice(ctx, f, n, driver.BootHTTP, persistent)
}

// undriven is a BMC that refuses to eject, or to set the disk as boot device.
type undriven struct {
	driver.Management
	driver.VirtualMedia
	eject, device error
}

func (u undriven) DetachMedia(ctx context.Context, f driver.Fence, n *node.Document, kinds []string) error {
	if u.eject != nil {
		return u.eject
	}
	return u.VirtualMedia.DetachMedia(ctx, f, n, kinds)
}

func (u undriven) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, d driver.BootDevice, persistent bool) error {
	if u.device != nil {
		return u.device
	}
	return u.Management.SetBootDevice(ctx, f, n, d, persistent)
}

// What a BMC refuses of an instance's end keeps the rest of it from nothing. A machine that has no disk to boot keeps its boot device, and
// the history says so.
func TestWhatCanBeTakenBackIs(t *testing.T) {
	for name, c := range map[string]struct {
		undriven
		err  error
		want string
	}{
		"no eject":  {undriven{eject: driver.ErrDenied}, driver.ErrDenied, instanceISO + " disk for good"},
		"no device": {undriven{device: driver.ErrDenied}, driver.ErrDenied, "cdrom for good"},
		"no disk":   {undriven{device: fmt.Errorf("it boots from Cd: %w", driver.ErrUnsupported)}, nil, "cdrom for good"},
	} {
		k := task(t, &node.Document{UUID: "r", Interfaces: map[string]string{"deploy": "ramdisk"}, InstanceInfo: map[string]any{fieldInstance: instanceISO}})
		if err := VirtualMedia(nil).PrepareInstance(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		sound := k.Hardware
		c.Management, c.VirtualMedia = sound.Management(), sound.Management().(driver.VirtualMedia)
		managedBy(t, k, c.undriven)
		if err := VirtualMedia(nil).CleanUpInstance(t.Context(), k); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		k.Hardware = sound
		if got := state(t, k); got != c.want {
			t.Errorf("%s: the machine boots %q, want %q", name, got, c.want)
		}
	}
}

// A BMC reads no image for a node's owner or an instance's user that rackd itself would not fetch: the BMCs' network is not theirs.
func TestTheBMCReadsNothingWithin(t *testing.T) {
	bmcs := outbound.Fetching{Refused: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}
	for at, refused := range map[string]bool{"http://10.9.0.7/redfish/v1": true, "http://127.0.0.1/": true, "http://169.254.169.254/latest": true, "http://[::ffff:10.9.0.7]/": true, instanceISO: false} {
		k := task(t, &node.Document{UUID: "b", Interfaces: map[string]string{"deploy": "ramdisk"}, InstanceInfo: map[string]any{fieldInstance: at}})
		k.Reach = bmcs.CheckURL
		err := VirtualMedia(nil).PrepareInstance(t.Context(), k)
		if got := state(t, k); refused != errors.Is(err, driver.ErrInvalid) || strings.Contains(got, at) == refused {
			t.Errorf("%s: %v, the machine boots %q", at, err, got)
		}
		for field, in := range map[string]provision.State{ownramdisk.ImageField: provision.Deploying, fieldRescue: provision.Rescuing} {
			k := task(t, &node.Document{UUID: "o", State: in, DriverInfo: map[string]any{field: at}})
			k.Reach = bmcs.CheckURL
			err := VirtualMedia(nil).PrepareRamdisk(t.Context(), k)
			if got := state(t, k); refused != errors.Is(err, driver.ErrInvalid) || strings.Contains(got, at) == refused || refused && !strings.Contains(err.Error(), field) {
				t.Errorf("%s %s: %v, the machine boots %q", field, at, err, got)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, info := range []map[string]any{nil, {ownramdisk.ImageField: "file:///ipa.iso"}, {ownramdisk.ImageField: "http:///x"}} {
		n := &node.Document{UUID: "w", Name: "web1", DriverInfo: info}
		if err := VirtualMedia(nil).Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), ownramdisk.ImageField) {
			t.Errorf("driver_info %v: %v", info, err)
		}
		if err := VirtualMedia(nil).PrepareRamdisk(t.Context(), task(t, n)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("driver_info %v: prepared with %v", info, err)
		}
	}
}

// The end of a flow takes out what the flow has put in, and nothing else: also where the BMC shows the image under a name of its own.
func TestOnlyTheRamdisksImageIsTakenOut(t *testing.T) {
	const others, rewritten = "http://192.0.2.9/tools.iso", "/nfs/cache/ipa.iso"
	for name, c := range map[string]struct {
		inserted bool   // the flow has put its image in
		shows    string // what is in the drive afterwards, as the BMC shows it; empty: as it was inserted
		want     string
	}{
		"its own":                           {inserted: true, want: "cdrom"},
		"its own, under another name":       {inserted: true, shows: rewritten, want: "cdrom"},
		"one that an operator put in":       {inserted: true, shows: others, want: others + " cdrom"},
		"one that was there, none put in":   {shows: others, want: others + " disk for good"},
		"its own, of an owner who told not": {shows: ramdiskISO, want: "disk for good"},
		"none":                              {want: "disk for good"},
	} {
		t.Run(name, func(t *testing.T) {
			k := task(t, &node.Document{UUID: name, DriverInfo: map[string]any{ownramdisk.ImageField: ramdiskISO}})
			m := k.Hardware.Management().(driver.VirtualMedia)
			if c.shows == rewritten {
				k.Hardware = withManagement(t, k, rewriting{m: m, Management: k.Hardware.Management()})
			}
			if c.inserted {
				if err := VirtualMedia(nil).PrepareRamdisk(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			if c.shows != "" && c.shows != rewritten {
				if err := m.AttachMedia(t.Context(), k.Fence, k.Node, "cdrom", c.shows); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // a successor may do it again
				if err := VirtualMedia(nil).CleanUpRamdisk(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			if got := state(t, k); got != c.want || k.Facts[driver.FactBoot] != "" {
				t.Errorf("afterwards the machine shows %q (fact %q), want %q", got, k.Facts[driver.FactBoot], c.want)
			}
			if strings.Contains(k.Facts[factImages], "192.0.2") {
				t.Errorf("a URL stands in the facts: %q", k.Facts[factImages])
			}
		})
	}
}

// rewriting is a BMC that shows images under names of its own.
type rewriting struct {
	driver.Management
	m driver.VirtualMedia
}

func (r rewriting) Media(ctx context.Context, n *node.Document) ([]hardware.Media, error) {
	list, err := r.m.Media(ctx, n)
	for i := range list {
		if list[i].Inserted {
			list[i].Image = "/nfs/cache" + list[i].Image[strings.LastIndexByte(list[i].Image, '/'):]
		}
	}
	return list, err
}

func (r rewriting) AttachMedia(ctx context.Context, f driver.Fence, n *node.Document, mediaType, url string) error {
	return r.m.AttachMedia(ctx, f, n, mediaType, url)
}

func (r rewriting) DetachMedia(ctx context.Context, f driver.Fence, n *node.Document, types []string) error {
	return r.m.DetachMedia(ctx, f, n, types)
}

func (r rewriting) EjectImage(ctx context.Context, f driver.Fence, n *node.Document, mediaType string, meant func(string) bool) error {
	list, err := r.Media(ctx, n)
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.Inserted && meant(d.Image) {
			return r.m.DetachMedia(ctx, f, n, []string{mediaType})
		}
	}
	return nil
}

// withManagement is the task's hardware with another management interface.
func withManagement(t *testing.T, k *driver.Task, m driver.Management) *driver.Hardware {
	t.Helper()
	kind := fake.New(fake.Options{}).Type()
	kind.Interfaces["boot"] = []driver.Named{{Name: "redfish-virtual-media", Impl: VirtualMedia(nil)}}
	kind.Interfaces["management"] = []driver.Named{{Name: "fake", Impl: m}}
	reg, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	hw, err := reg.Resolve(k.Node)
	if err != nil {
		t.Fatal(err)
	}
	return hw
}

// apart is a management interface whose virtual drives are boot devices of their own.
type apart struct {
	rewriting
	given *[]string
}

func (a apart) SetMediaBoot(_ context.Context, f driver.Fence, _ *node.Document, d driver.BootDevice, persistent bool) error {
	*a.given = append(*a.given, string(d))
	if persistent {
		return errors.New("for good")
	}
	return f.Check()
}

// Where a virtual drive is another boot device than a real one, it is the one that is set.
func TestVirtualDriveOfItsOwn(t *testing.T) {
	k := task(t, &node.Document{UUID: "apart", DriverInfo: map[string]any{ownramdisk.ImageField: ramdiskISO}})
	var given []string
	m := k.Hardware.Management()
	k.Hardware = withManagement(t, k, apart{rewriting{m: m.(driver.VirtualMedia), Management: m}, &given})
	if err := (Interface{}).PrepareRamdisk(t.Context(), k); err != nil || len(given) != 1 || given[0] != "cdrom" {
		t.Errorf("the ramdisk: %v, %v", given, err)
	}
	if err := (Interface{}).PrepareInstance(t.Context(), k); err != nil || len(given) != 1 {
		t.Errorf("the disk: %v, %v", given, err)
	}
}
