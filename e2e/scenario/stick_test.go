package scenario

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// startsFromStick looks that a machine's BMC was told of the stick and to boot from it, in the writes after the first so many. It returns
// how many writes there are now.
func startsFromStick(t *testing.T, name string, after int) (writes int) {
	t.Helper()
	all := theRack.BMC(name).Journal.Writes()
	var told, shown bool
	for _, w := range all[after:] {
		told = told || strings.Contains(w.Body, `"BootSourceOverrideTarget":"Usb"`)
		shown = shown || strings.HasSuffix(w.Path, "/VirtualMedia/UsbStick/Actions/VirtualMedia.InsertMedia")
	}
	if !told || !shown {
		t.Errorf("the BMC of %s was told of the stick: %t, to boot from it: %t", name, shown, told)
	}
	return len(all)
}

// A BMC that has no drive of a CD shows the medium as a USB stick. Firmware of both kinds boots it, for the deploy and for the cleaning
// after the tear-down. No table and no file system is left on the disk then.
func TestDeployByVirtualMediaOnAStick(t *testing.T) {
	hardwareOnly(t)
	for _, name := range []string{"stick-0", "stick-1"} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, 10*time.Minute)
			o := theRack.Operator
			before := len(theRack.BMC(name).Journal.Writes())
			id := byOwnMedium(ctx, t, name, "redfish-virtual-media")
			before = startsFromStick(t, name, before)
			if err := o.Set(ctx, id, "/automated_clean", true); err != nil {
				t.Fatal(err)
			}
			console, began := consoleFromNow(t, name), time.Now()
			undeployed(ctx, t, id)
			t.Logf("%s is cleaned %.0f s after the request to tear it down\n%s", name, time.Since(began).Seconds(), phasesOf(id, began))
			for _, sign := range []*regexp.Regexp{loading, agentKnown} {
				if _, err := console.Wait(ctx, sign); err != nil {
					t.Errorf("the cleaning: no %s on the console: %v", sign, err)
				}
			}
			startsFromStick(t, name, before)
			empty(t, name)
			if err := o.WaitPower(ctx, id, "power off"); err != nil {
				t.Fatal(err)
			}
			disk := theRack.Serving.Machines[name].DiskPath()
			left, err := exec.Command("wipefs", "--noheadings", "--output", "OFFSET,TYPE", disk).Output()
			if err != nil || len(left) > 0 {
				t.Errorf("after the cleaning wipefs finds on the disk, %v: %s", err, left)
			}
		})
	}
}

// An instance without a disk boots from a stick: of kernel and ramdisk by a medium that rackd makes, and of the image of a CD as it is. It
// boots again after a reboot, when the rackd that served the medium may be gone.
func TestRamdiskOnAStick(t *testing.T) {
	hardwareOnly(t)
	for _, name := range []string{"stick-0", "stick-1"} {
		for of, fields := range map[string]map[string]string{"files": ownFiles(), "image": ownCD(t)} {
			t.Run(name+"/"+of, func(t *testing.T) {
				before := len(theRack.BMC(name).Journal.Writes())
				runsAgain(t, name, "redfish-virtual-media", fields)
				startsFromStick(t, name, before)
			})
		}
	}
}
