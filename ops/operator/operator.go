// Package operator does, through the REST API and gophercloud, what an operator of
// Ironic does: enrol a node, move it through its states, wait and say why it failed.
// The demo, the lab and the end-to-end tests are such operators.
//
// It may import protocol/provision and gophercloud, nothing of central.
package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"

	"github.com/ironyard/ironyard/protocol/provision"
)

// Microversion is what the operator speaks: the newest that gophercloud's types cover.
const Microversion = "1.95"

// pollEvery is how often a node's state is read while waiting.
const pollEvery = 250 * time.Millisecond

// Operator is safe for concurrent use.
type Operator struct {
	client *gophercloud.ServiceClient
}

// New returns an operator of the API at endpoint, such as http://127.0.0.1:6385.
func New(endpoint string) (*Operator, error) {
	c, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint + "/v1"})
	if err != nil {
		return nil, err
	}
	c.Microversion = Microversion
	return &Operator{client: c}, nil
}

// Base is the API's base URL, without /v1.
func (o *Operator) Base() string { return strings.TrimSuffix(o.client.Endpoint, "/v1/") }

// Machine is what is to be enrolled.
type Machine struct {
	Name       string
	Driver     string
	DriverInfo map[string]any
	Properties map[string]any
	Interfaces map[string]string // of kinds boot, console, deploy, inspect and rescue
	MACs       []string
	Group      string // conductor group
	// Clean: run automated cleaning on the way to available and after undeploy.
	Clean bool
}

// Enrol creates the node and its ports and returns the node's UUID.
func (o *Operator) Enrol(ctx context.Context, m Machine) (string, error) {
	n, err := nodes.Create(ctx, o.client, nodes.CreateOpts{Name: m.Name, ConductorGroup: m.Group, Driver: m.Driver, DriverInfo: m.DriverInfo,
		Properties: m.Properties, AutomatedClean: &m.Clean, BootInterface: m.Interfaces["boot"], ConsoleInterface: m.Interfaces["console"], DeployInterface: m.Interfaces["deploy"],
		InspectInterface: m.Interfaces["inspect"], RescueInterface: m.Interfaces["rescue"]}).Extract()
	if err != nil {
		return "", fmt.Errorf("create node %s: %w", m.Name, err)
	}
	for _, mac := range m.MACs {
		if _, err := ports.Create(ctx, o.client, ports.CreateOpts{NodeUUID: n.UUID, Address: mac}).Extract(); err != nil {
			return "", fmt.Errorf("create port %s of node %s: %w", mac, m.Name, err)
		}
	}
	return n.UUID, nil
}

// Image is an instance's image.
type Image struct {
	URL, SHA256, DiskFormat, Compression string
}

// SetImage tells the node which image its next deploy writes.
func (o *Operator) SetImage(ctx context.Context, node string, i Image) error {
	info := map[string]any{"image_source": i.URL, "image_os_hash_algo": "sha256", "image_os_hash_value": i.SHA256, "image_disk_format": i.DiskFormat}
	if i.Compression != "" {
		info["image_compression"] = i.Compression
	}
	return o.patch(ctx, node, "/instance_info", info)
}

// SetDriverInfo changes one field of driver_info.
func (o *Operator) SetDriverInfo(ctx context.Context, node, field string, value any) error {
	return o.patch(ctx, node, "/driver_info/"+field, value)
}

// Set changes a field of the node; path is a JSON pointer.
func (o *Operator) Set(ctx context.Context, node, path string, value any) error {
	return o.patch(ctx, node, path, value)
}

func (o *Operator) patch(ctx context.Context, node, path string, value any) error {
	_, err := nodes.Update(ctx, o.client, node, nodes.UpdateOpts{nodes.UpdateOperation{Op: nodes.AddOp, Path: path, Value: value}}).Extract()
	if err != nil {
		return fmt.Errorf("set %s of node %s: %w", path, node, err)
	}
	return nil
}

// Ask asks for a verb of the state machine; drive may be nil.
func (o *Operator) Ask(ctx context.Context, node, verb string, drive any) error {
	err := nodes.ChangeProvisionState(ctx, o.client, node, nodes.ProvisionStateOpts{Target: nodes.TargetProvisionState(verb), ConfigDrive: drive}).ExtractErr()
	if err != nil {
		return fmt.Errorf("ask node %s to %s: %w", node, verb, err)
	}
	return nil
}

// Provision asks for a verb of the state machine with whatever arguments it takes.
func (o *Operator) Provision(ctx context.Context, node string, body map[string]any) error {
	resp, err := o.client.Put(ctx, o.client.ServiceURL("nodes", node, "states", "provision"), body, nil, &gophercloud.RequestOpts{OkCodes: []int{202}})
	if err != nil {
		return fmt.Errorf("ask node %s to %v: %w", node, body["target"], err)
	}
	return resp.Body.Close()
}

