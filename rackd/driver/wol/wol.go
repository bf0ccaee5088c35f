// Package wol is the power interface of machines that wake when their network card receives a magic packet (Wake-on-LAN).
// Nothing else reaches them: they are not switched off from here, and nothing tells whether they run.
//
// It may import rackd/driver, rackd/outbound and protocol. Invariants:
//   - Each packet asks the fence before it leaves. Packets for one node leave Options.Gap apart.
//   - The power state is what was asked for last, by this rackd; empty before.
//   - An order to go on is always sent: a machine may have gone off unseen, and one that runs takes no notice.
//
// Everything exported is safe for concurrent use.
package wol

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Fields of driver_info, with Ironic's names. fieldPassword is Ironyard's own.
const (
	fieldHost     = "wol_host"
	fieldPort     = "wol_port"
	fieldPassword = "wol_password"
)

// broadcast reaches all machines of the network that it is sent to.
const broadcast = "255.255.255.255"

// Options of the driver; zero values mean the defaults.
type Options struct {
	// Gap is the time between two packets for one node; default 0.5 s (Ironic's).
	Gap time.Duration
	// Interface is the network interface that broadcasts leave by; empty: that of the default route.
	Interface string
	// Networks are those that wol_host may be in, if it is not the broadcast address.
	Networks outbound.BMCs
}

// Driver implements driver.Power.
type Driver struct {
	opts Options
	mu   sync.Mutex
	woke map[string]bool // the nodes that this rackd has sent packets for
}

// New returns a driver.
func New(o Options) *Driver {
	if o.Gap <= 0 {
		o.Gap = 500 * time.Millisecond
	}
	return &Driver{opts: o, woke: map[string]bool{}}
}

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldHost:     "Where magic packets are sent: the broadcast address of the machine's network, or an address that is routed to it. Default " + broadcast + ".",
		fieldPort:     "UDP port that they are sent to. Default 9.",
		fieldPassword: "SecureOn password of the network card, six octets written as a MAC address. Optional.",
	}
}

// order is where packets go, and what each has at its end.
type order struct {
	host, port string
	password   []byte
	macs       []net.HardwareAddr
}

func (d *Driver) parse(n *node.Document) (o order, err error) {
	refuse := func(format string, args ...any) (order, error) {
		return order{}, fmt.Errorf("node %s: %w", n.Label(), driver.Refuse(format, args...))
	}
	if o.host = n.DriverString(fieldHost); o.host == "" {
		o.host = broadcast
	}
	ip, err := netip.ParseAddr(o.host)
	switch {
	case err != nil && strings.ContainsAny(o.host, "/:[]@?#% \t\r\n\\"):
		return refuse("%s is neither a host name nor an address: %q", fieldHost, o.host)
	case err == nil && o.host != broadcast:
		if err := d.opts.Networks.Check(ip); err != nil {
			return refuse("%s: %v", fieldHost, err)
		}
	}
	if o.port = n.DriverString(fieldPort); o.port == "" {
		o.port = "9"
	}
	switch port, err := strconv.Atoi(o.port); {
	case err != nil:
		return refuse("%s \"%s\" is not a valid integer.", fieldPort, o.port)
	case port < 1 || port > 65535:
		return refuse("%s \"%s\" is out of range. Valid port numbers must be between 1 and 65535.", fieldPort, o.port)
	}
	if text := n.DriverString(fieldPassword); text != "" {
		o.password, err = hex.DecodeString(strings.NewReplacer(":", "", "-", "").Replace(text))
		if err != nil || len(o.password) != 6 {
			return refuse("%s is not six octets in hexadecimal digits", fieldPassword)
		}
	}
	for _, p := range n.Ports {
		mac, err := net.ParseMAC(p.Address)
		if err != nil || len(mac) != 6 {
			return refuse("port %s has no MAC address of six octets: %q", p.UUID, p.Address)
		}
		o.macs = append(o.macs, mac)
	}
	if len(o.macs) == 0 {
		return refuse("Wake-On-Lan needs at least one port resource to be registered in the node")
	}
	return o, nil
}

// packet is what wakes the card with that address.
func (o order) packet(mac net.HardwareAddr) []byte {
	return append(append(bytes.Repeat([]byte{0xff}, 6), bytes.Repeat(mac, 16)...), o.password...)
}

// Validate checks driver_info and the node's ports.
func (d *Driver) Validate(n *node.Document) error {
	_, err := d.parse(n)
	return err
}

// PowerTargets lists the supported targets. A reboot wakes a machine that is off, and does nothing to one that runs.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.Rebooting}
}

// PowerState is what was asked for last, empty where nothing was.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (driver.PowerState, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("node %s: %w", n.Label(), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.woke[n.UUID] {
		return driver.PowerOn, nil
	}
	return "", nil
}

// SetPower sends a magic packet to each of the node's ports.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	switch target {
	case driver.PowerOn, driver.Rebooting:
	case driver.PowerOff, driver.SoftPowerOff:
		return fmt.Errorf("node %s: Wake-On-Lan does not support %q. Shut the machine's system down, or switch it off by hand: %w", n.Label(), target, driver.ErrUnsupported)
	default:
		return fmt.Errorf("node %s: Wake-On-Lan does not support %q: %w", n.Label(), target, driver.ErrUnsupported)
	}
	o, err := d.parse(n)
	if err != nil {
		return err
	}
	if err := d.send(ctx, f, o); err != nil {
		if errors.Is(err, driver.ErrFenced) {
			return err
		}
		return fmt.Errorf("node %s: Failed to send Wake-On-Lan magic packets to %s (%w): check %s and the network of this rackd: %w",
			n.Label(), net.JoinHostPort(o.host, o.port), err, fieldHost, driver.ErrUnreachable)
	}
	d.mu.Lock()
	d.woke[n.UUID] = true
	d.mu.Unlock()
	return nil
}

// send sends the packets. No answer tells whether one has arrived.
func (d *Driver) send(ctx context.Context, f driver.Fence, o order) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	conn, err := d.dialer(o.host).DialContext(ctx, "udp", net.JoinHostPort(o.host, o.port))
	if err != nil {
		return err
	}
	defer conn.Close()
	for i, mac := range o.macs {
		if i > 0 {
			if err := driver.Pause(ctx, d.opts.Gap); err != nil {
				return err
			}
		}
		if err := f.Check(); err != nil {
			return err
		}
		if _, err := conn.Write(o.packet(mac)); err != nil {
			return err
		}
	}
	return nil
}
