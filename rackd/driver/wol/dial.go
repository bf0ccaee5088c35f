package wol

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/ironyard/ironyard/rackd/outbound"
)

// dialTimeout bounds the resolution of a name.
const dialTimeout = 10 * time.Second

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
