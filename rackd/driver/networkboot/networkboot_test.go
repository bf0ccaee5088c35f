package networkboot

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
)

var _, _ driver.Boot = Interface{}, Scripted{}

func TestBootsThenInstance(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.Properties = map[string]any{"capabilities": "boot_mode:bios"}
	b := IPXE()
	task := r.Task(b)
	if err := b.PrepareRamdisk(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if task.Facts[driver.FactBoot] != driver.BootRamdisk {
		t.Errorf("facts %v", task.Facts)
	}
	if err := b.PrepareInstance(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if task.Facts[driver.FactBoot] != driver.BootInstance {
		t.Errorf("facts %v", task.Facts)
	}
	if want := []string{"mode bios", "boot pxe false", "boot disk true"}; !slices.Equal(r.Log, want) {
		t.Errorf("writes %q, want %q", r.Log, want)
	}
	if err := b.CleanUpInstance(t.Context(), task); err != nil || task.Facts[driver.FactBoot] != "" {
		t.Errorf("%v, facts %v", err, task.Facts)
	}
}

// A machine whose instance is on its disk asks the network at each start, where the instance asks for that.
func TestNetboot(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.InstanceInfo = map[string]any{"capabilities": "boot_option:netboot"}
	if err := IPXE().PrepareInstance(t.Context(), r.Task(IPXE())); err != nil {
		t.Fatal(err)
	}
	if want := []string{"boot pxe true"}; !slices.Equal(r.Log, want) {
		t.Errorf("writes %q, want %q", r.Log, want)
	}
	if o := IPXE().InstanceOrder(r.Node, nil); !o.Disk {
		t.Errorf("it is told %+v", o)
	}
}

func TestForcedPersistence(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.DriverInfo = map[string]any{persistField: "Always"}
	if err := PXE().PrepareRamdisk(t.Context(), r.Task(PXE())); err != nil {
		t.Fatal(err)
	}
	if want := []string{"boot pxe true"}; !slices.Equal(r.Log, want) {
		t.Errorf("writes %q, want %q", r.Log, want)
	}
}

func TestOutcomesOfWrites(t *testing.T) {
	for name, c := range map[string]struct {
		fails  error
		writes int
		want   error
	}{
		"unknown":     {driver.ErrUnknown, 3, driver.ErrUnknown},
		"unsupported": {driver.ErrUnsupported, 1, nil},
		"denied":      {driver.ErrDenied, 1, driver.ErrDenied},
	} {
		r := drivertest.NewRig()
		r.Fail = func(call string) error {
			if call == "set_boot_device" {
				return c.fails
			}
			return nil
		}
		err := IPXE().PrepareInstance(t.Context(), r.Task(IPXE()))
		if !errors.Is(err, c.want) || len(r.Log) != c.writes {
			t.Errorf("%s: %v after writes %q", name, err, r.Log)
		}
	}
}

func TestValidateNeedsABootPort(t *testing.T) {
	n := drivertest.NewRig().Node
	if err := IPXE().Validate(n); err != nil {
		t.Error(err)
	}
	n.Ports[0].PXEEnabled = false
	if err := IPXE().Validate(n); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("no boot port: %v", err)
	}
	n = &node.Document{UUID: "u", DriverInfo: map[string]any{persistField: "Sometimes"}}
	if err := IPXE().Validate(n); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("bad field: %v", err)
	}
}

// A tenant's parameters do not say whom the agent calls.
func TestValidateParams(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "%default% console=ttyS0 quiet ipa-debug=1": true, `foo="a b"`: false, `foo="ab"`: true,
		"quiet ipa-api-url=https://evil.example": false, "ironyard-api-fingerprint=00": false, "BOOTIF=01-00": false, "initrd=x": false,
		"ipa-guard-special-filesystems=false": false, "ipa-insecure=1": false, `"ipa-api-url=https://evil"`: false, `x="`: false,
		"a=${net0/mac}": false, "a=b|c": false, "a#b": false, `a=b\c`: false, "a && b": false, "a&b": true, "caf\u00e9": false, "a\x00": false, "a\tb\nc": true,
		strings.Repeat("x", 801): false, strings.Repeat("x", 800): true,
	} {
		for _, place := range []func(*node.Document) *map[string]any{
			func(n *node.Document) *map[string]any { return &n.DriverInfo }, func(n *node.Document) *map[string]any { return &n.InstanceInfo }} {
			n := drivertest.NewRig().Node
			*place(n) = map[string]any{ownramdisk.ParamsField: text}
			if err := IPXE().Validate(n); (err == nil) != ok || err != nil && !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%.60q: %v", text, err)
			}
		}
	}
}

