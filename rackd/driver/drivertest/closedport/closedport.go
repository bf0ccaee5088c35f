// Package closedport closes a UDP port for a test and keeps it from others. A port that was only closed is soon the port of another test,
// whose BMC then answers in place of the silent one. It imports nothing of the project; only tests import it.
package closedport

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Keep has all that is sent to conn's port refused, as if nothing listened there. Reads of conn end. The port stays taken until conn is
// closed: its socket is connected to itself, and so takes nothing from others.
func Keep(t testing.TB, conn *net.UDPConn) {
	t.Helper()
	if err := keep(conn); err != nil {
		t.Errorf("keeping the UDP port of %v: %v", conn.LocalAddr(), err)
	}
}

func keep(conn *net.UDPConn) error {
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok || local.IP.To4() == nil {
		return errors.New("it is not of IPv4")
	}
	itself := &unix.SockaddrInet4{Port: local.Port}
	copy(itself.Addr[:], local.IP.To4())
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	if err := raw.Control(func(fd uintptr) { refused = unix.Connect(int(fd), itself) }); err != nil {
		return err
	}
	if refused != nil {
		return fmt.Errorf("connecting its socket to itself: %w", refused)
	}
	return conn.SetReadDeadline(time.Unix(1, 0))
}
