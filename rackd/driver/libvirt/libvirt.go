// Package libvirt is the power, management and console interfaces of virtual machines that libvirt keeps, over its RPC: by a
// local socket, TLS or SSH.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/namedfile, rackd/driver/rfb, rackd/driver/serialline, rackd/outbound,
// protocol, go-libvirt and golang.org/x/crypto/ssh. Sessions, turns, courtesy, the fence and errors are those of rackd/driver/bmc.
// Invariants:
//   - A machine is the one that driver_info names. Who may change a node's ports, and not where its secrets are sent, does not choose it.
//   - What a host sends is an error of that host at worst: go-libvirt reads what replies.go has looked at.
//   - A boot device lasts: libvirt knows none for one start. It counts at the machine's next start, not at a reset.
//   - A local socket is this rackd's own machine, and is used only where --bmc-networks has 127.0.0.1.
//
// Everything exported is safe for concurrent use.
package libvirt

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Options of the driver; zero values mean the defaults.
type Options struct {
	// ConnectTimeout bounds a connection with its handshakes; default 30 s. CallTimeout bounds the wait for one answer; default 60 s.
	ConnectTimeout, CallTimeout time.Duration
	// MaxHosts, Pace and Recovery are those of bmc.PoolOptions.
	MaxHosts, Pace int
	Recovery       time.Duration
	// Networks are those that libvirt's hosts are in.
	Networks outbound.BMCs
	// CAFolder holds the PEM files that libvirt_verify_ca may name.
	CAFolder namedfile.Folder
	// Shared is bmc.PoolOptions\'.
	Shared bmc.Shared
	Log    *slog.Logger
}

// Driver implements driver.Power and driver.Management.
type Driver struct {
	opts Options
	pool *bmc.Pool[*session]
}

// New returns a driver without any session; Close ends those that come.
func New(o Options) *Driver {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 30 * time.Second
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 60 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Shared = o.Shared.Filled()
	return &Driver{o, bmc.NewPool[*session](bmc.PoolOptions{Driver: "libvirt", MaxBMCs: o.MaxHosts, Pace: o.Pace, Recovery: o.Recovery, Shared: o.Shared, Log: o.Log})}
}

// Close ends the connections, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (d *Driver) Properties() map[string]string {
	return map[string]string{
		fieldURI:        "Where libvirt is: qemu+ssh://HOST/system, qemu+tls://HOST/system, or qemu:///system for this rackd's own machine. Required.",
		fieldDomain:     "Name or UUID of the machine in libvirt. Required.",
		fieldUser:       "User for SSH. Default root.",
		fieldPassword:   "Password of that user. Optional.",
		fieldPrivateKey: "Private key in PEM: of that user for SSH, or of the client's certificate for TLS. Optional.",
		fieldCert:       "Certificate of the client in PEM, for TLS. Optional.",
		fieldHostKey:    "Public key of the host for SSH, as in a line of known_hosts, or false: it is not checked. Required for SSH.",
		fieldVerifyCA:   "How to check the host's certificate for TLS: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
	}
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	if _, err := t.trust(d.opts).TLS(); err != nil {
		return fmt.Errorf("node %s: %w", n.Label(), err)
	}
	if t.verifyCA == node.PinKey && t.transport != overTLS {
		return fmt.Errorf("node %s: %w", n.Label(), bmc.NoKey(fieldVerifyCA, fieldURI))
	}
	ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if t.transport != local {
		if ip, err = netip.ParseAddr(t.host); err != nil {
			return nil // what a name leads to is checked when it is dialled
		}
	}
	if err := d.opts.Networks.Check(ip); err != nil {
		return fmt.Errorf("node %s: %s: %w", n.Label(), fieldURI, invalid(err))
	}
	return nil
}