func TestParamsAreAText(t *testing.T) {
	n := drivertest.NewRig().Node
	n.InstanceInfo = map[string]any{ownramdisk.ParamsField: []any{"quiet"}}
	if err := IPXE().Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "[quiet]: give a text") {
		t.Errorf("a list: %v", err)
	}
	n.InstanceInfo[ownramdisk.ParamsField] = nil
	if err := IPXE().Validate(n); err != nil {
		t.Error(err)
	}
}

func withFiles(kernel, ramdisk string) *drivertest.Rig {
	r := drivertest.NewRig()
	r.Node.DriverInfo = map[string]any{ownramdisk.KernelField: kernel, ownramdisk.RamdiskField: ramdisk}
	return r
}

func TestOwnKernelAndRamdiskAreCachedBeforeTheMachineIsTouched(t *testing.T) {
	r := withFiles("http://files/k", "tftp://files/r")
	task := r.Task(IPXE())
	task.Facts[driver.FactRamdisk] = "of an earlier boot"
	if err := IPXE().PrepareRamdisk(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if _, stale := task.Facts[driver.FactRamdisk]; task.Facts[driver.FactKernel] != "id of http://files/k" || stale {
		t.Errorf("facts %v", task.Facts)
	}
	r = withFiles("http://files/k", "http://files/r")
	r.Fail = func(call string) error {
		if call == "latest http://files/r" {
			return driver.ErrUnreachable
		}
		return nil
	}
	if err := IPXE().PrepareRamdisk(t.Context(), r.Task(IPXE())); !errors.Is(err, driver.ErrUnreachable) || len(r.Log) != 0 {
		t.Errorf("%v after writes %q, want ErrUnreachable and none", err, r.Log)
	}
}

func TestValidateOwnKernelAndRamdisk(t *testing.T) {
	for _, c := range []struct {
		kernel, ramdisk string
		ok              bool
	}{
		{"", "", true},
		{"http://files/k", "https://files/r", true},
		{"file:///srv/k", "tftp://files/r", true},
		{"http://files/k", "", false},
		{"", "http://files/r", false},
		{"http://files/k", "0f6d1c1e-9d5e-4bdb-a2a2-3c9d21c0a001", false}, // Glance is not known here
		{"http:///k", "http://files/r", false},
		{"http://user:secret@files/k", "http://files/r", false},
	} {
		err := IPXE().Validate(withFiles(c.kernel, c.ramdisk).Node)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q and %q: %v", c.kernel, c.ramdisk, err)
		}
	}
}

// What an instance asks for goes before what its node does; the rackd's own parameters are
// there without being asked for.
func TestParams(t *testing.T) {
	for _, c := range []struct {
		driver, instance map[string]any
		state            provision.State
		want             []string
	}{
		{nil, nil, provision.DeployWait, nil},
		{map[string]any{ownramdisk.ParamsField: "%default% ipa-insecure=1  quiet"}, nil, provision.CleanWait, []string{"ipa-insecure=1", "quiet"}},
		{map[string]any{ownramdisk.ParamsField: "a"}, map[string]any{ownramdisk.ParamsField: "b"}, provision.Deploying, []string{"b"}},
		{map[string]any{ownramdisk.ParamsField: "a"}, map[string]any{ownramdisk.ParamsField: "b"}, provision.DeployHold, []string{"b"}},
		{map[string]any{ownramdisk.ParamsField: "a"}, map[string]any{ownramdisk.ParamsField: "b"}, provision.RescueWait, []string{"b"}},
	} {
		if got := ownramdisk.Load(&node.Document{DriverInfo: c.driver, InstanceInfo: c.instance, State: c.state}, nil).Params; !slices.Equal(got, c.want) {
			t.Errorf("driver_info %v, instance_info %v in %s: %q, want %q", c.driver, c.instance, c.state, got, c.want)
		}
	}
}

