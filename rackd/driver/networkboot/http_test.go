package networkboot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

var both = rack(bootfiles.Paths{Kernel: "k", Ramdisk: "r", UKI: "u", RescueUKI: "ru"})

// ofClass is a rack that has all, and for the class gpu a kernel and a ramdisk alone, or a program alone.
func ofClass(has string) *rackramdisk.Shelf {
	more := rackramdisk.Ramdisk{Class: "gpu", Kernel: "k2", Initramfs: "r2"}
	if has == "uki" {
		more = rackramdisk.Ramdisk{Class: "gpu", UKI: "u2"}
	}
	return rack(bootfiles.Paths{Kernel: "k", Ramdisk: "r", UKI: "u"}, more)
}

// rack is a rack with these files, which no test here opens.
func rack(own bootfiles.Paths, more ...rackramdisk.Ramdisk) *rackramdisk.Shelf {
	s, err := rackramdisk.New(own, more)
	if err != nil {
		panic(err)
	}
	return s
}

// booter is management that has firmware boot by HTTP.
type booter struct {
	driver.Management
	log  *[]string
	fail error
}

func (b booter) SetHTTPBoot(_ context.Context, f driver.Fence, _ *node.Document, url string, persistent bool) error {
	if err := f.Check(); err != nil || b.fail != nil {
		return errors.Join(err, b.fail)
	}
	*b.log = append(*b.log, "http boot "+url+" "+map[bool]string{true: "for good", false: "once"}[persistent])
	return nil
}

// The firmware is told to boot what DHCP says. Where the BMC cannot tell it, the machine boots by PXE.
func TestFirmwareBootsByHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		fail error
		want string
	}{
		"by the BMC":           {nil, "http boot  once"},
		"the BMC knows no way": {driver.ErrUnsupported, "boot pxe false"},
	} {
		r := drivertest.NewRig()
		task := r.Task(HTTP(both))
		kind := fake.New(fake.Options{}).Type()
		kind.Interfaces["boot"] = []driver.Named{{Name: "http", Impl: HTTP(both)}}
		kind.Interfaces["management"] = []driver.Named{{Name: "bmc", Impl: booter{task.Hardware.Management(), &r.Log, c.fail}}}
		types, err := driver.NewRegistry(kind)
		if err != nil {
			t.Fatal(err)
		}
		r.Node.Driver, r.Node.Interfaces = kind.Name, nil
		if task.Hardware, err = types.Resolve(r.Node); err != nil {
			t.Fatal(err)
		}
		if err := HTTP(both).PrepareRamdisk(t.Context(), task); err != nil || !slices.Contains(r.Log, c.want) {
			t.Errorf("%s: %v, writes %q", name, err, r.Log)
		}
		if task.Facts[driver.FactBoot] != driver.BootRamdisk {
			t.Errorf("%s: facts %v", name, task.Facts)
		}
	}
}

func TestOrdersForFirmware(t *testing.T) {
	n := drivertest.NewRig().Node
	if o := HTTP(both).RamdiskOrder(n, nil); !o.Boots() || !o.Direct {
		t.Errorf("http, ramdisk: %+v", o)
	}
	if o := HTTP(both).InstanceOrder(n, nil); !o.Disk || !o.Direct {
		t.Errorf("http, instance: %+v", o)
	}
	if o := HTTPIPXE().RamdiskOrder(n, nil); !o.Boots() || o.Direct || o.OverTFTP {
		t.Errorf("http-ipxe, ramdisk: %+v", o)
	}
}

