// Package answer answers the questions of central that need no work: what a machine is like, changes that are made at
// once (a boot device, an indicator, a vendor's method), and what agents said to central or to another rackd.
//
// It may import protocol, rackd/driver and rackd/refusal; it declares what it needs of the conductor. Invariants:
//   - A question has an answer within ask.Timeout, or an error that says why not.
//   - A write to a machine passes a fence. Work of the node stands in its way, unless that work does nothing but wait.
//   - A call that another rackd has handed on is never handed on again.
package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
	"github.com/ironyard/ironyard/rackd/view"
)

// Documents is the rack's memory (rackd/view).
type Documents interface {
	Node(id string) *node.Document
	NodeByMAC(mac string) *node.Document
	Work(id string) *view.Work
}

// Members says whether this rackd has its lease (rackd/lease).
type Members interface {
	// Confirm returns nil once the bus has renewed the lease, by a renewal that began after the call.
	Confirm() error
}

// Conductor runs the works of the rackd's nodes (rackd/conductor).
type Conductor interface {
	// Open returns a copy of a node's document with its secrets open.
	Open(n *node.Document) (*node.Document, error)
	// Aside returns the fence for a write beside the node's work while that work does nothing but wait, and what is
	// to be called after the write. ok is false while the work is in the way.
	Aside(node string) (f driver.Fence, done func(), ok bool)
	// CheckFlow says what speaks against the steps of a flow that central is about to accept.
	CheckFlow(f ask.Flow, n *node.Document, hw *driver.Hardware) error
	// CheckChange says what speaks against a change of the machine, without a question to the machine.
	CheckChange(ch *work.Change, n *node.Document, hw *driver.Hardware) error
	// TellHardware reports what was seen of a machine outside of any work.
	TellHardware(ctx context.Context, n *node.Document, o *hardware.Observation) error
	// SettingBoot tells that a node's boot device is about to be set, for one start or for all. over tells that this has ended, and
	// whether it was set. In between, and until the node's document shows it, the boot guard does not set the device of before again.
	SettingBoot(n *node.Document, device string, lasts bool) (over func(set bool))
}

// Agents takes in the calls of agents and the signs of machines (rackd/conductor).
type Agents interface {
	LookupAgent(q ask.Lookup) (agentapi.LookupReply, error)
	Heartbeat(node string, hb ask.Heartbeat) error
	Inspected(node string, i ask.Inspected) error
	Seen(s ask.Sign) (elsewhere, group string)
}

// Consoles are those that this rackd holds open (rackd/console).
type Consoles interface {
	Read(ctx context.Context, node string, q ask.ConsoleRead) (ask.ConsoleOutput, error)
	Write(ctx context.Context, node string, q ask.ConsoleInput) error
	OpenViewer(ctx context.Context, node string, q ask.Viewer) error
	ReadViewer(ctx context.Context, node string, q ask.ViewerRead) (ask.ViewerOutput, error)
	WriteViewer(ctx context.Context, node string, q ask.ViewerInput) error
	CloseViewer(node string, q ask.Viewer)
}

// Config of a Desk.
type Config struct {
	// Name is that of this rackd.
	Name string
	// Documents is the rack's memory.
	Documents Documents
	// Members says whether this rackd has its lease.
	Members Members
	// Hardware resolves the interfaces of a node.
	Hardware *driver.Registry
	// Conductor runs the works of the rackd's nodes.
	Conductor Conductor
	// Agents takes in the calls of agents and the signs of machines.
	Agents Agents
	// Consoles are those that this rackd holds open.
	Consoles Consoles
	// BootScript writes the boot script of a node. nil: this rackd serves no machines.
	BootScript BootScript
}

// Desk answers questions. It is safe for concurrent use.
type Desk struct{ cfg Config }

// New returns a desk.
func New(cfg Config) *Desk { return &Desk{cfg: cfg} }

// Answer answers one question of central's, or takes in a call that another rackd hands on.
func (d *Desk) Answer(ctx context.Context, q ask.Request) ask.Reply {
	ctx, cancel := context.WithTimeout(ctx, ask.Timeout)
	defer cancel()
	body, err := d.answer(ctx, q)
	if err != nil {
		var e *ask.Error
		if !errors.As(err, &e) {
			e = &ask.Error{Status: statusOf(err), Message: err.Error(), Unsupported: errors.Is(err, driver.ErrUnsupported)}
		}
		return ask.Reply{Error: e}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return ask.Reply{Error: &ask.Error{Status: http.StatusInternalServerError, Message: err.Error()}}
	}
	return ask.Reply{Body: raw}
}

func statusOf(err error) int {
	switch status := refusal.Status(err); {
	case status != 0:
		return status
	case errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnsupported):
		return http.StatusBadRequest
	case errors.Is(err, driver.ErrFenced):
		return http.StatusConflict
	case errors.Is(err, driver.ErrUnreachable), errors.Is(err, driver.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func (d *Desk) answer(ctx context.Context, q ask.Request) (any, error) {
	switch q.Method {
	case ask.DriverProperties:
		return d.cfg.Hardware.Properties(q.Driver)
	case ask.RAIDProperties, ask.DriverVendorMethods, ask.CallDriver:
		return d.answerDriver(driver.WithTry(ctx), q)
	case ask.AgentLookup, ask.AgentHeartbeat, ask.MachineSeen:
		return d.handedOn(q)
	case ask.RamdiskLookup, ask.RamdiskHeartbeat, ask.RamdiskInspected:
		return d.ofRamdisk(q)
	}
	known, err := d.heardOf(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.Method.OfConsole() {
		return d.answerConsole(ctx, q)
	}
	n, err := d.cfg.Conductor.Open(known)
	if err != nil {
		return nil, err
	}
	hw, err := d.cfg.Hardware.Resolve(n)
	if err != nil {
		return nil, err
	}
	return d.answerHardware(driver.WithTry(ctx), q, n, hw)
}

// How long a question waits for a change to arrive that its asker knows of, and how
// often it looks.
const (
	hearWithin = 2 * time.Second
	hearEvery  = 20 * time.Millisecond
)

// heardOf returns the node that q is about, not older than its asker knows it.
func (d *Desk) heardOf(ctx context.Context, q ask.Request) (*node.Document, error) {
	for end := time.Now().Add(hearWithin); ; {
		n := d.cfg.Documents.Node(q.Node)
		if n != nil && n.Revision >= q.NodeRevision {
			return n, nil
		}
		if time.Now().After(end) || driver.Pause(ctx, hearEvery) != nil {
			what := "node " + q.Node
			if n != nil {
				what = "the newest change of " + what
			}
			return nil, &ask.Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf("rackd %s has not yet heard of %s; try again", d.cfg.Name, what)}
		}
	}
}

// arguments reads a question's arguments.
func arguments[T any](q ask.Request) (args T, err error) {
	if err = json.Unmarshal(q.Args, &args); err != nil {
		err = fmt.Errorf("arguments of %s: %w: %w", q.Method, err, driver.ErrInvalid)
	}
	return args, err
}
