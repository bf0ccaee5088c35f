package wol

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// The packet is that of the program wakeonlan, octet by octet.
func TestPacketOfWakeonlan(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package wakeonlan; set IRONYARD_E2E=1")
	}
	const mac = "52:54:00:0a:0b:0c"
	c, d := newCard(t), New(Options{Networks: loopback})
	port := strconv.Itoa(c.conn.LocalAddr().(*net.UDPAddr).Port)
	if out, err := exec.CommandContext(t.Context(), "wakeonlan", "-i", "127.0.0.1", "-p", port, mac).CombinedOutput(); err != nil {
		t.Fatalf("wakeonlan: %v: %s", err, out)
	}
	c.packets(t, 1)
	if err := d.SetPower(t.Context(), &drivertest.Fence{}, c.node(mac), driver.PowerOn); err != nil {
		t.Fatal(err)
	}
	if got := c.packets(t, 2); len(got) == 2 && !bytes.Equal(got[0], got[1]) {
		t.Errorf("wakeonlan sends %x, the driver %x", got[0], got[1])
	}
}