func TestWhatAProgramCannotHoldIsRefused(t *testing.T) {
	for _, c := range []struct {
		boot             Interface
		driver, instance map[string]any
		mode, want       string
	}{
		{HTTP(both), nil, nil, "uefi", ""},
		{HTTPIPXE().Interface, nil, nil, "uefi", ""},
		{HTTP(both), nil, nil, "bios", "only UEFI firmware"},
		{HTTPIPXE().Interface, nil, nil, "bios", "only UEFI firmware"},
		{HTTP(nil), nil, nil, "uefi", "boots no machines"},
		{IPXE().Of(ofClass("uki")).Interface, nil, nil, "uefi", "driver_info has no deploy_kernel and deploy_ramdisk, and --ramdisk-for class=gpu has no kernel= and ramdisk="},
		{PXE().Of(ofClass("uki")).Interface, map[string]any{ownramdisk.KernelField: "http://x/k", ownramdisk.RamdiskField: "http://x/r"}, nil, "uefi", ""},
		{HTTP(ofClass("uki")), nil, nil, "uefi", ""},
		{HTTP(ofClass("kernel")), nil, nil, "uefi", "--ramdisk-for class=gpu has no uki="},
		{HTTPIPXE().Of(ofClass("kernel")).Interface, nil, nil, "uefi", ""},
		{HTTP(rack(bootfiles.Paths{Kernel: "k", Ramdisk: "r"})), nil, nil, "uefi", "rackd --uki"},
		{HTTP(both), map[string]any{ownramdisk.KernelField: "http://x/k", ownramdisk.RamdiskField: "http://x/r"}, nil, "uefi", "http-ipxe"},
		{HTTPIPXE().Interface, map[string]any{ownramdisk.KernelField: "http://x/k", ownramdisk.RamdiskField: "http://x/r"}, nil, "uefi", ""},
		{HTTP(both), map[string]any{ownramdisk.ParamsField: "%default% ipa-debug=1"}, nil, "uefi", ""},
		{HTTP(both), map[string]any{ownramdisk.ParamsField: "nomodeset"}, nil, "uefi", "driver_info kernel_append_params"},
		{HTTP(both), nil, map[string]any{ownramdisk.ParamsField: "nomodeset"}, "uefi", "instance_info kernel_append_params"},
	} {
		n := drivertest.NewRig().Node
		n.DriverInfo, n.InstanceInfo, n.Properties = c.driver, c.instance, map[string]any{"capabilities": "boot_mode:" + c.mode}
		n.ResourceClass = "gpu"
		err := c.boot.Validate(n)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v, %v, %v, %s: %v, want %q", c.boot, c.driver, c.instance, c.mode, err, c.want)
		}
	}
	if err := HTTP(rack(bootfiles.Paths{UKI: "u"})).ValidateRescue(drivertest.NewRig().Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "--rescue-uki") {
		t.Errorf("a rescue without its program: %v", err)
	}
	arm := rack(bootfiles.Paths{Kernel: "k", Ramdisk: "r", UKIARM64: "ua", RescueUKIARM64: "rua"})
	for arch, c := range map[string]struct {
		has  *rackramdisk.Shelf
		want string
	}{
		"x86_64":  {arm, "uki,"},
		"aarch64": {both, "uki-arm64,"},
	} {
		n := drivertest.NewRig().Node
		n.Properties = map[string]any{"capabilities": "boot_mode:uefi", "cpu_arch": arch}
		for _, err := range []error{HTTP(c.has).Validate(n), HTTP(c.has).ValidateRescue(n)} {
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), " for "+arch) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s with %+v: %v", arch, c.has, err)
			}
		}
		delete(n.Properties, "cpu_arch")
		if err := errors.Join(HTTP(c.has).Validate(n), HTTP(c.has).ValidateRescue(n)); err != nil {
			t.Errorf("a node that names no architecture, with %+v: %v", c.has, err)
		}
	}
	if err := HTTP(both).ValidateRescue(drivertest.NewRig().Node); err != nil {
		t.Errorf("a rescue with its program: %v", err)
	}
}

// A node that asks for no boot mode keeps its machine's. One in BIOS mode is told of no boot by HTTP, which it would never do.
func TestAMachineInBIOSModeIsNotToldOfHTTP(t *testing.T) {
	for name, boot := range map[string]driver.Boot{"http": HTTP(both), "http-ipxe": HTTPIPXE()} {
		r := drivertest.NewRig()
		k := r.Task(boot)
		r.Mode, k.Node.Properties = "bios", nil
		if err := boot.Validate(k.Node); err != nil {
			t.Fatalf("%s: nothing is known of the machine yet: %v", name, err)
		}
		err := boot.PrepareRamdisk(t.Context(), k)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "its boot mode is bios") || len(r.Log) > 0 {
			t.Errorf("%s: %v, writes %q", name, err, r.Log)
		}
	}
}
