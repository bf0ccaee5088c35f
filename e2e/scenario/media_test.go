package scenario

import (
	"context"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/rack"
	"github.com/ironyard/ironyard/protocol/provision"
)

// byMedium has a machine boot its ramdisk from a medium that rackd makes, with an address of network_data and no DHCP.
func byMedium(boot string) func(*operator.Machine) {
	return func(m *operator.Machine) {
		m.Interfaces = map[string]string{"boot": boot, "inspect": "agent", "rescue": "agent"}
	}
}

// static is network_data that gives a machine the last address of the rack's network.
func static(t *testing.T, mac string) (data map[string]any, at netip.Addr) {
	t.Helper()
	p := theRack.Lab.Bridge
	raw := p.Masked().Addr().As4()
	raw[3] = 254
	at = netip.AddrFrom4(raw)
	if !p.Contains(at) || p.Bits() != 24 {
		t.Fatalf("the rack's network is %s", p)
	}
	return map[string]any{"links": []any{map[string]any{"id": "l", "type": "phy", "ethernet_mac_address": mac}},
		"networks": []any{map[string]any{"id": "n", "network_id": "n", "link": "l", "type": "ipv4", "ip_address": at.String(), "netmask": "255.255.255.0"}},
		"services": []any{}}, at
}

// throughMedium deploys a machine from a medium and tears it down, and looks that none is left in its drive.
func throughMedium(t *testing.T, name, boot string) {
	ctx := limit(t, 10*time.Minute)
	id := byOwnMedium(ctx, t, name, boot)
	undeployed(ctx, t, id)
	empty(t, name)
}

// byOwnMedium deploys a machine from a medium, and returns its node.
func byOwnMedium(ctx context.Context, t *testing.T, name, boot string) (id string) {
	t.Helper()
	m, err := theRack.Machine(name)
	if err != nil {
		t.Fatal(err)
	}
	data, at := static(t, m.MAC)
	return byMediumWith(ctx, t, name, boot, data, at)
}

// byMediumWith deploys a machine from a medium, with network_data that gives it that address, and returns its node.
func byMediumWith(ctx context.Context, t *testing.T, name, boot string, data map[string]any, at netip.Addr) (id string) {
	t.Helper()
	o := theRack.Operator
	id = enrolled(ctx, t, name, byMedium(boot))
	if err := o.Set(ctx, id, "/network_data", data); err != nil {
		t.Fatal(err)
	}
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	console := consoleFromNow(t, name)
	began := time.Now()
	deployed(ctx, t, id, name)
	t.Logf("%s by %s: %.0f s from the request to the instance's words", name, boot, time.Since(began).Seconds())
	if line, err := console.Wait(ctx, regexp.MustCompile(`network is up, as network_data says.*`)); err != nil || !strings.Contains(line, at.String()) {
		t.Errorf("the agent says %q of its network: %v", line, err)
	}
	empty(t, name)
	if said := historyOf(ctx, t, id); strings.Contains(said, "/media/") {
		t.Errorf("the history tells the medium's address:\n%s", said)
	}
	return id
}

// A machine goes from nothing to its instance by a medium of rackd's, without DHCP. So it goes into a rescue and back. Make test has
// that of UEFI here, and that of BIOS in TestRescue.
func TestDeployByVirtualMedia(t *testing.T) {
	const name = "uefi-0"
	ctx := limit(t, 12*time.Minute)
	id := byOwnMedium(ctx, t, name, "redfish-virtual-media")
	rescuedAndBack(ctx, t, id, name)
	empty(t, name)
	undeployed(ctx, t, id)
	empty(t, name)
}

func TestDeployByVirtualMediaByBIOS(t *testing.T) {
	throughMedium(t, "bios-0", "redfish-virtual-media")
}

// A machine's UEFI firmware loads the same image by HTTP, from a URL that its BMC sets. The firmware asks DHCP for its address.
func TestDeployByHTTPBoot(t *testing.T) {
	throughMedium(t, "http-0", "redfish-https")
}

// The rackd that serves the medium dies before the machine has read it. The other starts the machine again, with a medium of its own.
func TestMediumOutlivesItsRackd(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes a minute: make hardware runs it")
	}
	ctx := limit(t, 10*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, "uefi-0", byMedium("redfish-virtual-media"))
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.DeployWait); err != nil {
		t.Fatal(err)
	}
	n, err := o.Show(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	first := theRack.BMC("uefi-0").Inserted()
	var owner *rack.Rackd
	for _, d := range theRack.Rackds {
		if d.Name == n.Conductor {
			owner = d
		}
	}
	if owner == nil || first == "" {
		t.Fatalf("the node's rackd is %q, its medium %t", n.Conductor, first != "")
	}
	owner.Kill()
	t.Cleanup(func() { revive(t, owner) })
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	if in := theRack.BMC("uefi-0").Inserted(); in != "" {
		t.Errorf("after the deploy the drive holds %s", in)
	}
	if err := o.Ask(ctx, id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Available); err != nil {
		t.Fatal(err)
	}
}