// Power asks for a power state.
func (o *Operator) Power(ctx context.Context, node, target string) error {
	err := nodes.ChangePowerState(ctx, o.client, node, nodes.PowerStateOpts{Target: nodes.TargetPowerState(target)}).ExtractErr()
	if err != nil {
		return fmt.Errorf("ask node %s for %q: %w", node, target, err)
	}
	return nil
}

// Show returns the node.
func (o *Operator) Show(ctx context.Context, node string) (*nodes.Node, error) {
	return nodes.Get(ctx, o.client, node).Extract()
}

// Unfit says why the node cannot be deployed as it is: what validate finds of its boot, deploy and storage interfaces; empty:
// nothing.
func (o *Operator) Unfit(ctx context.Context, node string) (string, error) {
	v, err := nodes.Validate(ctx, o.client, node).Extract()
	if err != nil {
		return "", fmt.Errorf("validate node %s: %w", node, err)
	}
	var reasons []string
	for _, i := range []nodes.DriverValidation{v.Boot, v.Deploy, v.Storage} {
		if !i.Result {
			reasons = append(reasons, i.Reason)
		}
	}
	return strings.Join(reasons, "; "), nil
}

// HistoryEntry is a line of a node's history.
type HistoryEntry struct {
	Event     string `json:"event"`
	EventType string `json:"event_type"`
	Conductor string `json:"conductor"`
	Severity  string `json:"severity"`
}

// History returns the newest lines of a node's history.
func (o *Operator) History(ctx context.Context, node string) ([]HistoryEntry, error) {
	var body struct {
		History []HistoryEntry `json:"history"`
	}
	resp, err := o.client.Get(ctx, o.client.ServiceURL("nodes", node, "history")+"?detail=true", &body, nil)
	if err != nil {
		return nil, fmt.Errorf("history of node %s: %w", node, err)
	}
	return body.History, resp.Body.Close()
}

// HistoryText returns the events of a node's history, a line each.
func (o *Operator) HistoryText(ctx context.Context, node string) (string, error) {
	history, err := o.History(ctx, node)
	var all []string
	for _, h := range history {
		all = append(all, h.Event)
	}
	return strings.Join(all, "\n"), err
}

// Delete removes the node.
func (o *Operator) Delete(ctx context.Context, node string) error {
	return nodes.Delete(ctx, o.client, node).ExtractErr()
}

// FailedError says that a node ended in another state than was waited for.
type FailedError struct {
	Node, State, LastError string
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("node %s is in state %q: %s", e.Node, e.State, e.LastError)
}

// Wait waits until the node rests in want. A node that comes to rest in another
// state is a *FailedError.
func (o *Operator) Wait(ctx context.Context, node string, want provision.State) (*nodes.Node, error) {
	n, err := o.until(ctx, node, func(n *nodes.Node) bool {
		state := provision.State(n.ProvisionState)
		return state == want || !provision.Transient(state)
	})
	switch {
	case err != nil && n != nil:
		return n, fmt.Errorf("node %s is still in state %q: %w", node, n.ProvisionState, err)
	case err != nil:
		return nil, err
	case provision.State(n.ProvisionState) != want:
		return n, &FailedError{Node: node, State: n.ProvisionState, LastError: n.LastError}
	}
	return n, nil
}

// WaitFree waits until no rackd works on the node. An aborted node is shown in its state of rest before its rackd has ended.
func (o *Operator) WaitFree(ctx context.Context, node string) error {
	n, err := o.until(ctx, node, func(n *nodes.Node) bool { return n.Reservation == "" })
	if err != nil && n != nil {
		return fmt.Errorf("node %s is still locked by host %s: %w", node, n.Reservation, err)
	}
	return err
}

// WaitPower waits until the node's power state is want.
func (o *Operator) WaitPower(ctx context.Context, node, want string) error {
	n, err := o.until(ctx, node, func(n *nodes.Node) bool { return n.PowerState == want && n.TargetPowerState == "" })
	if err != nil && n != nil {
		return fmt.Errorf("node %s is still %q (last error: %s): %w", node, n.PowerState, n.LastError, err)
	}
	return err
}

// until looks at the node until it is as asked. With why the context has ended it returns the node as it was last.
func (o *Operator) until(ctx context.Context, node string, asked func(*nodes.Node) bool) (*nodes.Node, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		n, err := o.Show(ctx, node)
		if err != nil {
			return nil, fmt.Errorf("show node %s: %w", node, err)
		}
		if asked(n) {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return n, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// MakeAvailable takes an enrolled node through manageable to available.
func (o *Operator) MakeAvailable(ctx context.Context, node string) error {
	for _, step := range []struct {
		verb string
		want provision.State
	}{{"manage", provision.Manageable}, {"provide", provision.Available}} {
		if err := o.Ask(ctx, node, step.verb, nil); err != nil {
			return err
		}
		if _, err := o.Wait(ctx, node, step.want); err != nil {
			return err
		}
	}
	return nil
}
