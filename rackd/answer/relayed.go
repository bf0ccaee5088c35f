package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// ofRamdisk answers what an agent said to central. To central a token that does not fit
// is a bad request and no lack of credentials, as it is in Ironic.
func (d *Desk) ofRamdisk(q ask.Request) (answer any, err error) {
	var lookup ask.Lookup
	var beat ask.Heartbeat
	var inventory ask.Inspected
	into := map[ask.Method]any{ask.RamdiskLookup: &lookup, ask.RamdiskHeartbeat: &beat, ask.RamdiskInspected: &inventory}[q.Method]
	if err := json.Unmarshal(q.Args, into); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	lookup.Node = q.Node
	lookup.Central, beat.Central, inventory.Central = true, true, true
	switch q.Method {
	case ask.RamdiskLookup:
		answer, err = d.cfg.Agents.LookupAgent(lookup)
	case ask.RamdiskHeartbeat:
		answer, err = struct{}{}, d.cfg.Agents.Heartbeat(q.Node, beat)
		if errors.Is(err, refusal.ErrBadToken) || errors.Is(err, refusal.ErrNoNode) {
			err = &ask.Error{Status: http.StatusBadRequest, Message: "Invalid or missing agent token received."}
		}
	case ask.RamdiskInspected:
		if len(inventory.Sent) > 0 {
			if err := inventory.Read(inventory.Sent, inventory.PluginData); err != nil {
				return nil, fmt.Errorf("%w: the inventory of node %s: %w", driver.ErrInvalid, q.Node, err)
			}
		}
		answer, err = struct{}{}, d.cfg.Agents.Inspected(q.Node, inventory)
	}
	return answer, err
}

// handedOn takes in what an agent or a machine told another rackd. It is never handed
// on again.
func (d *Desk) handedOn(q ask.Request) (any, error) {
	var lookup ask.Lookup
	var beat ask.Heartbeat
	var sign ask.Sign
	into := map[ask.Method]any{ask.AgentLookup: &lookup, ask.AgentHeartbeat: &beat, ask.MachineSeen: &sign}[q.Method]
	if err := json.Unmarshal(q.Args, into); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	n := d.cfg.Documents.Node(q.Node)
	if q.Method == ask.MachineSeen {
		n = d.cfg.Documents.NodeByMAC(strings.ToLower(sign.Address))
	}
	if n == nil || !strings.EqualFold(n.Group, q.Group) {
		return nil, refusal.ErrNoNode // a rackd hands on only what is of a group that it serves
	}
	switch q.Method {
	case ask.AgentLookup:
		lookup.Node = n.UUID
		return d.cfg.Agents.LookupAgent(lookup)
	case ask.AgentHeartbeat:
		return struct{}{}, d.cfg.Agents.Heartbeat(q.Node, beat)
	}
	d.cfg.Agents.Seen(sign)
	return struct{}{}, nil
}
