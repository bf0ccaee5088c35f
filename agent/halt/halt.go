// Package halt ends the machine's run: reboot or power off, with nothing left on
// its way.
//
// It may import nothing of the project. Invariant: what has been written is on the
// disks, and no interface sends any more, when the kernel is told to go down.
package halt

import (
	"log/slog"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// How the run ends.
type How int

// The ways there are; the zero How is none of them.
const (
	Reboot   How = unix.LINUX_REBOOT_CMD_RESTART
	PowerOff How = unix.LINUX_REBOOT_CMD_POWER_OFF
)

// quietFor bounds the time for taking the interfaces down: a driver that hangs
// must not keep the machine.
const quietFor = 5 * time.Second

// Now ends the machine's run. It returns only if the kernel refuses.
func Now(log *slog.Logger, how How) error {
	unix.Sync()
	quiet := make(chan struct{})
	go func() { // ends with the machine at the latest
		defer close(quiet)
		silence(log)
	}()
	select {
	case <-quiet:
	case <-time.After(quietFor):
		log.Warn("a network interface does not go down, going on without it", "waited", quietFor)
	}
	return unix.Reboot(int(how))
}

// silence takes the Ethernet interfaces down. Linux resets virtio devices on its
// way down (since 6.1.192 in Debian 12) without stopping those that still send, and
// virtio_net then waits for ever, with the only CPU, for a packet that the device no
// longer gives back: such a machine hangs instead of rebooting.
func silence(log *slog.Logger) {
	links, err := netlink.LinkList()
	if err != nil {
		log.Warn("cannot list the network interfaces to take them down", "error", err)
	}
	for _, l := range links {
		if a := l.Attrs(); a.EncapType != "ether" || a.Flags&net.FlagUp == 0 {
			continue
		}
		if err := netlink.LinkSetDown(l); err != nil {
			log.Warn("cannot take the interface down", "interface", l.Attrs().Name, "error", err)
		}
	}
}
