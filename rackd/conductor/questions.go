package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
)

// idleFence guards a BMC write that belongs to no work.
type idleFence struct {
	c *Conductor
	n *node.Document
	// shared: work on the node does not stand in its way.
	shared bool
}

func (f idleFence) Check() error {
	if err := f.c.cfg.Members.Confirm(); err != nil {
		return fmt.Errorf("node %s: %w: %w", f.n.Label(), driver.ErrFenced, err)
	}
	if w := f.c.cfg.Documents.Work(f.n.UUID); !f.shared && w != nil && w.Doc.Open() {
		return fmt.Errorf("node %s: %w: work %s (%s) has begun", f.n.Label(), driver.ErrFenced, w.Doc.ID, w.Doc.Verb)
	}
	return nil
}

// beside returns the fence for a write that is not part of the node's open work, and what
// is to be called after it. Work that does nothing but wait, for the machine or for an
// operator, stands aside for as long; other work is in the way.
func (c *Conductor) beside(n *node.Document) (driver.Fence, func(), error) {
	w := c.cfg.Documents.Work(n.UUID)
	if w == nil || !w.Doc.Open() {
		return idleFence{c: c, n: n}, func() {}, nil
	}
	if r := c.runner(n.UUID); r != nil && r.turn.TryLock() {
		if in, _ := provision.Describe(r.doc.State); r.parked && (in.Kind == provision.Waiting || in.Kind == provision.Held) {
			return besideFence{r}, r.turn.Unlock, nil
		}
		r.turn.Unlock()
	}
	return nil, nil, locked(n, w.Doc.Owner)
}

func locked(n *node.Document, owner string) *ask.Error {
	return &ask.Error{Status: http.StatusConflict, Locked: true,
		Message: fmt.Sprintf("Node %s is locked by host %s, please retry after the current operation is completed.", n.UUID, owner)}
}

// begins checks the fence before the first write. Work that came meanwhile makes the node locked: nothing has been
// sent, so that who asks may ask again.
func (c *Conductor) begins(f driver.Fence, n *node.Document) error {
	err := f.Check()
	if idle, ok := f.(idleFence); ok && err != nil && !idle.shared {
		if w := c.cfg.Documents.Work(n.UUID); w != nil && w.Doc.Open() {
			return locked(n, w.Doc.Owner)
		}
	}
	return err
}

func (idleFence) Work() string  { return "" }
func (idleFence) Epoch() uint64 { return 0 }

// Answer answers one question of central's.
func (c *Conductor) Answer(ctx context.Context, q ask.Request) ask.Reply {
	ctx, cancel := context.WithTimeout(ctx, ask.Timeout)
	defer cancel()
	body, err := c.answer(ctx, q)
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
	switch {
	case errors.Is(err, ErrNoNode):
		return http.StatusNotFound
	case errors.Is(err, ErrBadToken):
		return http.StatusUnauthorized
	case errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnsupported), errors.Is(err, ErrBadCallback):
		return http.StatusBadRequest
	case errors.Is(err, ErrNotOwner), errors.Is(err, ErrInDoubt):
		return http.StatusServiceUnavailable
	case errors.Is(err, driver.ErrFenced):
		return http.StatusConflict
	case errors.Is(err, driver.ErrUnreachable), errors.Is(err, driver.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func (c *Conductor) answer(ctx context.Context, q ask.Request) (any, error) {
	switch q.Method {
	case ask.DriverProperties:
		return c.cfg.Hardware.Properties(q.Driver)
	case ask.RAIDProperties, ask.DriverVendorMethods, ask.CallDriver:
		return c.answerDriver(ctx, q)
	case ask.AgentLookup, ask.AgentHeartbeat, ask.MachineSeen:
		return c.handedOn(q)
	case ask.RamdiskLookup, ask.RamdiskHeartbeat, ask.RamdiskInspected:
		return c.ofRamdisk(q)
	}
	known, err := c.heardOf(ctx, q)
	if err != nil {
		return nil, err
	}
	n, err := c.open(known)
	if err != nil {
		return nil, err
	}
	hw, err := c.cfg.Hardware.Resolve(n)
	if err != nil {
		return nil, err
	}
	switch q.Method {
	case ask.Validate:
		return c.judge(q, n, hw)
	case ask.SupportedBootDevices:
		return hw.Management().SupportedBootDevices(ctx, n)
	case ask.GetBootDevice:
		return hw.Management().BootDevice(ctx, n)
	case ask.SetBootDevice:
		var d ask.BootDevice
		if err := json.Unmarshal(q.Args, &d); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
		}
		return c.writes(ctx, n, hw, func(f driver.Fence) error {
			return hw.Management().SetBootDevice(ctx, f, n, driver.BootDevice(d.Device), d.Persistent != nil && *d.Persistent)
		})
	case ask.InjectNMI:
		return c.writes(ctx, n, hw, func(f driver.Fence) error { return hw.Management().InjectNMI(ctx, f, n) })
	}
	return c.answerHardware(ctx, q, n, hw)
}

// How long a question waits for a change to arrive that its asker knows of, and how
// often it looks.
const (
	hearWithin = 2 * time.Second
	hearEvery  = 20 * time.Millisecond
)

// heardOf returns the node that q is about, not older than its asker knows it.
func (c *Conductor) heardOf(ctx context.Context, q ask.Request) (*node.Document, error) {
	for end := time.Now().Add(hearWithin); ; {
		n := c.cfg.Documents.Node(q.Node)
		if n != nil && n.Revision >= q.NodeRevision {
			return n, nil
		}
		if time.Now().After(end) || pause(ctx, hearEvery) != nil {
			what := "node " + q.Node
			if n != nil {
				what = "the newest change of " + what
			}
			return nil, &ask.Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf("rackd %s has not yet heard of %s; try again", c.cfg.Name, what)}
		}
	}
}

// handedOn takes in what an agent or a machine told another rackd. It is never handed
// on again.
func (c *Conductor) handedOn(q ask.Request) (any, error) {
	var lookup ask.Lookup
	var beat ask.Heartbeat
	var sign ask.Sign
	into := map[ask.Method]any{ask.AgentLookup: &lookup, ask.AgentHeartbeat: &beat, ask.MachineSeen: &sign}[q.Method]
	if err := json.Unmarshal(q.Args, into); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	n := c.cfg.Documents.Node(q.Node)
	if q.Method == ask.MachineSeen {
		n = c.cfg.Documents.NodeByMAC(strings.ToLower(sign.Address))
	}
	if n == nil || !strings.EqualFold(n.Group, q.Group) {
		return nil, ErrNoNode // nobody hands on what is not of a group that it serves
	}
	switch q.Method {
	case ask.AgentLookup:
		lookup.Node = n.UUID
		return c.LookupAgent(lookup)
	case ask.AgentHeartbeat:
		return struct{}{}, c.Heartbeat(q.Node, beat)
	}
	c.Seen(sign)
	return struct{}{}, nil
}

func validate(hw *driver.Hardware, n *node.Document) map[string]ask.Validation {
	out := map[string]ask.Validation{}
	impls, unread := hw.Kinds(), hw.Unread(n)
	for _, kind := range node.InterfaceKinds {
		if _, ok := impls[kind]; !ok {
			out[kind] = ask.Validation{Reason: "not supported"}
			continue
		}
		good, reason := true, unread[kind]
		if err := hw.Validate(kind, n); err != nil {
			good, reason = false, err.Error()
		}
		out[kind] = ask.Validation{Result: &good, Reason: reason}
	}
	return out
}
