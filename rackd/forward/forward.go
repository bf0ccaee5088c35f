// Package forward lets an agent or a machine talk to any rackd of its conductor
// group: what concerns a node whose work another rackd runs is handed on to that one.
//
// It may import protocol and rackd/refusal. Invariants: what was handed on is not
// handed on again; a rackd that does not answer costs the caller no more than
// ask.HandOnTimeout and a 503, and agents try again. What a machine is seen to do again and again is handed on once a second.
package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// Local is this rackd's conductor.
type Local interface {
	LookupAgent(q ask.Lookup) (agentapi.LookupReply, error)
	Heartbeat(node string, hb ask.Heartbeat) error
	CheckToken(node, token string) error
	Seen(s ask.Sign) (elsewhere, group string)
}

// Members finds living rackds by name (rackd/lease).
type Members interface {
	Member(name string) (bus.Member, bool)
}

// Metrics counts what was handed on. Safe for concurrent use.
type Metrics interface {
	HandedOn(m ask.Method, ok bool)
}

// Desk is where agents and machines are heard. Its exported fields do not change; it is safe
// for concurrent use.
type Desk struct {
	Local   Local
	Members Members
	Conn    *nats.Conn
	Metrics Metrics

	mu    sync.Mutex
	told  map[told]bool // within the second that began at since
	since time.Time
}

// told is a sign of a machine.
type told struct{ address, phase string }

// again reports whether the same sign was handed on within this second. Any host in the machines' network may ask for files in a machine's
// name, as fast as it likes. The work's owner writes one line of history for all of that.
func (d *Desk) again(s ask.Sign) bool {
	if s.Leased.IsValid() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.told == nil || now.Sub(d.since) >= time.Second {
		d.told, d.since = map[told]bool{}, now
	}
	key := told{s.Address, s.Phase}
	was := d.told[key]
	d.told[key] = true
	return was
}

// LookupAgent answers an agent that asks which node it is on.
func (d *Desk) LookupAgent(ctx context.Context, q ask.Lookup) (agentapi.LookupReply, error) {
	reply, err := d.Local.LookupAgent(q)
	if other, ok := errors.AsType[*refusal.NotOwnerError](err); ok {
		err = d.handOn(ctx, ask.AgentLookup, other, q, &reply)
	}
	return reply, err
}

// Heartbeat takes in an agent's sign of life.
func (d *Desk) Heartbeat(ctx context.Context, node string, hb ask.Heartbeat) error {
	// What is wrong here is wrong there: nobody is made to carry it.
	err := d.Local.Heartbeat(node, hb)
	if other, ok := errors.AsType[*refusal.NotOwnerError](err); ok {
		if err := d.Local.CheckToken(node, hb.AgentToken); err != nil {
			return err
		}
		return d.handOn(ctx, ask.AgentHeartbeat, other, hb, nil)
	}
	return err
}

// CheckToken returns nil when token is that of the node's work in flight.
func (d *Desk) CheckToken(node, token string) error { return d.Local.CheckToken(node, token) }

// Seen notes what a machine was seen to do. It does not wait for anybody.
func (d *Desk) Seen(mac, phase, detail string) {
	d.tell(ask.Sign{Address: mac, Phase: phase, Detail: detail})
}

// Leased notes that DHCP gave a machine an address, which its agent is known by.
func (d *Desk) Leased(mac string, at netip.Addr, phase, detail string) {
	d.tell(ask.Sign{Address: mac, Phase: phase, Detail: detail, Leased: at})
}

func (d *Desk) tell(s ask.Sign) {
	elsewhere, group := d.Local.Seen(s)
	d.TellOwner(elsewhere, group, s)
}

// TellOwner tells the rackd that runs a machine's work what the machine was seen to do. It does not wait for it.
func (d *Desk) TellOwner(owner, group string, s ask.Sign) {
	m, ok := d.Members.Member(owner)
	if !ok || d.again(s) {
		return
	}
	body, err := question(ask.MachineSeen, "", s)
	if err == nil {
		err = d.Conn.Publish(bus.HandOnSubject(group, m.Name), body)
	}
	d.Metrics.HandedOn(ask.MachineSeen, err == nil) // a line of history, or an address that is told again (conductor.tellLeases)
}

func question(method ask.Method, node string, args any) ([]byte, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return json.Marshal(ask.Request{Method: method, Node: node, Args: raw})
}

// handOn asks the rackd that runs the node's work. Its refusal is returned as an
// *ask.Error, with the status for the agent; silence as the NotOwnerError.
func (d *Desk) handOn(ctx context.Context, method ask.Method, to *refusal.NotOwnerError, args, into any) (err error) {
	defer func() { d.Metrics.HandedOn(method, err == nil) }()
	m, ok := d.Members.Member(to.Owner)
	if !ok {
		return to
	}
	body, err := question(method, to.Node, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ask.HandOnTimeout)
	defer cancel()
	msg, err := d.Conn.RequestWithContext(ctx, bus.HandOnSubject(to.Group, m.Name), body)
	if err != nil {
		return fmt.Errorf("%w; it did not answer: %w", to, err)
	}
	var reply ask.Reply
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		return fmt.Errorf("%w; its answer cannot be read: %w", to, err)
	}
	if reply.Error != nil {
		return reply.Error
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(reply.Body, into)
}
