package scenario

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// sanAttached is what iPXE says once it has logged in.
var sanAttached = regexp.MustCompile(`Registered SAN device 0x80`)

// The target of a volume is dead when iPXE is to log in, and dies again once it has. The node's history says that the volume has not
// booted, and what to look at. The machine boots by itself once its target is back. One that has lost its target in the middle boots after
// a power cycle.
func TestVolumeWhoseTargetDies(t *testing.T) {
	needsTime(t)
	const name = "bios-0"
	ctx := limit(t, 25*time.Minute)
	o := theRack.Operator
	disk, portal := volumeDisk(t), theRack.Address().String()+":3260"
	id := enrolled(ctx, t, name, nil)
	attached(ctx, t, id, map[string]any{"auth_method": "CHAP", "auth_username": volumeUser, "auth_password": volumeSecret})
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	console := consoleFromNow(t, name)
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	line, err := console.Wait(ctx, regexp.MustCompile(`Could not open SAN device: .*`))
	if err != nil {
		t.Fatalf("a target that is dead: %v", err)
	}
	t.Log(line)
	told := historySays(ctx, t, id, "volume")
	t.Log(told)
	for _, word := range []string{"has not booted its volume", "iscsi:" + theRack.Address().String() + "::3260:1:" + volumeIQN, initiatorIQN} {
		if !strings.Contains(told, word) {
			t.Errorf("the history lacks %q: %s", word, told)
		}
	}
	kill := serveVolume(t, disk, volumeUser, portal)
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatalf("its target is back, and the volume's system does not run: %v", err)
	}

	console = consoleFromNow(t, name)
	if err := o.Power(ctx, id, "rebooting"); err != nil {
		t.Fatal(err)
	}
	if _, err := console.Wait(ctx, sanAttached); err != nil {
		t.Fatal(err)
	}
	kill()
	n, err := o.Show(ctx, id)
	if err != nil || n.ProvisionState != string(provision.Active) || n.PowerState != "power on" {
		t.Errorf("the node whose target died is %s and %s: %v", n.ProvisionState, n.PowerState, err)
	}
	serveVolume(t, disk, volumeUser, portal)
	console = consoleFromNow(t, name)
	if err := o.Power(ctx, id, "rebooting"); err != nil {
		t.Fatal(err)
	}
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatalf("after a power cycle the volume's system does not run: %v", err)
	}
	undeployed(ctx, t, id)
}

// passedBy is what firmware says that has not logged in to its volume, and goes on to the next option.
var passedBy = regexp.MustCompile(`BdsDxe: loading \S+ "Management Network"`)

// The target of a volume that firmware attaches dies while the machine runs, and the machine is started without it. This firmware forgets
// its boot option then. The node's history says what to look at. Once the target is back, a start makes the option again, as the last one:
// the rack puts it first, and its history says so. With the next start the machine boots its volume.
func TestFirmwareVolumeWhoseTargetDies(t *testing.T) {
	needsTime(t)
	const name = "bare-0"
	ctx := limit(t, 15*time.Minute)
	o := theRack.Operator
	disk, portal := volumeDisk(t), theRack.Address().String()+":3260"
	kill := serveVolume(t, disk, "", portal)
	id := enrolled(ctx, t, name, byMedium("redfish-virtual-media"))
	attached(ctx, t, id, nil)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	startedOnce(ctx, t, id, name)
	fromVolume(ctx, t, id, name)
	restarted := func(sign *regexp.Regexp) {
		t.Helper()
		console, began := consoleFromNow(t, name), time.Now()
		if err := o.Power(ctx, id, "rebooting"); err != nil {
			t.Fatal(err)
		}
		line, err := console.Wait(ctx, sign)
		if err != nil {
			t.Fatalf("after a restart no %s on the console: %v", sign, err)
		}
		t.Logf("%.0f s after a restart: %s", time.Since(began).Seconds(), strings.TrimSpace(line))
	}
	says := func(phase string, words ...string) {
		t.Helper()
		began := time.Now()
		said := historySays(ctx, t, id, phase)
		t.Logf("%.0f s later its history says of the %s: %s", time.Since(began).Seconds(), phase, said)
		for _, word := range words {
			if !strings.Contains(said, word) {
				t.Errorf("the history lacks %q: %s", word, said)
			}
		}
		if n, err := o.Show(ctx, id); err != nil || n.ProvisionState != string(provision.Active) || n.PowerState != "power on" {
			t.Errorf("the node is %s and %s: %v", n.ProvisionState, n.PowerState, err)
		}
	}

	kill()
	restarted(passedBy)
	says("volume", "the machine's firmware shows no iSCSI disk", "target_portal "+portal, volumeIQN, initiatorIQN, "Restart the machine")
	serveVolume(t, disk, "", portal)
	restarted(passedBy)
	says("boot order", "iscsiboot was set again", "restart it")
	restarted(marker)
	if volume, _ := firmwareBoots(ctx, t, name); volume != volumeIQN {
		t.Errorf("its firmware logs in to %q", volume)
	}
	undeployed(ctx, t, id)
}
