package scenario

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

var marker = regexp.MustCompile(`IRONYARD-INSTANCE-UP .*`)

// deployed deploys a node and waits for its instance's own words on the console.
func deployed(ctx context.Context, t *testing.T, id, name string) {
	t.Helper()
	o := theRack.Operator
	console := consoleFromNow(t, name)
	if err := o.Ask(ctx, id, "active", map[string]any{"meta_data": map[string]any{"hostname": name + "-instance"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	line, err := console.Wait(ctx, marker)
	if err != nil {
		t.Fatalf("no instance on the console of %s: %v", name, err)
	}
	if !strings.Contains(line, "hostname="+name+"-instance") {
		t.Errorf("the instance says %q, want its hostname from the config drive", line)
	}
}

func consoleFromNow(t *testing.T, name string) *machine.SerialLog {
	t.Helper()
	c, err := theRack.Serial(name, -1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var ramdiskSize = regexp.MustCompile(`Freeing initrd memory: (\d+)K`)

// bootsPadded waits until a kernel tells the size of its ramdisk, which must be that of the padded one.
func bootsPadded(ctx context.Context, t *testing.T, console *machine.SerialLog) {
	t.Helper()
	line, err := console.Wait(ctx, ramdiskSize)
	if err != nil {
		t.Fatalf("no kernel tells the size of its ramdisk: %v", err)
	}
	kib, err := strconv.ParseInt(ramdiskSize.FindStringSubmatch(line)[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if more := kib<<10 - paddedBytes; more < 0 || more >= paddingBytes/2 { // the loader rounds
		t.Errorf("the machine booted a ramdisk of %d KiB, and that of its class has %d bytes", kib, paddedBytes)
	}
}

// Both firmwares side by side: powered off → instance → undeployed and cleaned. The one of UEFI is rescued and comes back before that:
// it has no automated cleaning, so that it would have to wait for the other.
func TestDeployAndUndeploy(t *testing.T) {
	for _, name := range []string{"uefi-0", "bios-0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 12*time.Minute)
			o := theRack.Operator
			id := enrolled(ctx, t, name, func(m *operator.Machine) {
				m.Clean = name == "bios-0" // the other goes straight to available
				if name == "uefi-0" {
					m.DriverInfo["deploy_kernel"], m.DriverInfo["deploy_ramdisk"] = theRack.ImageURL(ownKernel), theRack.ImageURL(ownRamdisk)
					m.Interfaces = map[string]string{"rescue": "agent"}
				}
				if m.Clean {
					m.Interfaces = map[string]string{"boot": "pxe"} // and loads the ramdisk by TFTP
				}
			})
			if err := o.Ask(ctx, id, "manage", nil); err != nil {
				t.Fatal(err)
			}
			n, err := o.Wait(ctx, id, provision.Manageable)
			if err != nil {
				t.Fatal(err)
			}
			if n.PowerState != "power off" {
				t.Errorf("power state %q after verifying, want power off", n.PowerState)
			}
			if err := o.Ask(ctx, id, "provide", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(ctx, id, provision.Available); err != nil {
				t.Fatal(err)
			}
			if name == "bios-0" {
				if err := o.Set(ctx, id, "/resource_class", ramdiskClass); err != nil {
					t.Fatal(err)
				}
			}
			if err := o.SetImage(ctx, id, qcow2()); err != nil {
				t.Fatal(err)
			}
			console := consoleFromNow(t, name)
			deployed(ctx, t, id, name)
			if name == "bios-0" {
				bootsPadded(ctx, t, console)
			}
			if name == "uefi-0" {
				for range 2 { // kernel and ramdisk
					if _, err := console.Wait(ctx, regexp.MustCompile(`http://\S+/images/\S+/sha256-`)); err != nil {
						t.Errorf("the node's own kernel and ramdisk do not come from the rack's cache: %v", err)
					}
				}
				began := time.Now()
				rescuedAndBack(ctx, t, id, name)
				t.Logf("rescued and back after %.0f s", time.Since(began).Seconds())
			}
			if err := o.Ask(ctx, id, "deleted", nil); err != nil {
				t.Fatal(err)
			}
			n, err = o.Wait(ctx, id, provision.Available)
			if err != nil {
				t.Fatal(err)
			}
			if len(n.InstanceInfo) != 0 || n.InstanceUUID != "" {
				t.Errorf("after undeploy the node still has instance_info %v, instance_uuid %q", n.InstanceInfo, n.InstanceUUID)
			}
			if err := o.WaitPower(ctx, id, "power off"); err != nil {
				t.Error(err)
			}
		})
	}
}

// The only rackd is killed while the agent is awaited, and again while it writes; each
// time it is started again and goes on from the checkpoint: one power-on, one ramdisk.
// The first kill comes once the ramdisk runs: iPXE does not ask again for a script that it cannot fetch.
func TestRackdKilledInTheMiddleOfADeploy(t *testing.T) {
	ctx := limit(t, 6*time.Minute)
	only := alone(t)
	o := theRack.Operator
	id := enrolled(ctx, t, "bios-0", nil)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	before := len(theRack.BMC("bios-0").Journal.Matching("ComputerSystem.Reset"))
	console := consoleFromNow(t, "bios-0")
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	restart := func() {
		only.Kill()
		if err := only.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	phase := func(name string) func(work.Event) bool {
		return func(e work.Event) bool { return e.Node == id && tells(e, name) }
	}
	events.wait(ctx, t, "dhcp", phase("dhcp"))
	if _, err := console.Wait(ctx, regexp.MustCompile("kernel modules loaded")); err != nil {
		t.Fatal(err)
	}
	restart()
	events.wait(ctx, t, "agent", phase("agent"))
	restart()
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatal(err)
	}
	var powerOns int
	for _, w := range theRack.BMC("bios-0").Journal.Matching("ComputerSystem.Reset")[before:] {
		if strings.Contains(w.Body, `"On"`) {
			powerOns++
		}
	}
	if powerOns != 2 {
		t.Errorf("the machine was powered on %d times, want 2: for the ramdisk and for the instance", powerOns)
	}
	if err := o.Ask(ctx, id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Available); err != nil {
		t.Fatal(err)
	}
}
