package scenario

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A machine that is given no IPv4 address is deployed by IPv6 alone: firmware, ramdisk, agent and image.
func TestDeployByIPv6(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("takes minutes; set IRONYARD_HARDWARE=1")
	}
	const name, address = "bios-0", "fd00:77::1"
	ctx := limit(t, 20*time.Minute)
	o := theRack.Operator
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.AddAddress(ctx, netip.MustParsePrefix(address+"/64")); err != nil {
		t.Fatal(err)
	}
	d := alone(t)
	d.Stop()
	t.Cleanup(func() { d.Stop(); revive(t, d) })
	if err := d.Start(ctx, "--dhcp", "off", "--address6", address); err != nil {
		t.Fatal(err)
	}
	id := enrolled(ctx, t, name, func(m *operator.Machine) {
		m.DriverInfo["deploy_kernel"], m.DriverInfo["deploy_ramdisk"] = theRack.ImageURL(ownKernel), theRack.ImageURL(ownRamdisk)
	})
	console := consoleFromNow(t, name)
	for _, verb := range []string{"manage", "provide"} {
		if err := o.Ask(ctx, id, verb, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(ctx, id, map[string]provision.State{"manage": provision.Manageable, "provide": provision.Available}[verb]); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	deployed(ctx, t, id, name)
	if _, err := console.Wait(ctx, regexp.MustCompile(`http://\[`+address+`\]:8080/images/\S+/sha256-`)); err != nil {
		t.Errorf("the node's own kernel and ramdisk do not come from the rack's cache by IPv6: %v", err)
	}
	calls := works.matching(func(w work.Document) bool {
		return w.Node == id && w.Checkpoint.Agent != nil && w.Checkpoint.Agent.URL != ""
	})
	if len(calls) == 0 {
		t.Error("no agent was noted")
	}
	for _, w := range calls {
		if at := w.Checkpoint.Agent.URL; !strings.HasPrefix(at, "https://[fd00:77:") {
			t.Errorf("the agent is at %s", at)
		}
	}
	if err := o.Ask(ctx, id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Available); err != nil {
		t.Fatal(err)
	}
}
