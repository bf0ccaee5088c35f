// Package lan is one session with one BMC by IPMI over LAN: RMCP+ of IPMI 2.0, the sessions of IPMI 1.5, and bridging
// to controllers behind the BMC.
//
// It owns the socket, the login, sequence numbers, and the checks of what arrives. Messages of the login and cryptography are
// those of go-ipmi; the client of that library is not used (docs/decisions has why). It may import go-ipmi and nothing of the
// project. Invariants:
//   - An order leaves once. Only questions are repeated.
//   - In a session, a datagram counts only if its authentication code is right and its number is new. Others are noise.
//   - A session that was not used for Options.Idle ends by itself: the BMC gets its slot back and the socket is closed.
//   - No error holds a password or a key.
//
// Sections are those of the IPMI specification, version 2.0 revision 1.1.
package lan

import (
	"context"
	"net"
	"time"
)

// Privilege is a level of section 6.8.
type Privilege uint8

// The privilege levels.
const (
	Callback      Privilege = 1
	User          Privilege = 2
	Operator      Privilege = 3
	Administrator Privilege = 4
)

// Target is a BMC and how to log in to it.
type Target struct {
	// Address is host:port.
	Address string
	// Username of at most 16 bytes and Password of at most 20, 16 in version 1.5. Both may be empty.
	Username, Password string
	Privilege          Privilege
	// Key is the BMC's key Kg, for BMCs with two-key logins; nil: the password is the key.
	Key []byte
	// Old asks for a session of IPMI 1.5.
	Old bool
	// Suites are the cipher suites that are tried in turn.
	Suites []uint8
}

// Bridge is the way to a controller behind a BMC (section 6.13.3).
type Bridge struct {
	// Local is the address that the requests come from on the bus, usually 20h.
	Local uint8
	// TransitChannel and TransitAddress lead to a controller that sends on. It is there in a dual bridge.
	Dual                           bool
	TransitChannel, TransitAddress uint8
	TargetChannel, TargetAddress   uint8
}

// Request is one command.
type Request struct {
	NetFn, LUN, Command uint8
	Data                []byte
	// Via is the way to the controller that it is for; nil: the BMC itself.
	Via *Bridge
}

// Options of a session; zero values mean the defaults.
type Options struct {
	// Dial opens a connected UDP socket; default: net.Dialer.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Tries are how long the tries of a question wait for their answer, one after the other; default 1, 2, 3 and 4 s. An
	// order waits as long as all of them together.
	Tries []time.Duration
	// Idle is how long an unused session stays open; default 45 s. BMCs end sessions themselves after 60 s (section 6.12.15).
	Idle time.Duration
}

func (o Options) filled() Options {
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "udp", address)
		}
	}
	if len(o.Tries) == 0 {
		o.Tries = []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
	}
	if o.Idle <= 0 {
		o.Idle = 45 * time.Second
	}
	return o
}

// wait is how long an order waits for its answer.
func (o Options) wait() (all time.Duration) {
	for _, d := range o.Tries {
		all += d
	}
	return all
}
