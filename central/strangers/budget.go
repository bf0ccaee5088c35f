// Package strangers bounds what callers cost who are not known: those without an account, and those who show a
// password or a token that nothing has shown to be right yet.
//
// Budget has all the numbers. A Gate holds what is taken of them: slots, bytes of bodies, lines. Each is an amount for all
// strangers together, of which an address may have a share: a fixed one, and never more than is left for other
// addresses. So one address, however greedy, leaves half of each amount to others, two of them leave a third.
//
// It imports nothing of the project. A Gate is safe for concurrent use.
package strangers

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"
)

// Budget is what strangers may cost. A zero is the default of that number.
type Budget struct {
	// Slots is how many of their requests are worked on at once, SlotsPerAddress how many of one address. A password, or a
	// token that is checked, takes one too.
	Slots, SlotsPerAddress int
	// Bytes bounds the memory of their bodies, and of what is made of these; BytesPerAddress that of one address.
	Bytes, BytesPerAddress int64
	// BodyTime is how long the body of a request may take to come, and BodyRate, in bytes a second, what makes this
	// longer for long ones.
	BodyTime time.Duration
	BodyRate int64
	// Time is how long a request may take from when its body is there, and how long a password waits to be checked.
	Time time.Duration
	// Pause is how long a request beyond the budget waits before it hears so: a client that asks again and again asks
	// once in that time over each of its connections.
	Pause time.Duration
	// Values is how many values the JSON of a body may have.
	Values int
	// Lines is how many lines their refusals may write in a minute, to the log and to the audit each; an address
	// writes one of them.
	Lines int
}

// The defaults.
const (
	DefaultSlots           = 64
	DefaultSlotsPerAddress = 16
	DefaultBytes           = 40 << 20
	DefaultBytesPerAddress = 24 << 20
	DefaultBodyTime        = 10 * time.Second
	DefaultBodyRate        = 256 << 10
	DefaultTime            = 15 * time.Second
	DefaultPause           = time.Second
	DefaultValues          = 200_000
	DefaultLines           = 60
)

// Free is how much of a body is read without a part of the budget for it: no more than a connection takes anyway.
// Heartbeats are smaller.
const Free = 4 << 10

// WithDefaults fills in what is not said.
func (b Budget) WithDefaults() Budget {
	b.Slots, b.SlotsPerAddress = cmp.Or(b.Slots, DefaultSlots), cmp.Or(b.SlotsPerAddress, DefaultSlotsPerAddress)
	b.Bytes, b.BytesPerAddress = cmp.Or(b.Bytes, DefaultBytes), cmp.Or(b.BytesPerAddress, DefaultBytesPerAddress)
	b.BodyTime, b.BodyRate = cmp.Or(b.BodyTime, DefaultBodyTime), cmp.Or(b.BodyRate, DefaultBodyRate)
	b.Time, b.Pause = cmp.Or(b.Time, DefaultTime), cmp.Or(b.Pause, DefaultPause)
	b.Values, b.Lines = cmp.Or(b.Values, DefaultValues), cmp.Or(b.Lines, DefaultLines)
	return b
}

// Check says which number cannot be.
func (b Budget) Check() error {
	for _, n := range []struct {
		name  string
		value int64
	}{{"slots", int64(b.Slots)}, {"slots of an address", int64(b.SlotsPerAddress)}, {"bytes", b.Bytes}, {"bytes of an address", b.BytesPerAddress},
		{"time for a body", int64(b.BodyTime)}, {"rate of a body", b.BodyRate}, {"time for a request", int64(b.Time)}, {"pause", int64(b.Pause)},
		{"values of a body", int64(b.Values)}, {"lines a minute", int64(b.Lines)}} {
		if n.value < 0 {
			return fmt.Errorf("strangers' %s: %d: it cannot be negative; 0 means the default", n.name, n.value)
		}
	}
	return nil
}

// Deadline is how long a body of so many bytes may take to come.
func (b Budget) Deadline(size int64) time.Duration {
	return b.BodyTime + time.Duration(float64(size)/float64(b.BodyRate)*float64(time.Second))
}

// sameHost is what one host may choose among of its addresses: all of an IPv6 network of 64 bits.
const sameHost = 64

// of is what shares of the budget are held by: an IPv4 address, or the network of an IPv6 one.
func of(from netip.Addr) netip.Prefix {
	from = from.Unmap().WithZone("")
	bits := from.BitLen()
	if from.Is6() {
		bits = sameHost
	}
	p, err := from.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address is known: all of those share
	}
	return p
}
