package conductor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/rackd/driver"
)

// ofRamdisk answers what an agent said to central. To central a token that does not fit
// is a bad request and no lack of credentials, as it is in Ironic.
func (c *Conductor) ofRamdisk(q ask.Request) (answer any, err error) {
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
		answer, err = c.LookupAgent(lookup)
	case ask.RamdiskHeartbeat:
		answer, err = struct{}{}, c.Heartbeat(q.Node, beat)
		if errors.Is(err, ErrBadToken) || errors.Is(err, ErrNoNode) {
			err = &ask.Error{Status: http.StatusBadRequest, Message: "Invalid or missing agent token received."}
		}
	case ask.RamdiskInspected:
		if len(inventory.Sent) > 0 {
			if err := inventory.Read(inventory.Sent, inventory.PluginData); err != nil {
				return nil, fmt.Errorf("%w: the inventory of node %s: %w", driver.ErrInvalid, q.Node, err)
			}
		}
		answer, err = struct{}{}, c.Inspected(q.Node, inventory)
	}
	return answer, err
}
