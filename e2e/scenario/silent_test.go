package scenario

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/machine"
)

// A machine asks central for its script while no rackd is there. iPXE says so on its console, and asks again for as long as none is.
// When rackds are back it goes on to the rack.
func TestMachineAsksCentralAgain(t *testing.T) {
	ctx := limit(t, 2*time.Minute)
	const name = "small-0"
	enrolled(ctx, t, name, nil)
	m, err := theRack.Machine(name)
	if err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(theRack.Operator.Base())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range theRack.Rackds {
		d.Stop()
		t.Cleanup(func() { revive(t, d) })
	}
	console := machine.OpenSerial(t.TempDir(), 0)
	// A network of QEMU's own has this host at 10.0.2.2, and no rack.
	script := "http://" + net.JoinHostPort("10.0.2.2", api.Port()) + "/v1/drivers/redfish/vendor_passthru/ipxe_config?port_address=" + m.MAC
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-accel", "tcg", "-machine", "q35,graphics=off", "-m", "256", "-display", "none",
		"-serial", "file:"+console.Path(), "-netdev", "user,id=n,bootfile="+script, "-device", "virtio-net-pci,netdev=n,bootindex=0,mac="+m.MAC)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	said := func(words string) {
		t.Helper()
		if _, err := console.Wait(ctx, regexp.MustCompile(words)); err != nil {
			all, _ := os.ReadFile(console.Path())
			t.Fatalf("%v\nThe console says:\n%s", err, all)
		}
	}
	for range 2 {
		said("the rackd of this machine writes no boot script now")
	}
	for _, d := range theRack.Rackds {
		revive(t, d)
	}
	said("Ironyard: asking the rack for the boot script")
}