// What an instance asks for boots no cleaning, inspection or service: there its user would hide disks from what comes after it.
func TestAnInstancesParamsEndWithIt(t *testing.T) {
	for _, s := range []provision.State{provision.Deleting, provision.Cleaning, provision.CleanWait, provision.CleanHold, provision.Inspecting, provision.InspectWait,
		provision.Servicing, provision.ServiceWait, provision.ServiceHold, provision.Active} {
		n := &node.Document{DriverInfo: map[string]any{ownramdisk.ParamsField: "a"}, InstanceInfo: map[string]any{ownramdisk.ParamsField: "module_blacklist=nvme"}, State: s}
		if o := IPXE().RamdiskOrder(n, nil); !slices.Equal(o.Load.Params, []string{"a"}) {
			t.Errorf("in %s: %q", s, o.Load.Params)
		}
	}
}

// An operator may keep a module from the ramdisk. An instance may not: its disks could be hidden.
func TestHidingParamsAreTheOperators(t *testing.T) {
	for _, p := range []string{"module_blacklist=nvme,ahci", "modprobe.blacklist=nvme", "initcall_blacklist=ahci_pci_driver_init", "init=/bin/sh", "rdinit=/bin/sh",
		"libata.force=disable", "scsi_mod.scan=none", `"Module-Blacklist=nvme"`} {
		n := drivertest.NewRig().Node
		n.DriverInfo = map[string]any{ownramdisk.ParamsField: "quiet " + p}
		if err := IPXE().Validate(n); err != nil {
			t.Errorf("driver_info %s: %v", p, err)
		}
		n.DriverInfo, n.InstanceInfo = nil, map[string]any{ownramdisk.ParamsField: "quiet " + p}
		if err := IPXE().Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "give it in driver_info") {
			t.Errorf("instance_info %s: %v", p, err)
		}
	}
}

// A machine's own files are named as the facts of its work have them, and travel as its boot interface says.
func TestOrders(t *testing.T) {
	n := &node.Document{DriverInfo: map[string]any{ownramdisk.KernelField: "http://x/k", ownramdisk.RamdiskField: "tftp://x/r", ownramdisk.ParamsField: "quiet"}}
	facts := map[string]string{driver.FactKernel: "sha256-k"}
	for _, c := range []struct {
		boot     Scripted
		overTFTP bool
	}{{IPXE(), false}, {PXE(), true}} {
		o := c.boot.RamdiskOrder(n, facts)
		want := bootorder.Load{Kernel: bootorder.File{URL: "http://x/k", ID: "sha256-k"}, Initramfs: bootorder.File{URL: "tftp://x/r"}, Params: []string{"quiet"}}
		if !o.Boots() || !reflect.DeepEqual(*o.Load, want) || o.OverTFTP != c.overTFTP {
			t.Errorf("ramdisk: %+v, %+v", o, o.Load)
		}
		if o := c.boot.InstanceOrder(n, facts); !o.Disk || o.OverTFTP != c.overTFTP {
			t.Errorf("instance: %+v", o)
		}
	}
}

