// Package ipmi is the power, management and vendor interfaces of machines whose BMC speaks IPMI over LAN. Nodes know them by the
// names that Ironic's have, "ipmitool" and "intel-ipmitool"; no such program is run.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/ipmi/lan, rackd/outbound, protocol and go-ipmi. Datagrams, logins and
// the checks of what arrives are those of rackd/driver/ipmi/lan; sessions, turns, courtesy, the fence and errors those of
// rackd/driver/bmc. Invariants:
//   - An order to a machine is one datagram, right after the fence was asked. It is repeated only when the BMC answered
//     that it is busy.
//   - Each call reads before it writes, and writes nothing that is already so. NMIs, resets of BMCs and raw commands are always sent.
//   - A boot device is read back. What the BMC does not keep is an error that says what to do.
//   - A node's fields are all checked by Validate. Those that cannot be acted on are refused there, with the reason.
//
// Everything exported is safe for concurrent use.
package ipmi

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Options of the driver; zero values mean the defaults.
type Options struct {
	// Timeout bounds the wait for the answer to one request, with its repetitions; default 10 s.
	Timeout time.Duration
	// Idle is how long an unused session stays open; default 45 s.
	Idle time.Duration
	// KeepAlive is how often a BMC is asked whether an open console is still there; default 15 s.
	KeepAlive time.Duration
	// SoftOff is how long a soft reboot waits for the machine to switch itself off; default 600 s, as Ironic's.
	SoftOff time.Duration
	// MaxBMCs bounds the BMCs with an open session, each of which holds a socket; default 1000.
	MaxBMCs int
	// Recovery is power sync's first pause after refused credentials; default 300 s (bmc.PoolOptions).
	Recovery time.Duration
	// Pace is how many operations a second one BMC gets (bmc.PoolOptions).
	Pace int
	// Networks are those that BMCs are in.
	Networks outbound.BMCs
	// Shared is bmc.PoolOptions\'.
	Shared bmc.Shared
	Log    *slog.Logger
}

// Driver implements driver.Power and driver.Management.
type Driver struct {
	opts   Options
	tries  []time.Duration
	pool   *bmc.Pool[*lan.Session]
	suites suites
	forced forced
}

// longestTimeout is the longest default: a BMC that does not answer in that time does not answer at all.
const longestTimeout = 10 * time.Second

// New returns a driver without any session; Close logs out.
func New(o Options) *Driver {
	if o.Timeout <= 0 {
		o.Timeout = longestTimeout
	}
	if o.SoftOff <= 0 {
		o.SoftOff = 600 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{opts: o, tries: tries(o.Timeout), forced: forced{Keeping: bmc.Keeping[always]{Counter: "ipmi_boot_changes"}},
		pool: bmc.NewPool[*lan.Session](bmc.PoolOptions{Driver: "ipmi", MaxBMCs: o.MaxBMCs, Recovery: o.Recovery, Pace: o.Pace, Shared: o.Shared, Log: o.Log})}
}

// tries divides a time into four tries, each longer than the one before.
func tries(whole time.Duration) (list []time.Duration) {
	for i := range 4 {
		list = append(list, whole*time.Duration(i+1)/10)
	}
	return list
}

// Close logs out of every BMC, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (d *Driver) Properties() map[string]string {
	return map[string]string{
		fieldAddress:        "Address of the BMC: an IP address or a host name, without a port. Required.",
		fieldPort:           "UDP port of the BMC. Default 623.",
		fieldUser:           "User of the BMC, at most 16 bytes. Default: the user without a name.",
		fieldPassword:       "Password of that user, at most 20 bytes, in IPMI 1.5 at most 16. Default: none.",
		fieldPrivilege:      "Privilege that a session asks for: ADMINISTRATOR, OPERATOR, USER or CALLBACK. Default ADMINISTRATOR.",
		fieldVersion:        "Version of IPMI: 2.0 or 1.5. Default 2.0.",
		fieldSuite:          "Cipher suite: 17, 3, 16 or 2. Default: 17, then 3 if the BMC refuses 17; what worked is tried first from then on.",
		fieldKey:            "The BMC's key Kg, in at most 40 hexadecimal digits. Default: none, as the BMC needs none unless it was given one.",
		fieldBridging:       "no: the BMC itself is the machine's. single or dual: it passes requests on to the machine's controller. Default no.",
		fieldLocal:          "Address on the bus that bridged requests come from. Default 0x20.",
		fieldTransitChannel: "Channel to the controller that passes requests on, 0 to 15. Required for dual bridging.",
		fieldTransitAddress: "Address of the controller that passes requests on. Required for dual bridging.",
		fieldTargetChannel:  "Channel to the machine's controller, 0 to 15. Required for bridging.",
		fieldTargetAddress:  "Address of the machine's controller. Required for bridging.",
		fieldNoTimeout:      "Whether the BMC is told, before a boot device, to keep it for longer than 60 s. A BMC that has no such timer may refuse. Default true.",
		fieldForce:          "Whether the boot device is set before each start, for BMCs that do not remember it. Default false.",
	}
}

// Account implements driver.Accounted.
func (d *Driver) Account(n *node.Document) string {
	a, err := parse(n)
	if err != nil {
		return ""
	}
	sum := a.sum()
	return hex.EncodeToString(sum[:])
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	a, err := parse(n)
	if err != nil {
		return err
	}
	if err := a.placed(d.opts.Networks); err != nil {
		return fmt.Errorf("node %s: %w", n.Label(), err)
	}
	return nil
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}
