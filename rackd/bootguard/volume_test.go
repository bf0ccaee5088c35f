package bootguard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Firmware that has not logged in to its volume shows no iSCSI disk. The history says at once what to look at, and at once that the disk
// has been put first again. The first is said once a day, for as long as it stays so. After a look that finds the disk it is
// news. The second is counted.
func TestAVolumeThatFirmwareDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []string
		r := &rack{}
		none := fmt.Errorf("No UEFI iSCSI bootable device found on system: %w", driver.ErrUnsupported)
		b := &bmc{shows: &ask.BootDevice{}, writes: &writes, fails: []error{none, none, nil, nil, none, none}}
		task, hw := Task(time.Hour, r), hardwareWith(t, b)
		n := &node.Document{UUID: "n", State: provision.Active, BootSet: string(driver.BootISCSI),
			Connectors: []node.Connector{{Type: "iqn", ID: "iqn.2026-11.org.example:m"}},
			Targets: []node.Target{{UUID: "t", Type: "iscsi", Properties: map[string]any{"target_portal": "192.0.2.7:3261", "target_iqn": "iqn.2026-11.org.example:v",
				"auth_method": "CHAP", "auth_username": "m", "auth_password": "a secret of m's"}}}}
		found := ask.BootDevice{Device: string(driver.BootISCSI), Persistent: new(true)}
		for i, fails := range []bool{true, true, false, false, true, false, true} {
			if *b.shows = (ask.BootDevice{}); i == 5 {
				*b.shows = found
			}
			if err := task.Do(t.Context(), n, hw); (err != nil) != fails {
				t.Errorf("look %d: %v", i, err)
			}
			time.Sleep(50 * time.Minute)
		}
		if len(writes) != 6 || len(r.lines) != 4 {
			t.Fatalf("%d writes; told %q", len(writes), r.lines)
		}
		for i, words := range [][]string{
			{"volume: ", "shows no iSCSI disk", "target_portal 192.0.2.7:3261", "iqn.2026-11.org.example:v", "iqn.2026-11.org.example:m", "auth_username m", "Restart the machine"},
			{"boot order: ", "iscsiboot was set again", "restart it"},
			{"volume: ", "shows no iSCSI disk", "it had also forgotten once since"},
			{"volume: ", "shows no iSCSI disk"},
		} {
			if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(r.lines[i], w) }) || strings.Contains(r.lines[i], "a secret") {
				t.Errorf("line %d is %q, want %q in it and no secret", i, r.lines[i], words)
			}
		}
	})
}

// A request may set the device on a node without a volume: the history says that it could not be set.
func TestAnISCSIDeviceWithoutAVolume(t *testing.T) {
	r := &rack{}
	b := &bmc{shows: &ask.BootDevice{Device: "disk"}, writes: new([]string), fails: []error{driver.ErrUnsupported}}
	n := &node.Document{UUID: "n", State: provision.Active, BootSet: string(driver.BootISCSI)}
	if err := Task(time.Hour, r).Do(t.Context(), n, hardwareWith(t, b)); err == nil {
		t.Error("no error")
	}
	if len(r.lines) != 1 || !strings.Contains(r.lines[0], "boot order: the BMC has forgotten iscsiboot and shows the boot device disk; it could not be set again") {
		t.Errorf("told %q", r.lines)
	}
}
