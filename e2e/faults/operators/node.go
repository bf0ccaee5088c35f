package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// Node is what an operator sees of a node.
type Node struct {
	UUID        string          `json:"uuid"`
	Name        string          `json:"name"`
	State       provision.State `json:"provision_state"`
	Target      provision.State `json:"target_provision_state"`
	Power       string          `json:"power_state"`
	TargetPower string          `json:"target_power_state"`
	Maintenance bool            `json:"maintenance"`
	LastError   string          `json:"last_error"`
	Reservation string          `json:"reservation"`
	Conductor   string          `json:"conductor"`
	Group       string          `json:"conductor_group"`
}

// Resting reports whether nothing is going on with the node.
func (n *Node) Resting() bool {
	return !provision.Transient(n.State) && n.Reservation == "" && n.TargetPower == ""
}

// Machine is what is to be enrolled.
type Machine struct {
	Name       string
	Group      string
	Driver     string
	DriverInfo map[string]any
	Properties map[string]any
	Interfaces map[string]string // such as deploy_interface
	MACs       []string
	Clean      bool // automated cleaning
}

// Enrol creates the node and its ports and returns the node's UUID. It is for quiet
// times: every answer must come.
func (c *Client) Enrol(ctx context.Context, m Machine) (string, error) {
	body := map[string]any{"name": m.Name, "driver": m.Driver, "driver_info": m.DriverInfo, "properties": m.Properties,
		"conductor_group": m.Group, "automated_clean": m.Clean}
	for kind, name := range m.Interfaces {
		body[kind] = name
	}
	r, answer := c.send(ctx, "", "", "create "+m.Name, "POST", "/v1/nodes", body)
	if !r.Accepted() {
		return "", fmt.Errorf("create node %s: %d: %s", m.Name, r.Status, r.Fault)
	}
	var n Node
	if err := json.Unmarshal(answer, &n); err != nil {
		return "", fmt.Errorf("create node %s: %w", m.Name, err)
	}
	for _, mac := range m.MACs {
		r := c.Send(ctx, n.UUID, "", "create port", "POST", "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": mac})
		if !r.Accepted() {
			return "", fmt.Errorf("create port %s of node %s: %d: %s", mac, m.Name, r.Status, r.Fault)
		}
	}
	return n.UUID, nil
}

// Show returns the node.
func (c *Client) Show(ctx context.Context, node string) (*Node, error) {
	n := new(Node)
	return n, c.Read(ctx, "/v1/nodes/"+node, n)
}

// SetImage tells the node what its next deploy writes.
func (c *Client) SetImage(ctx context.Context, node string, image map[string]any) *Request {
	return c.Send(ctx, node, "", "image", "PATCH", "/v1/nodes/"+node, []any{map[string]any{"op": "add", "path": "/instance_info", "value": image}})
}

// Ask asks for a verb of the state machine.
func (c *Client) Ask(ctx context.Context, node, seen, verb string) *Request {
	body := map[string]any{"target": verb}
	if verb == "clean" {
		body["clean_steps"] = []any{map[string]any{"interface": "deploy", "step": "erase_devices_metadata"}}
	}
	return c.Send(ctx, node, seen, verb, "PUT", "/v1/nodes/"+node+"/states/provision", body)
}

// Power asks for a power state.
func (c *Client) Power(ctx context.Context, node, seen, target string) *Request {
	return c.Send(ctx, node, seen, "power "+strings.TrimPrefix(target, "power "), "PUT", "/v1/nodes/"+node+"/states/power", map[string]any{"target": target})
}

// Maintain sets or ends maintenance.
func (c *Client) Maintain(ctx context.Context, node, seen string, on bool) *Request {
	path := "/v1/nodes/" + node + "/maintenance"
	if on {
		return c.Send(ctx, node, seen, "maintenance on", "PUT", path, map[string]any{"reason": "an operator looks"})
	}
	return c.Send(ctx, node, seen, "maintenance off", "DELETE", path, nil)
}

// Delete removes the node.
func (c *Client) Delete(ctx context.Context, node, seen string) *Request {
	return c.Send(ctx, node, seen, "delete", "DELETE", "/v1/nodes/"+node, nil)
}

// lookEvery is how often a node is looked at while waiting.
const lookEvery = 300 * time.Millisecond

// Wait waits until the node rests in want. A node that comes to rest elsewhere is an
// error.
func (c *Client) Wait(ctx context.Context, node string, want provision.State) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		n, err := c.Show(ctx, node)
		switch {
		case err != nil:
			return err
		case n.State == want && n.Resting():
			return nil
		case n.State != want && n.Resting():
			return fmt.Errorf("node %s rests in %q instead of %q: %s", n.Name, n.State, want, n.LastError)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s is still %q, held by %q: %w", n.Name, n.State, n.Reservation, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Do asks for a verb and waits for the state where it leads.
func (c *Client) Do(ctx context.Context, node, verb string, want provision.State) error {
	if r := c.Ask(ctx, node, "", verb); !r.Accepted() {
		return fmt.Errorf("ask node %s to %s: %d: %s", node, verb, r.Status, r.Fault)
	}
	return c.Wait(ctx, node, want)
}
