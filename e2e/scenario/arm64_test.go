package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/testimage"
	"github.com/ironyard/ironyard/protocol/work"
)

// armImage is the name of the image for arm64 in the folder that the rack gets its images from.
const armImage = "testimage-arm64.qcow2"

// prepareARM64 makes what machines of arm64 load: the ramdisk and that of rescues as one program each, and the image.
func prepareARM64(ctx context.Context, root, cache, programs string) error {
	kernels := filepath.Join(cache, "kernel")
	for _, rescue := range []bool{false, true} {
		_, err := ramdisk.Build(ctx, ramdisk.Options{Arch: ramdisk.ARM64, Source: root, KernelPackage: debkernel.CloudARM64, Rescue: rescue,
			CacheDir: kernels, OutDir: programs, UKI: &ramdisk.UKI{}})
		if err != nil {
			return err
		}
	}
	var err error
	armImages, err = testimage.Build(ctx, testimage.Options{Arch: testimage.ARM64, CacheDir: kernels, OutDir: filepath.Join(cache, "image-arm64")})
	return err
}

// armSigns are what the console of a machine of arm64 says during a deploy, in this order. The ramdisk's kernel starts, and its agent is
// known. The agent makes a boot entry for the image's loader. The instance speaks.
var armSigns = []*regexp.Regexp{
	regexp.MustCompile(`EFI stub: Booting Linux Kernel`),
	agentKnown,
	regexp.MustCompile(`boot entry made.*BOOTAA64\.EFI on partition 1`),
	marker,
}

// armEntry is what firmware says when it starts the boot entry that the agent has made.
var armEntry = regexp.MustCompile(`BdsDxe: starting Boot[0-9A-F]+ "ironyard" from HD\(1,GPT,.*BOOTAA64\.EFI`)

// A machine of arm64 goes from powered off to its instance: firmware loads the ramdisk as one program, its agent writes the image and makes
// the boot entry, and firmware starts the instance from the disk. It is rescued, torn down, cleaned, and available again.
func TestDeployOnARM64(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("NOT RUN: deploys machines of arm64 in emulation: run `make hardware`, or set IRONYARD_HARDWARE=1")
	}
	for name, c := range map[string]struct {
		machine, loads, notBy string
		rescues               bool
	}{
		"by PXE":  {"arm-0", "ramdisk-arm64.efi", "MB by HTTP", false},
		"by HTTP": {"arm-1", "MB by HTTP", "TFTP", true},
	} {
		t.Run(name, func(t *testing.T) { deploysOnARM64(t, c.machine, c.loads, c.notBy, c.rescues) })
	}
}

// deploysOnARM64 deploys a machine, has it rescued where that is asked for, and tears it down. Its history says how the firmware loads the
// ramdisk, and no other way.
func deploysOnARM64(t *testing.T, name, loads, notBy string, rescues bool) {
	ctx := limit(t, 20*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, name, func(m *operator.Machine) {
		m.Interfaces = map[string]string{"boot": "http", "inspect": "agent", "rescue": "agent"}
	})
	n, err := o.Show(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if arch := n.Properties["cpu_arch"]; arch != "aarch64" {
		t.Errorf("the node is enrolled with cpu_arch %v", arch)
	}
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	image := operator.Image{URL: theRack.ImageURL(armImage), SHA256: armImages.QCOW2.SHA256, DiskFormat: "qcow2"}
	if err := o.SetImage(ctx, id, image); err != nil {
		t.Fatal(err)
	}
	if reason, err := o.Unfit(ctx, id); err != nil || reason != "" {
		t.Fatalf("validate says %q, %v", reason, err)
	}

	console, began := consoleFromNow(t, name), time.Now()
	deployed(ctx, t, id, name)
	t.Logf("%.0f s from the request to the instance's words\n%s", time.Since(began).Seconds(), phasesOf(id, began))
	for _, sign := range armSigns {
		line, err := console.Wait(ctx, sign)
		if err != nil {
			t.Fatalf("no %s on the console: %v", sign, err)
		}
		t.Log(strings.TrimSpace(line))
	}
	const agent = "parameters: ramdisk"
	said := historyOf(ctx, t, id)
	for want, has := range map[string]bool{loads: true, agent: true, notBy: false, "iPXE": false} {
		if strings.Contains(said, want) != has {
			t.Errorf("that the history says %q is %t:\n%s", want, !has, said)
		}
	}

	bootsByItsEntry(ctx, t, name)
	if rescues {
		rescuedAndBack(ctx, t, id, name)
	}

	if err := o.Set(ctx, id, "/automated_clean", true); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	undeployed(ctx, t, id)
	t.Logf("%.0f s from the tear-down's request until it is cleaned and available\n%s", time.Since(began).Seconds(), phasesOf(id, began))
	if cleaned := historyOf(ctx, t, id); strings.Count(cleaned, agent) <= strings.Count(said, agent) {
		t.Errorf("no ramdisk has cleaned the machine:\n%s", cleaned)
	}
	if err := o.WaitPower(ctx, id, "power off"); err != nil {
		t.Error(err)
	}
}

// bootsByItsEntry restarts a machine whose BMC names no boot device. Its firmware has to start the agent's entry.
func bootsByItsEntry(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	m := theRack.Serving.Machines[name]
	if err := m.SetBootOverride("", false); err != nil {
		t.Fatal(err)
	}
	console, began := consoleFromNow(t, name), time.Now()
	if err := m.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	for _, sign := range []*regexp.Regexp{armEntry, marker} {
		line, err := console.Wait(ctx, sign)
		if err != nil {
			t.Fatalf("after a restart no %s on the console: %v", sign, err)
		}
		t.Logf("%.1f s after a restart: %s", time.Since(began).Seconds(), strings.TrimSpace(line))
	}
}

// phasesOf are what the rackds have told of a node so far, each with its time after began.
func phasesOf(id string, began time.Time) string {
	var all []string
	for _, e := range events.matching(func(e work.Event) bool { return e.Node == id && !e.Time.Before(began) }) {
		for _, l := range e.Lines() {
			all = append(all, fmt.Sprintf("%6.1f s  %s  %s", l.Time.Sub(began).Seconds(), l.Phase, l.Detail))
		}
	}
	return strings.Join(all, "\n")
}
