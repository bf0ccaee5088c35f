// Package halt ends the machine's run: reboot or power off, with nothing left on
// its way.
//
// It may import nothing of the project. Invariant: what has been written is on the
// disks, and no interface sends any more, when the kernel is told to go down; a disk or an
// interface that hangs delays that by a bounded time, and is named in the log.
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

// syncFor bounds the time for writing what is still in memory: a disk that hangs in the kernel
// would otherwise keep the machine on for ever. What a flow counts as written was flushed before.
const syncFor = 60 * time.Second

// machine is what is asked of the kernel; tests have another.
var machine = struct {
	sync    func()
	silence func(*slog.Logger)
	reboot  func(how int) error
}{unix.Sync, silence, unix.Reboot}

// Now ends the machine's run. It returns only if the kernel refuses.
func Now(log *slog.Logger, how How) error {
	Sync(log)
	if !within(quietFor, func() { machine.silence(log) }) {
		log.Warn("a network interface does not go down, going on without it", "waited", quietFor)
	}
	return machine.reboot(int(how))
}

// Sync writes what is in memory to the disks. It reports whether that was done in time; if not,
// it is in the log too.
func Sync(log *slog.Logger) bool {
	done := within(syncFor, machine.sync)
	if !done {
		log.Error("a disk hangs and does not accept the data that is still to be written; the agent continues without it. Look at the kernel's log", "waited", syncFor)
	}
	return done
}

// within reports whether do has returned within limit; it goes on until it does, or until the machine's run ends.
func within(limit time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
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
