// Package snmp is the power interface of machines on an outlet of a power distribution unit (PDU) that speaks SNMP. It
// switches the outlet: the machine itself is asked nothing.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/snmp/snmpclient, rackd/outbound, protocol and gosnmp. Turns, courtesy,
// the fence and errors are those of rackd/driver/bmc. Invariants:
//   - A turn belongs to the PDU's address: the machines on its outlets wait for each other, one request at a time.
//   - Each call reads the outlet before it writes, and writes nothing that is already so.
//   - A write is one datagram, and each datagram of it asks the fence. Only reads are repeated here.
//   - Between off and on of one outlet lie at least Options.Hold, so that power supplies discharge.
//   - What is known of a type of PDU is one line of the table in models.go.
//
// Everything exported is safe for concurrent use.
package snmp

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Options of the driver; zero values mean the defaults.
type Options struct {
	// AnswerTimeout bounds the wait for one answer to a read, which is asked for Tries times; default 1 s and 6 times (Ironic's).
	AnswerTimeout time.Duration
	Tries         int
	// SetTimeout bounds the wait for the answer to a write, which is sent once; default 5 s.
	SetTimeout time.Duration
	// Hold lies between off and on of an outlet; default 2 s.
	Hold time.Duration
	// PowerTimeout bounds how long an outlet may take to go off in a reboot, PowerPoll is how often it is read;
	// default 30 s and 1 s.
	PowerTimeout, PowerPoll time.Duration
	// MaxPDUs bounds the PDUs with an open socket; default 1000.
	MaxPDUs int
	// Recovery is power sync's first pause after refused credentials; default 300 s (bmc.PoolOptions).
	Recovery time.Duration
	// Pace is how many calls a second one PDU gets at most (bmc.PoolOptions).
	Pace int
	// Networks are those that PDUs are in.
	Networks outbound.BMCs
	// Shared is bmc.PoolOptions\'.
	Shared bmc.Shared
	Log    *slog.Logger
}

// Driver implements driver.Power.
type Driver struct {
	opts Options
	pool *bmc.Pool[*session]

	mu  sync.Mutex
	off map[string]wentOff // the outlets that this rackd switched off lately
}

// New returns a driver without any session; Close ends those that come.
func New(o Options) *Driver {
	if o.AnswerTimeout <= 0 {
		o.AnswerTimeout = time.Second
	}
	if o.Tries <= 0 {
		o.Tries = 6
	}
	if o.SetTimeout <= 0 {
		o.SetTimeout = 5 * time.Second
	}
	if o.Hold <= 0 {
		o.Hold = 2 * time.Second
	}
	if o.PowerTimeout <= 0 {
		o.PowerTimeout = 30 * time.Second
	}
	if o.PowerPoll <= 0 {
		o.PowerPoll = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{opts: o, off: map[string]wentOff{},
		pool: bmc.NewPool[*session](bmc.PoolOptions{Driver: "snmp", MaxBMCs: o.MaxPDUs, Recovery: o.Recovery, Pace: o.Pace, Shared: o.Shared, Log: o.Log})}
}

// Close closes the sockets. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (d *Driver) Properties() map[string]string {
	return map[string]string{
		fieldDriver:         "Type of the PDU: " + strings.Join(modelNames(), ", ") + ". auto asks the PDU. Required.",
		fieldAddress:        "Host name or address of the PDU. Required.",
		fieldOutlet:         "Number of the outlet, counted from 1. Required.",
		fieldPort:           "UDP port of the PDU. Default 161.",
		fieldVersion:        "1, 2c or 3. Default 1.",
		fieldCommunity:      "Community that reads and writes, with versions 1 and 2c. Required there, unless both of the other two are given.",
		fieldCommunityRead:  "Community that reads, in place of snmp_community. Optional.",
		fieldCommunityWrite: "Community that writes, in place of snmp_community. Optional.",
		fieldUser:           "User, with version 3. Required there.",
		fieldSecurity:       "The older name of snmp_user, which goes before it.",
		fieldAuthProtocol:   "How version 3 authenticates: " + strings.Join(protocolNames(authProtocols), ", ") + ". Default md5 with snmp_auth_key, else none.",
		fieldAuthKey:        "Password for that, of eight characters at least. Optional.",
		fieldPrivProtocol:   "How version 3 encrypts: " + strings.Join(protocolNames(privProtocols), ", ") + ". It needs authentication. Default des with snmp_priv_key, else none.",
		fieldPrivKey:        "Password for that, of eight characters at least. Optional.",
		fieldContextEngine:  "Context engine id for version 3, in hexadecimal digits. Default: that of the PDU.",
		fieldContextName:    "Context name for version 3. Default: empty.",
	}
}

// Account implements driver.Accounted.
func (d *Driver) Account(n *node.Document) string {
	t, err := parse(n)
	if err != nil {
		return ""
	}
	sum := t.Account().Sum
	return hex.EncodeToString(sum[:])
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	if err := t.placed(d.opts.Networks); err != nil {
		return fmt.Errorf("node %s: %w", n.Label(), err)
	}
	return nil
}
