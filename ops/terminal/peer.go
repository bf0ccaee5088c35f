package terminal

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// errStranger: a viewer is another user's.
var errStranger = errors.New("another user of this host has connected")

// socketLists are where Linux tells whose sockets there are.
var socketLists = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// mayView refuses a viewer of another user. A port of loopback is open to all users of the host, and the session types with the rights
// of the one who began it. Root may do anything here anyway. Where the system does not tell whose a socket is, all may view.
func mayView(viewer net.Conn) error {
	here, err := netip.ParseAddrPort(viewer.LocalAddr().String())
	if err != nil {
		return nil
	}
	there, err := netip.ParseAddrPort(viewer.RemoteAddr().String())
	if err != nil {
		return nil
	}
	for _, path := range socketLists {
		list, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) && path == socketLists[0] {
			return nil
		}
		if err != nil {
			continue // a host without IPv6
		}
		uid, found, err := ownerIn(list, there, here)
		list.Close()
		if err != nil {
			return fmt.Errorf("finding the user of %s in %s: %w", there, path, err)
		}
		if found && (uid == os.Getuid() || uid == 0) {
			return nil
		}
		if found {
			return fmt.Errorf("%w: uid %d", errStranger, uid)
		}
	}
	return fmt.Errorf("%w, or it has left", errStranger)
}

// established is a socket's state in such a list.
const established = "01"

// ownerIn finds the user of the socket from one address to another in a list of Linux (proc_pid_net(5)).
func ownerIn(list io.Reader, from, to netip.AddrPort) (uid int, found bool, err error) {
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[3] != established || !same(f[1], from) || !same(f[2], to) {
			continue
		}
		if uid, err := strconv.Atoi(f[7]); err == nil {
			return uid, true, nil
		}
	}
	return 0, false, lines.Err()
}

// same reports whether a socket's end in such a list is at. Addresses are in words of the machine's byte order there.
func same(text string, at netip.AddrPort) bool {
	address, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	raw, bad := hex.DecodeString(address)
	if err != nil || bad != nil || len(raw)%4 != 0 {
		return false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(raw)
	return ok && uint16(n) == at.Port() && a.Unmap() == at.Addr().Unmap().WithZone("")
}
