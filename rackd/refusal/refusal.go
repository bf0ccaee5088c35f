// Package refusal holds the reasons for which a rackd refuses the call of an agent or of a machine.
//
// It may import the standard library only. The conductor and its runners return these errors; the agents' door,
// the proxy between rackds and the answers to central map them to what the caller sees.
// Invariant: a stranger learns nothing from an error. An unknown machine, a machine in another state and a caller without
// proof all get ErrNoNode.
package refusal

import (
	"errors"
	"fmt"
	"net/http"
)

var (
	// ErrNoNode means that the caller may know no node of this rackd.
	ErrNoNode = errors.New("no node with work for an agent has this address")
	// ErrBadToken means that the heartbeat's token is not the one that the lookup gave.
	ErrBadToken = errors.New("wrong agent token")
	// ErrBadCallback means that the heartbeat's callback URL is not acceptable.
	ErrBadCallback = errors.New("unacceptable callback URL")
	// ErrNotOwner means that another rackd runs the node's work.
	ErrNotOwner = errors.New("another rackd serves this node")
	// ErrInDoubt means that another agent of the node has called before. This rackd asks that agent whether it is still there.
	ErrInDoubt = errors.New("another agent of this node has called before; this rackd asks it whether it is still there: try again")
	// ErrNotKept means that what an installer reports, or where an agent is, was not written down in time.
	ErrNotKept = errors.New("this rackd could not write the call down in time: call again")
	// ErrUnproven means that this rackd asks the node's BMC which machine it belongs to.
	ErrUnproven = errors.New("this rackd asks the node's BMC which machine this is: try again")
)

// NotOwnerError is an ErrNotOwner that names the rackd that runs the node's work.
type NotOwnerError struct {
	Node  string // its UUID
	Group string // the node's conductor group
	Owner string // the rackd's name; empty: no rackd has taken the work yet
}

// Error implements error.
func (e *NotOwnerError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("node %s: no rackd has taken its work yet; try again", e.Node)
	}
	return fmt.Sprintf("node %s: %v: %s", e.Node, ErrNotOwner, e.Owner)
}

// Unwrap makes the error an ErrNotOwner.
func (e *NotOwnerError) Unwrap() error { return ErrNotOwner }

// Status is the HTTP status of a refusal; 0: err is none.
func Status(err error) int {
	switch {
	case errors.Is(err, ErrNoNode):
		return http.StatusNotFound
	case errors.Is(err, ErrBadToken):
		return http.StatusUnauthorized
	case errors.Is(err, ErrBadCallback):
		return http.StatusBadRequest
	case errors.Is(err, ErrNotOwner), errors.Is(err, ErrInDoubt), errors.Is(err, ErrNotKept), errors.Is(err, ErrUnproven):
		return http.StatusServiceUnavailable
	}
	return 0
}

// The calls that a rackd may refuse, as its metrics and its log name them.
const (
	LookupCall     = "lookup"
	HeartbeatCall  = "heartbeat"
	InspectionCall = "inspection"
)
