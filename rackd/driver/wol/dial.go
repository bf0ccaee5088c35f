package wol

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/ironyard/ironyard/rackd/outbound"
)

// dialTimeout bounds the resolution of a name.
const dialTimeout = 10 * time.Second

// Ready says what is missing for broadcasts to leave, nil for nothing: the interface of the machines, or a route.
func (d *Driver) Ready() error {
	if d.opts.Interface != "" {
		if _, err := net.InterfaceByName(d.opts.Interface); err != nil {
			return fmt.Errorf("the network interface %s, by which magic packets leave: %w", d.opts.Interface, err)
		}
		return nil
	}
	conn, err := net.Dial("udp4", net.JoinHostPort(broadcast, "9")) // it sends nothing
	if err != nil {
		return fmt.Errorf("--interface, or a default route, by which magic packets leave: %w", err)
	}
	return conn.Close()
}

// dialer dials wol_host: the broadcast address by the interface of the machines, and whatever else the networks allow.
func (d *Driver) dialer(host string) *net.Dialer {
	if host != broadcast {
		return outbound.Dialer(dialTimeout, func(ip netip.Addr) error { return d.opts.Networks.Check(ip) })
	}
	return &net.Dialer{Timeout: dialTimeout, Control: func(_, _ string, c syscall.RawConn) (err error) {
		if d.opts.Interface == "" {
			return nil
		}
		controlErr := c.Control(func(fd uintptr) { err = syscall.BindToDevice(int(fd), d.opts.Interface) })
		if controlErr != nil {
			return controlErr
		}
		return err
	}}
}
