package mediaboot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// toldBoot notes the boot device, which may be a USB stick.
type toldBoot struct {
	driver.Management
	is ask.BootDevice
}

func (b *toldBoot) SetBootDevice(_ context.Context, f driver.Fence, _ *node.Document, d driver.BootDevice, persistent bool) error {
	b.is = ask.BootDevice{Device: string(d), Persistent: &persistent}
	return f.Check()
}

func (b *toldBoot) device() string {
	if b.is.Persistent != nil && *b.is.Persistent {
		return b.is.Device + " for good"
	}
	return b.is.Device
}

// onSticks is instanceTask for a BMC whose machine boots from sticks.
func onSticks(t *testing.T, info map[string]any, drive string, types ...string) (*driver.Task, *bmc, *toldBoot) {
	t.Helper()
	_, k, b, _ := instanceTask(t, info, drive, types...)
	boots := &toldBoot{Management: b.Management}
	b.Management = boots
	return k, b, boots
}

const rackdsImage = "http://192.0.2.5:8080/media/u/secret1/boot.img"

// A machine whose BMC has no drive of a CD boots its ramdisk from a USB stick. No way out leaves it there.
func TestARamdiskFromAStick(t *testing.T) {
	i := VirtualMedia(fine)
	for name, end := range map[string]func(context.Context, *driver.Task) error{"ramdisk": i.CleanUpRamdisk, "instance": i.PrepareInstance, "undeploy": i.CleanUpInstance} {
		for _, types := range [][]string{{"USBStick"}, {"Floppy", "USBStick"}, {"USBStick", "USBStick"}} {
			k, b, boots := onSticks(t, nil, "", types...)
			if err := i.PrepareRamdisk(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(b.writes, []string{"insert disk " + rackdsImage}) || boots.device() != "usb" {
				t.Errorf("%v: writes %q, and the machine boots %q", types, b.writes, boots.device())
			}
			if lack, err := i.MediumLack(t.Context(), k); err != nil || lack.Why != "" {
				t.Errorf("%v: %+v, %v", types, lack, err)
			}
			if err := end(t.Context(), k); err != nil || len(b.in) != 0 {
				t.Errorf("%v, %s: the drives hold %v at the end, %v", types, name, b.in, err)
			}
			if want := map[string]string{"ramdisk": "usb", "instance": "disk for good", "undeploy": "usb"}[name]; boots.device() != want {
				t.Errorf("%v, %s: the machine boots %q at the end", types, name, boots.device())
			}
		}
	}
}

// A CD is preferred to a stick, wherever the BMC lists it.
func TestACDIsPreferredToAStick(t *testing.T) {
	k, b, boots := onSticks(t, nil, "", "USBStick", "CD/DVD")
	if err := VirtualMedia(fine).PrepareRamdisk(t.Context(), k); err != nil || boots.device() != "cdrom" || !strings.HasSuffix(b.in[1], "/boot.iso") || len(b.in) != 1 {
		t.Errorf("the drives hold %v, and the machine boots %q: %v", b.in, boots.device(), err)
	}
}

// The owner of the flow may die before it has noted what is in the stick. What others have put in stays.
func TestAStickOfAPredecessorIsTakenOut(t *testing.T) {
	for image, stays := range map[string]bool{"http://192.0.2.4:8080/media/5f0c/secret/boot.img": false, "http://o/tools.img": true} {
		k, b, _ := onSticks(t, nil, "", "USBStick")
		b.in[0] = image
		if err := VirtualMedia(fine).CleanUpRamdisk(t.Context(), k); err != nil || (b.in[0] != "") != stays {
			t.Errorf("%s: the drives hold %v, %v", image, b.in, err)
		}
	}
}

// The image that boots and the second medium are never in one drive, whatever is in the drives before.
func TestASecondMediumBesideAStick(t *testing.T) {
	const others = "http://o/tools.img"
	told := "http://192.0.2.5:8080/media/5f0c/told1/parameters.img"
	for name, c := range map[string]struct {
		types []string
		in    map[int]string
		want  map[int]string
	}{
		"two sticks":               {[]string{"USBStick", "USBStick"}, nil, map[int]string{0: told, 1: ramdiskISO}},
		"two sticks, the first":    {[]string{"USBStick", "USBStick"}, map[int]string{0: others}, map[int]string{0: ramdiskISO, 1: told}},
		"two sticks, the second":   {[]string{"USBStick", "USBStick"}, map[int]string{1: others}, map[int]string{0: told, 1: ramdiskISO}},
		"two sticks, both":         {[]string{"USBStick", "USBStick"}, map[int]string{0: others, 1: others + "2"}, map[int]string{0: told, 1: ramdiskISO}},
		"a stick and a floppy":     {[]string{"USBStick", "Floppy"}, nil, map[int]string{0: ramdiskISO, 1: told}},
		"two that take all":        {[]string{"USBStick/Floppy", "USBStick/Floppy"}, nil, map[int]string{0: told, 1: ramdiskISO}},
		"two that take a CD, too":  {[]string{"CD/USBStick", "CD/USBStick"}, map[int]string{1: others}, map[int]string{0: told, 1: ramdiskISO}},
		"three, with a full third": {[]string{"USBStick", "USBStick", "USBStick"}, map[int]string{2: others}, map[int]string{0: told, 1: ramdiskISO, 2: others}},
	} {
		k, b, _ := onSticks(t, nil, "", c.types...)
		k.Node.DriverInfo = map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: "true"}
		for at, image := range c.in {
			b.in[at] = image
		}
		if err := VirtualMedia(fine).PrepareRamdisk(t.Context(), k); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for at := range c.types {
			if b.in[at] != c.want[at] {
				t.Errorf("%s: the drives hold %v, want %v", name, b.in, c.want)
			}
		}
		for at, image := range b.in { // the boot medium is pulled, and its second stays
			if image == ramdiskISO {
				delete(b.in, at)
			}
		}
		if lack, err := VirtualMedia(fine).MediumLack(t.Context(), k); err != nil || !strings.Contains(lack.Why, "taken out") {
			t.Errorf("%s, pulled: %+v, %v", name, lack, err)
		}
	}
}

