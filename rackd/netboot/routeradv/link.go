package routeradv

import (
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/rackd/netboot/relisten"
)

// routerMessages passes ICMPv6 router solicitations and advertisements, and nothing else.
var routerMessages = []bpf.Instruction{
	bpf.LoadAbsolute{Off: ethernetSize + 6, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nextICMPv6, SkipTrue: 4},
	bpf.LoadAbsolute{Off: ethernetSize + ipv6Size, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 133, SkipTrue: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 134, SkipTrue: 1},
	bpf.RetConstant{Val: 1514},
	bpf.RetConstant{Val: 0},
}

// Listen opens the link of a network interface, which may be made again. It needs the right to raw packets (CAP_NET_RAW), and no IPv6
// address.
func Listen(name string, log *slog.Logger) (Link, error) {
	l, err := relisten.Keep(name, log, open)
	if err != nil {
		return nil, fmt.Errorf("listen for router solicitations on %s: %w", name, err)
	}
	return kept{l}, nil
}

// kept is the Link of the interface that has a name.
type kept struct {
	*relisten.Listener[*ethernet]
}

func (k kept) MAC() net.HardwareAddr { return k.Now().MAC() }

func (k kept) Receive(frame []byte) (n int, err error) {
	err = k.Do(func(e *ethernet) (err error) { n, err = e.Receive(frame); return err })
	return n, err
}

func (k kept) Send(frame []byte) error {
	return k.Do(func(e *ethernet) error { return e.Send(frame) })
}

// open opens the link of the interface that has a name now.
func open(name string) (*ethernet, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	if len(i.HardwareAddr) != 6 {
		return nil, errors.New("it is no Ethernet")
	}
	filter, err := bpf.Assemble(routerMessages)
	if err != nil {
		return nil, err
	}
	conn, err := packet.Listen(i, packet.Raw, protocolIPv6, &packet.Config{Filter: filter})
	if err != nil {
		return nil, err
	}
	// The interface's own filter lets only those multicast frames pass that somebody wants.
	for _, group := range []net.HardwareAddr{allRoutersMAC, allNodesMAC} {
		if err := join(conn, i.Index, group); err != nil {
			conn.Close()
			return nil, fmt.Errorf("join %s: %w", group, err)
		}
	}
	return &ethernet{conn, i.HardwareAddr}, nil
}

func join(conn *packet.Conn, index int, group net.HardwareAddr) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	want := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(group))}
	copy(want.Address[:], group)
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptPacketMreq(int(fd), unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &want)
	}); err != nil {
		return err
	}
	return set
}

// ethernet is the Link of an interface.
type ethernet struct {
	conn *packet.Conn
	mac  net.HardwareAddr
}

func (e *ethernet) MAC() net.HardwareAddr { return e.mac }

func (e *ethernet) Receive(frame []byte) (int, error) {
	n, _, err := e.conn.ReadFrom(frame)
	return n, err
}

func (e *ethernet) Send(frame []byte) error {
	_, err := e.conn.WriteTo(frame, &packet.Addr{HardwareAddr: net.HardwareAddr(frame[:6])})
	return err
}

func (e *ethernet) Close() error { return e.conn.Close() }
