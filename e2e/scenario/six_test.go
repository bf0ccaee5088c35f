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
	"github.com/ironyard/ironyard/protocol/work"
)

// stack is the versions of IP by which a rackd serves machines.
type stack struct {
	name string
	args []string // of the rackd
	// agent is where agents are by the address that work documents note, loads where a machine finds its own kernel and ramdisk.
	agent, loads string
	// program: UEFI firmware loads the ramdisk as one program, too.
	program bool
}

const address6 = "fd00:77::1"

// A machine that is given no IPv4 address is deployed by IPv6 alone: firmware, ramdisk, agent and image.
func TestDeployByIPv6(t *testing.T) {
	byStack(t, stack{"IPv6", []string{"--dhcp", "off", "--address6", address6}, "https://[fd00:77:", regexp.QuoteMeta("http://[" + address6 + "]:8080"), true})
}

// A rackd that serves both versions of IP deploys machines by IPv4, which their firmware tries first.
func TestDeployOnDualStack(t *testing.T) {
	at := theRack.Rackds[0].Address.String()
	byStack(t, stack{"both", []string{"--address6", address6}, "https://" + at[:strings.LastIndex(at, ".")+1], regexp.QuoteMeta("http://" + at + ":8080"), false})
}

// byStack deploys a machine of each firmware, one after the other, and tears them down.
func byStack(t *testing.T, s stack) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("takes minutes; set IRONYARD_HARDWARE=1")
	}
	ctx := limit(t, 30*time.Minute)
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.AddAddress(ctx, netip.MustParsePrefix(address6+"/64")); err != nil {
		t.Fatal(err)
	}
	d := alone(t)
	d.Stop()
	t.Cleanup(func() { d.Stop(); revive(t, d) })
	if err := d.Start(ctx, s.args...); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bios-0", "uefi-0"} {
		t.Run(name, func(t *testing.T) { s.deploys(ctx, t, name, "") })
	}
	if s.program {
		t.Run("six-0", func(t *testing.T) { s.deploys(ctx, t, "six-0", "http") })
	}
}

// deploys deploys a machine by a boot interface, or by the usual one, and tears it down.
func (s stack) deploys(ctx context.Context, t *testing.T, name, boot string) {
	o := theRack.Operator
	own := boot != "http" // which loads the rack's program
	id := enrolled(ctx, t, name, func(m *operator.Machine) {
		if own {
			m.DriverInfo["deploy_kernel"], m.DriverInfo["deploy_ramdisk"] = theRack.ImageURL(ownKernel), theRack.ImageURL(ownRamdisk)
		}
		if boot != "" {
			m.Interfaces = map[string]string{"boot": boot}
		}
	})
	console := consoleFromNow(t, name)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	deployed(ctx, t, id, name)
	t.Logf("%s by %s: %.0f s from the request to the instance's words", name, s.name, time.Since(began).Seconds())
	if !own {
		// OVMF 2022.11 gives HTTP up before its link-local address may be used, where that is the first that it tries: it asks for nothing. It
		// goes on to PXE, where it is given the same. TestFirmwareBootsByIPv6 has it come to HTTP later.
		if _, err := console.Wait(ctx, regexp.MustCompile(`NBP filename is ramdisk\.efi|fd00:77::1\]:8080/\S+/ramdisk\.efi`)); err != nil {
			t.Errorf("the firmware has not loaded the program by IPv6: %v", err)
		}
	} else if _, err := console.Wait(ctx, regexp.MustCompile(s.loads+`/images/\S+/sha256-`)); err != nil {
		t.Errorf("the node's own kernel and ramdisk do not come from the rack's cache by %s: %v", s.name, err)
	}
	calls := works.matching(func(w work.Document) bool {
		return w.Node == id && w.Checkpoint.Agent != nil && w.Checkpoint.Agent.URL != ""
	})
	if len(calls) == 0 {
		t.Error("no agent was noted")
	}
	for _, w := range calls {
		if at := w.Checkpoint.Agent.URL; !strings.HasPrefix(at, s.agent) {
			t.Errorf("the agent is at %s", at)
		}
	}
	undeployed(ctx, t, id)
}