// A BMC with one stick has no room for two media, and one with a floppy alone none for one. The machine is not touched.
func TestTooFewDrives(t *testing.T) {
	for name, c := range map[string]struct {
		types []string
		two   bool
		err   error
		says  string
	}{
		"one stick for two":            {[]string{"USBStick"}, true, driver.ErrInvalid, "no second virtual drive, of a USB stick or a floppy, beside that which boots the ramdisk: its drives are: USBStick."},
		"one that is a floppy as well": {[]string{"USBStick/Floppy"}, true, driver.ErrInvalid, "its drives are: USBStick/Floppy."},
		"a floppy alone":               {[]string{"Floppy"}, false, driver.ErrUnsupported, "no virtual drive of a CD or of a USB stick, from which its machine could boot an image: its drives are: Floppy."},
		"none":                         {nil, false, driver.ErrUnsupported, "its drives are: none."},
	} {
		k, b, boots := onSticks(t, nil, "", c.types...)
		if c.two {
			k.Node.DriverInfo = map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: "true"}
		}
		err := VirtualMedia(fine).PrepareRamdisk(t.Context(), k)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if len(b.writes) != 0 || boots.device() != "" || k.Facts[driver.FactBoot] != "" || k.Facts[factAt] != "" {
			t.Errorf("%s: writes %q, boots %q, facts %v", name, b.writes, boots.device(), k.Facts)
		}
		if err := VirtualMedia(fine).CleanUpRamdisk(t.Context(), k); err != nil {
			t.Errorf("%s: taken back with %v", name, err)
		}
		k.Node.InstanceInfo = map[string]any{"boot_iso": instanceISO}
		if err := VirtualMedia(fine).ReadyInstance(t.Context(), k); !c.two && !errors.Is(err, c.err) {
			t.Errorf("%s: an instance is readied with %v", name, err)
		}
	}
}

