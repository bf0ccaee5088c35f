package redfish

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// An owner or a lessee may name the files of a firmware update, and no BMC is told to read one from networks that these do not reach. No
// order reaches the BMC then, not of a file before it in the list either. What it was told to read once is not judged again.
func TestFirmwareIsNotReadFromWithin(t *testing.T) {
	bmcs := outbound.Fetching{Refused: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}
	for at, refused := range map[string]bool{
		"http://10.9.0.7/redfish/v1": true, "http://files:secret@10.9.0.7/x": true, "https://127.0.0.1:8443/": true, "http://169.254.169.254/latest": true,
		"tftp://[::ffff:10.9.0.7]/x": true, "http://0x0a090007/x": true, "http://192.0.2.7/bmc.bin": false,
	} {
		k := newRack()
		withCards(k)
		k.stages = false
		r, d := stagedRig(t, k)
		task := r.Task(nobody{})
		task.Reach = bmcs.CheckURL
		task.Args = map[string]any{"settings": []any{map[string]any{"component": "nic:NIC.1", "url": "http://192.0.2.7/one"}, map[string]any{"component": "bmc", "url": at}}}
		_, err := stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update").Run(t.Context(), task)
		if refused != errors.Is(err, driver.ErrInvalid) || refused == (len(k.writes) > 0) {
			t.Errorf("%s: %v, orders %q", at, err, k.writes)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
