package bmc

import (
	"errors"

	"github.com/ironyard/ironyard/rackd/driver"
)

var errNoFence = errors.New("a write without a fence")

// Order puts one write to a machine on the wire, over a transport that is not HTTP: a datagram, a line, an SNMP set.
// It asks the fence right before. send returns what the BMC answered, as a *Failure if that is a refusal. Without
// an answer, left tells whether the write may have reached the BMC: the error is then a *Lost.
//
// A send that repeats its datagram calls Order for each one.
func Order(f driver.Fence, send func() (left bool, err error)) error {
	if f == nil {
		return errNoFence
	}
	if err := f.Check(); err != nil {
		return err
	}
	left, err := send()
	if _, answered := errors.AsType[*Failure](err); err == nil || answered {
		return err
	}
	return &Lost{Err: err, Unknown: left}
}

// Lost is a request without an answer.
type Lost struct {
	Err error
	// Unknown: it was a write to the machine, and it left.
	Unknown bool
	// Left: it left, whatever it was (HTTP).
	Left bool
	// Dead: a connection that was kept ended before anything came on it, and no time ran out (HTTP).
	Dead bool
}

func (l *Lost) Error() string { return l.Err.Error() }

// Unwrap returns what came in place of the answer.
func (l *Lost) Unwrap() error { return l.Err }