// An instance without a disk boots from a stick at each start, with its config drive in another. A stick that the BMC has lost is put in
// again. The end of the instance takes both out.
func TestAnInstanceFromAStick(t *testing.T) {
	const boot = "http://192.0.2.5:8080/media/5f0c/secret-w1/boot.img"
	i := VirtualMedia(fine)
	k, b, boots := onSticks(t, ownFiles(), aDrive(t), "USBStick", "USBStick")
	if err := errors.Join(i.ReadyInstance(t.Context(), k), i.PrepareInstance(t.Context(), k), i.PrepareInstance(t.Context(), k)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.writes, []string{"insert disk " + stick, "insert disk " + boot}) || boots.device() != "usb for good" {
		t.Errorf("writes %q, and the machine boots %q", b.writes, boots.device())
	}
	delete(b.in, 1)
	b.writes = nil
	for range 2 {
		if err := i.KeepInstance(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(b.writes, []string{"insert disk " + boot}) || b.in[0] != stick {
		t.Errorf("of a stick that was lost: writes %q, and the drives hold %v", b.writes, b.in)
	}
	if err := i.CleanUpInstance(t.Context(), k); err != nil || len(b.in) != 0 || boots.device() != "disk for good" {
		t.Errorf("at its end the drives hold %v, and the machine boots %q: %v", b.in, boots.device(), err)
	}
	k, b, boots = onSticks(t, map[string]any{"boot_iso": instanceISO}, "", "USBStick")
	if err := i.PrepareInstance(t.Context(), k); err != nil || b.in[0] != instanceISO || boots.device() != "usb for good" {
		t.Errorf("its own image: the drives hold %v, and the machine boots %q: %v", b.in, boots.device(), err)
	}
	if err := i.CleanUpInstance(t.Context(), k); err != nil || len(b.in) != 0 || boots.device() != "disk for good" {
		t.Errorf("its own image, at its end: the drives hold %v, and the machine boots %q: %v", b.in, boots.device(), err)
	}
}

// A machine that was told to boot from a stick at each start, by an instance that is no more, boots its disk after the undeploy.
func TestAStickIsNoBootDeviceAfterItsInstance(t *testing.T) {
	k, _, boots := onSticks(t, nil, "", "USBStick")
	k.Node.BootSet = string(driver.BootUSB)
	if err := VirtualMedia(fine).CleanUpInstance(t.Context(), k); err != nil || boots.device() != "disk for good" {
		t.Errorf("it boots %q: %v", boots.device(), err)
	}
}

// A BMC may show the image that boots under a name of its own. Beside the second medium it is known by that, missed, and taken out.
func TestAStickUnderAnotherName(t *testing.T) {
	i := VirtualMedia(fine)
	k, b, _ := onSticks(t, nil, "", "USBStick", "USBStick")
	k.Node.DriverInfo = map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: "true"}
	b.shows = map[string]string{ramdiskISO: "stick"}
	if err := i.PrepareRamdisk(t.Context(), k); err != nil || b.in[1] != "stick" {
		t.Fatalf("the drives hold %v, %v", b.in, err)
	}
	if lack, err := i.MediumLack(t.Context(), k); err != nil || lack.Why != "" {
		t.Errorf("%+v, %v", lack, err)
	}
	b.in[1] = "http://o/tools.img"
	if lack, err := i.MediumLack(t.Context(), k); err != nil || !strings.Contains(lack.Why, "USBStick (another image)") {
		t.Errorf("replaced: %+v, %v", lack, err)
	}
	b.in[1] = "stick"
	if err := i.CleanUpRamdisk(t.Context(), k); err != nil || len(b.in) != 0 {
		t.Errorf("the drives hold %v at the end, %v", b.in, err)
	}
}
