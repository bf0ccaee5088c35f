package mediaboot

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/agentrescue"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
)

// The image of a CD is the instance where the deploy interface boots it. Left over from an instance before, or put into the node of an
// active one, it boots nothing: the machine goes to its disk, and its ramdisk is needed.
func TestAnImageCountsWhereItIsDeployed(t *testing.T) {
	for deploy, c := range map[string]struct {
		said   any // ironic_ramdisk_deploy
		counts bool
	}{
		"ramdisk":      {nil, true},
		"autodetect":   {"true", true},
		"direct":       {"true", false}, // only autodetect asks for it
		"iscsi":        {nil, false},
		"ansible":      {nil, false},
		"bootc":        {nil, false},
		"custom-agent": {nil, false},
		"noop":         {nil, false},
	} {
		counts(t, deploy, c.said, c.counts)
	}
	counts(t, "autodetect", nil, false)
	counts(t, "autodetect", false, false)
}

// The image that a tenant puts into the node of an active instance on a disk is none that an unrescue starts.
func TestUnrescueBootsTheDiskBesideALeftOverImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for deploy, want := range map[string]string{"direct": "disk for good", "bootc": "disk for good", "ramdisk": instanceISO + " cdrom for good"} {
			r, k, _, _ := instanceTask(t, map[string]any{fieldInstance: instanceISO}, "", "CD/DVD")
			k.Node.Interfaces = map[string]string{"deploy": deploy}
			r.SetPowerState(driver.PowerOn)
			if _, err := agentrescue.New(agentrescue.Settings{}).UnrescueSteps(k.Node)[0].Run(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			if got := state(t, k); got != want {
				t.Errorf("%s: after the rescue the machine boots %q, want %q", deploy, got, want)
			}
		}
	})
}

func counts(t *testing.T, deploy string, said any, want bool) {
	t.Helper()
	n := &node.Document{UUID: "c", InstanceInfo: map[string]any{fieldInstance: instanceISO, instancefiles.Sentinel: said}}
	k := task(t, n)
	managedBy(t, k, webbed{k.Hardware.Management(), k.Hardware.Management().(driver.VirtualMedia)})
	n.Interfaces = map[string]string{"deploy": deploy}
	drive, web := VirtualMedia(nil), HTTPBoot(nil)
	byDrive, byWeb, url := "disk for good", "disk for good", ""
	if want {
		byDrive, byWeb, url = instanceISO+" cdrom for good", "uefihttp for good", instanceISO
	}
	if got := drive.InstanceOnMedium(n, nil); got != want {
		t.Errorf("%s, said %v: runs from a medium: %t", deploy, said, got)
	}
	if got := web.InstanceURL(n); got != url {
		t.Errorf("%s, said %v: the firmware loads %q at each start, want %q", deploy, said, got, url)
	}
	// No image can be made here: only an instance that needs no ramdisk is in order.
	for _, i := range []Interface{drive, web} {
		if err := i.Validate(n); (err == nil) != want || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s, said %v: where no image can be made: %v", deploy, said, err)
		}
	}
	if err := web.PrepareInstance(t.Context(), k); err != nil || state(t, k) != byWeb {
		t.Errorf("%s, said %v, by HTTP: the machine boots %q, want %q: %v", deploy, said, state(t, k), byWeb, err)
	}
	if err := drive.PrepareInstance(t.Context(), k); err != nil || state(t, k) != byDrive {
		t.Errorf("%s, said %v, by a drive: the machine boots %q, want %q: %v", deploy, said, state(t, k), byDrive, err)
	}
}