// A rescue boots the files that are for rescues, the node's own or the rack's, and none of deploys.
func TestRescueHasFilesOfItsOwn(t *testing.T) {
	own := map[string]any{ownramdisk.RescueKernel: "http://x/rk", ownramdisk.RescueRamdisk: "http://x/rr"}
	deploys := map[string]any{ownramdisk.KernelField: "http://x/k", ownramdisk.RamdiskField: "http://x/r"}
	for _, c := range []struct {
		info            map[string]any
		state           provision.State
		kernel, ramdisk string
		rescue          bool
	}{
		{own, provision.Rescuing, "http://x/rk", "http://x/rr", true},
		{own, provision.RescueWait, "http://x/rk", "http://x/rr", true},
		{own, provision.Deploying, "", "", false},
		{deploys, provision.Rescuing, "", "", true},
		{deploys, provision.CleanWait, "http://x/k", "http://x/r", false},
	} {
		o := IPXE().RamdiskOrder(&node.Document{DriverInfo: c.info, State: c.state}, nil)
		if o.Load.Kernel.URL != c.kernel || o.Load.Initramfs.URL != c.ramdisk || o.Load.Rescue != c.rescue {
			t.Errorf("%v in %s: %+v", c.info, c.state, o.Load)
		}
	}
	for _, c := range []struct {
		info  map[string]any
		racks bool
		want  string
	}{
		{own, false, ""}, {nil, true, ""}, {nil, false, "--rescue-ramdisk"}, {map[string]any{ownramdisk.RescueKernel: "http://x/rk"}, true, "only one"},
		{map[string]any{ownramdisk.RescueKernel: "ftp://x/rk", ownramdisk.RescueRamdisk: "http://x/rr"}, true, ownramdisk.RescueKernel},
	} {
		err := IPXE().Of(rack(bootfiles.Paths{Kernel: "k", Ramdisk: "r", RescueRamdisk: map[bool]string{true: "rr"}[c.racks]})).ValidateRescue(&node.Document{UUID: "u", DriverInfo: c.info})
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, rack %t: %v, want %q", c.info, c.racks, err, c.want)
		}
	}
}

// A flow that has set one device for all starts and then that which the node's document shows since before tells of the last one. A guard
// would set the first again.
func TestTheLastBootDeviceIsTold(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.DriverInfo, r.Node.BootSet = map[string]any{persistField: "Always"}, "disk"
	k := r.Task(IPXE())
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return IPXE().PrepareRamdisk(t.Context(), k) }, "pxe"},
		{func() error { return IPXE().PrepareInstance(t.Context(), k) }, "disk"},
	} {
		if err := step.do(); err != nil || r.Observed.BootSet == nil || *r.Observed.BootSet != step.want {
			t.Errorf("%v, told of %v, want %s", err, r.Observed.BootSet, step.want)
		}
	}
}

// Where the node's field has the instance's device set for one start, the one that a request has set for all before is held no more. The
// ramdisk's is set for one start in any case, and says nothing of what is held.
func TestADeviceForOneStartEndsTheOneOfBefore(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.DriverInfo, r.Node.BootSet = map[string]any{persistField: "Never"}, "pxe"
	k := r.Task(IPXE())
	if err := IPXE().PrepareRamdisk(t.Context(), k); err != nil || r.Observed.BootSet != nil {
		t.Errorf("ramdisk: %v, told of %v", err, r.Observed.BootSet)
	}
	if err := IPXE().PrepareInstance(t.Context(), k); err != nil || r.Observed.BootSet == nil || *r.Observed.BootSet != "" || k.LastBootSet() != "" {
		t.Errorf("instance: %v, told of %v, last %q", err, r.Observed.BootSet, k.LastBootSet())
	}
	if want := []string{"boot pxe false", "boot disk false"}; !slices.Equal(r.Log, want) {
		t.Errorf("writes %q, want %q", r.Log, want)
	}
}

// A machine that asked the network for its instance asks there after it, and is told nothing. It is not sent to the disk, which may hold
// what the instance has left.
func TestAMachineAsksTheNetworkAfterItsInstance(t *testing.T) {
	for name, b := range map[string]Scripted{"ipxe": IPXE(), "ilo-pxe": PXE().ByFirmware()} {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = map[string]any{"capabilities": "boot_option:netboot"}
		k := r.Task(b)
		if err := b.PrepareInstance(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if err := driver.TakeBackInstance(t.Context(), k); err != nil || k.Facts[driver.FactBoot] != "" {
			t.Errorf("%s: %v, it is told of %q", name, err, k.Facts[driver.FactBoot])
		}
		if want := []string{"boot pxe true"}; !slices.Equal(r.Log, want) || k.LastBootSet() != driver.BootPXE {
			t.Errorf("%s: writes %q, want %q; set is %s", name, r.Log, want, k.LastBootSet())
		}
	}
}
