package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
)

// The instance's kernel says on the console what it was started with.
var ownCommandLine = regexp.MustCompile(`Kernel command line: .*root=/dev/ram0 .*ironyard.test=own.*`)

// ownImage is the name of the image of a CD that starts the same kernel and ramdisk by GRUB, on both firmwares.
const ownImage = "own.iso"

// ownFiles are the fields of an instance that is a kernel and a ramdisk.
func ownFiles() map[string]string {
	return map[string]string{"kernel": theRack.ImageURL(ownKernel), "ramdisk": theRack.ImageURL(ownRamdisk), "ramdisk_kernel_arguments": "console=ttyS0 ironyard.test=own"}
}

// ownCD are those of an instance that is an image of a CD, which is made at the first call.
func ownCD(t *testing.T) map[string]string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(imageFolder, ownImage)); err == nil {
		return map[string]string{"boot_iso": theRack.ImageURL(ownImage)}
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "boot/grub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ownKernel, ownRamdisk} {
		content, err := os.ReadFile(filepath.Join(imageFolder, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	config := "linux /" + ownKernel + " root=/dev/ram0 console=ttyS0 ironyard.test=own\ninitrd /" + ownRamdisk + "\nboot\n"
	if err := os.WriteFile(filepath.Join(dir, "boot/grub/grub.cfg"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(imageFolder, ownImage)
	if out, err := exec.Command("grub-mkrescue", "-o", made, dir).CombinedOutput(); err != nil {
		t.Fatalf("grub-mkrescue: %v: %s", err, out)
	}
	return map[string]string{"boot_iso": theRack.ImageURL(ownImage)}
}

// A machine runs a kernel and a ramdisk of its own from the network, and runs them again after a reboot, also when one of
// the rackds is gone. make hardware runs it.
func TestRamdiskByNetwork(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	for _, name := range []string{"bios-0", "uefi-0"} {
		t.Run(name, func(t *testing.T) { runsAgain(t, name, "ipxe", ownFiles()) })
	}
}

// A machine runs an image of a CD, which its firmware reads over the network by iPXE or in the drive of its BMC. make hardware runs it.
func TestRamdiskOfAnImage(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	for _, name := range []string{"bios-0", "uefi-0"} {
		for _, boot := range []string{"ipxe", "redfish-virtual-media"} {
			t.Run(name+"/"+boot, func(t *testing.T) { runsAgain(t, name, boot, ownCD(t)) })
		}
	}
}

// A machine runs a kernel and a ramdisk of its own from a medium that rackd makes. It runs them again after a reboot, when the rackd that
// served the medium may be gone. make hardware runs it.
func TestRamdiskByMedium(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	for _, c := range []struct{ name, boot string }{{"bios-0", "redfish-virtual-media"}, {"uefi-0", "redfish-virtual-media"}, {"http-0", "redfish-https"}} {
		t.Run(c.name+"/"+c.boot, func(t *testing.T) { runsAgain(t, c.name, c.boot, ownFiles()) })
	}
}

// runsAgain deploys what has no disk, and reboots it with one rackd less.
func runsAgain(t *testing.T, name, boot string, fields map[string]string) {
	ctx := limit(t, 8*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, name, func(m *operator.Machine) { m.Interfaces = map[string]string{"boot": boot, "deploy": "ramdisk"} })
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	for field, value := range fields {
		if err := o.Set(ctx, id, "/instance_info/"+field, value); err != nil {
			t.Fatal(err)
		}
	}
	runs := func(after string) {
		t.Helper()
		console, began := consoleFromNow(t, name), time.Now()
		switch after {
		case "the deploy":
			if err := o.Ask(ctx, id, "active", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(ctx, id, provision.Active); err != nil {
				t.Fatal(err)
			}
		default:
			if err := o.Power(ctx, id, "rebooting"); err != nil {
				t.Fatal(err)
			}
		}
		line, err := console.Wait(ctx, ownCommandLine)
		if err != nil {
			t.Fatalf("after %s no kernel of the instance on the console: %v", after, err)
		}
		if strings.Contains(line, "ipa-api-url") {
			t.Errorf("the instance is told whom agents call: %s", line)
		}
		t.Logf("after %s its kernel runs %.1f s later", after, time.Since(began).Seconds())
	}
	runs("the deploy")
	if history, err := o.History(ctx, id); err != nil || strings.Contains(fmt.Sprint(history), "/media/") {
		t.Errorf("the history tells a medium's address (%v):\n%v", err, history)
	}
	if in := theRack.BMC(name).Inserted() + theRack.BMC(name).InsertedStick(); strings.Contains(in, theRack.Rackds[0].Address.String()) {
		alone(t) // the rackd that serves it stays
		runs("a reboot")
		theRack.Rackds[0].Stop()
		t.Cleanup(func() { revive(t, theRack.Rackds[0]) })
		revive(t, theRack.Rackds[1])
		runs("a reboot without the rackd that served the medium")
		undeployed(ctx, t, id)
		empty(t, name)
		return
	}
	alone(t) // the rackd that is left may be the one that has not deployed it
	runs("a reboot")
	undeployed(ctx, t, id)
	empty(t, name)
}

// empty looks that a machine's virtual drives are empty.
func empty(t *testing.T, name string) {
	t.Helper()
	b := theRack.BMC(name)
	if cd, stick, floppy := b.Inserted(), b.InsertedStick(), b.InsertedFloppy(); cd != "" || stick != "" || floppy != "" {
		t.Errorf("afterwards the drives hold %q, %q and %q", cd, stick, floppy)
	}
}
