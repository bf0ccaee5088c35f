// Package seamicro is the power, management and vendor interfaces of servers in a SeaMicro chassis, over its REST API of version 2.
//
// It may import rackd/driver, rackd/driver/bmc and protocol. Turns, courtesy, the fence and errors are those of rackd/driver/bmc: a
// chassis serves many nodes, which share its turn. Invariants:
//   - A boot device lasts: the API changes the order of the BIOS. Where a chassis does not tell the order, it is written each time.
//   - A vendor method reads what it is to change, and reads it back.
//
// The API takes the user and the password of a read in its URL, and knows no other way. The URL stands in no error and no log of
// rackd; the chassis may log it. Everything exported is safe for concurrent use.
//
// Sources: Ironic's driver of before 2017, and the vendor's client, python-seamicroclient 0.4.0.
package seamicro

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldEndpoint = "seamicro_api_endpoint"
	fieldUser     = "seamicro_username"
	fieldPassword = "seamicro_password"
	fieldServer   = "seamicro_server_id"
	fieldVersion  = "seamicro_api_version"
	fieldVerifyCA = "seamicro_verify_ca"
)

// Driver implements driver.Power and driver.Management.
type Driver struct {
	opts bmc.WebOptions
	pool *bmc.Pool[bmc.Stateless]
}

// New returns a driver; Close ends it.
func New(o bmc.WebOptions) *Driver {
	return &Driver{o.Filled(), bmc.NewPool[bmc.Stateless](o.Pool("seamicro"))}
}

// Close ends the driver. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldEndpoint: "URL of the chassis' API, such as http://10.0.0.1/v2.0. Required.",
		fieldUser:     "User of the chassis. Required.",
		fieldPassword: "Password of that user. Required.",
		fieldServer:   "Server in the chassis, such as 1/0. Required.",
		fieldVersion:  "Version of the API; there is 2 alone. Default 2.",
		fieldVerifyCA: "How to check the certificate of an endpoint with https: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
	}
}

var serverID = regexp.MustCompile(`^[0-9]+/[0-9]+$`)

// target is a server in a chassis.
type target struct {
	bmc.Web
	path   string // of the API
	server string
}

func parse(n *node.Document) (t target, err error) {
	refuse := func(format string, args ...any) (target, error) {
		return target{}, fmt.Errorf("node %s: %w", n.Label(), driver.Refuse(format, args...))
	}
	if missing := bmc.Missing(n, fieldEndpoint, fieldPassword, fieldServer, fieldUser); missing != "" {
		return refuse("SeaMicro driver requires the following parameters to be set in node's driver_info: %s.", missing)
	}
	if t.server = n.DriverString(fieldServer); !serverID.MatchString(t.server) {
		return refuse("Invalid 'seamicro_server_id' parameter in node's driver_info. Expected format of 'seamicro_server_id' is <int>/<int>")
	}
	if version := n.DriverString(fieldVersion); version != "" && version != "2" {
		return refuse("Invalid 'seamicro_api_version' parameter. Reason: Invalid client version '%s'. must be one of: 2.", version)
	}
	u, err := url.Parse(n.DriverString(fieldEndpoint))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return refuse("Invalid 'seamicro_api_endpoint' parameter in node's driver_info.")
	}
	t.path = strings.TrimRight(u.EscapedPath(), "/")
	t.Web = bmc.Web{Node: n, Scheme: u.Scheme, Host: u.Hostname(), Port: u.Port(), User: n.DriverString(fieldUser), Password: n.DriverString(fieldPassword),
		VerifyCA: bmc.VerifyCA(n.DriverString(fieldVerifyCA)), Fields: bmc.Fields{Address: fieldEndpoint, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}}
	if t.Port == "" {
		t.Port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return t, nil
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	return t.Web.Validate(n, d.opts)
}

// Account implements driver.Accounted.
func (*Driver) Account(n *node.Document) string {
	t, err := parse(n)
	if err != nil {
		return ""
	}
	return t.AccountName()
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}

// chassis is a chassis at the caller's turn, and the server that is meant.
type chassis struct {
	bmc.Stateless
	target
}

// with runs do when it is the caller's turn at the chassis, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(chassis) error) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, t.Account(), func(context.Context) (bmc.Stateless, error) {
		wire, err := t.Open(d.opts)
		return bmc.Stateless{HTTP: wire}, err
	}, func(s bmc.Stateless) error { return do(chassis{s, t}) })
	a := t.Attempt(n, "chassis", doing)
	a.Secrets = append(a.Secrets, url.QueryEscape(t.Password))
	return a.Explain(err)
}

// read reads a resource into v.
func (c chassis) read(ctx context.Context, path string, v any) error {
	answer, err := c.Read(ctx, bmc.Request{Method: http.MethodGet, URL: c.at(path, nil), Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return err
	}
	if err := sorted(answer, false); err != nil {
		return err
	}
	if err := json.Unmarshal(answer.Body, v); err != nil {
		return &bmc.Failure{Said: "what is no JSON of this API; check " + fieldEndpoint + ": " + string(answer.Body[:min(len(answer.Body), 100)])}
	}
	return nil
}

// at is the URL of a resource, with the credentials.
func (c chassis) at(path string, more url.Values) string {
	q := url.Values{"username": {c.User}, "password": {c.Password}}
	for name, v := range more {
		q[name] = v
	}
	return c.URL(c.path+path) + "?" + q.Encode()
}

// put changes a resource. query is what stands in the URL instead of the body.
func (c chassis) put(ctx context.Context, f driver.Fence, path, query string, body map[string]any) error {
	body["username"], body["password"] = c.User, c.Password
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := c.Order(ctx, f, bmc.Request{Method: http.MethodPut, URL: c.URL(c.path+path) + query, Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}, Body: raw})
	if err != nil {
		return err
	}
	return sorted(answer, true)
}

// remove deletes a resource.
func (c chassis) remove(ctx context.Context, f driver.Fence, path string) error {
	answer, err := c.Order(ctx, f, bmc.Request{Method: http.MethodDelete, URL: c.at(path, nil)})
	if err != nil {
		return err
	}
	return sorted(answer, true)
}

// sorted is an answer's refusal, nil for none.
func sorted(answer bmc.Answer, write bool) error {
	if answer.Status < http.StatusMultipleChoices {
		return nil
	}
	f := bmc.StatusFailure(answer.Status, write, string(answer.Body[:min(len(answer.Body), 1000)]), nil)
	switch answer.Status {
	case http.StatusUnauthorized:
		return bmc.RefusedLogin(f)
	case http.StatusNotFound:
		f.Class = bmc.Invalid
		f.Said += "; check " + fieldServer + " and " + fieldEndpoint
	}
	return f
}

func (c chassis) self() string { return "/servers/" + c.server }

// server is what the API tells of one.
type server struct {
	Active *bool `json:"active"`
	// NIC are its network cards by their numbers, VDisk its volumes.
	NIC map[string]struct {
		Untagged string `json:"untaggedVlan"`
	} `json:"nic"`
	VDisk map[string]string `json:"vdisk"`
}

func (c chassis) power(ctx context.Context) (driver.PowerState, error) {
	var s server
	if err := c.read(ctx, c.self(), &s); err != nil {
		return "", err
	}
	switch {
	case s.Active == nil:
		return driver.PowerError, nil
	case *s.Active:
		return driver.PowerOn, nil
	}
	return driver.PowerOff, nil
}

// PowerTargets lists the supported targets.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

// PowerState reads whether the server is active.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(c chassis) (err error) { state, err = c.power(ctx); return err })
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetPower gives a power order, if the server is not there.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), goal) {
		return fmt.Errorf("node %s: a SeaMicro chassis knows no power target %q: %w", n.Label(), goal, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the power to %q", goal), func(c chassis) error {
		is, err := c.power(ctx)
		switch {
		case err != nil || is == goal || is == driver.PowerOff && goal == driver.SoftPowerOff:
			return err
		case goal == driver.PowerOff:
			return c.put(ctx, f, c.self(), "?action=power-off&force=true", map[string]any{})
		case goal == driver.SoftPowerOff:
			return c.put(ctx, f, c.self(), "?action=power-off", map[string]any{})
		case goal == driver.Rebooting && is != driver.PowerOff:
			return c.put(ctx, f, c.self(), "", map[string]any{"action": "reset"})
		}
		return c.put(ctx, f, c.self(), "", map[string]any{"action": "power-on"})
	})
}

// orders are the boot orders of the BIOS for each device.
var orders = map[driver.BootDevice]string{driver.BootDisk: "hd0", driver.BootPXE: "pxe,hd0"}

// SupportedBootDevices are the same for all servers.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return []driver.BootDevice{driver.BootDisk, driver.BootPXE}, nil
}

// first reads the device that the BIOS tries first; empty where the chassis does not tell.
func (c chassis) first(ctx context.Context) (driver.BootDevice, error) {
	var text string
	answer, err := c.Read(ctx, bmc.Request{Method: http.MethodGet, URL: c.at("/server/"+c.server+"/bios/bootOrder", nil), Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return "", err
	}
	if answer.Status == http.StatusNotFound || answer.Status == http.StatusNotImplemented {
		return "", nil
	}
	if err := sorted(answer, false); err != nil {
		return "", err
	}
	if json.Unmarshal(answer.Body, &text) != nil {
		text = string(answer.Body)
	}
	order, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch name, _, _ := strings.Cut(order, ","); {
	case name == "pxe":
		return driver.BootPXE, nil
	case strings.HasPrefix(name, "hd"):
		return driver.BootDisk, nil
	}
	return "", nil
}

// BootDevice reads the device that the BIOS tries first.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, n, "read the boot device", func(c chassis) error {
		device, err := c.first(ctx)
		if device != "" {
			lasts := true
			found = ask.BootDevice{Device: string(device), Persistent: &lasts}
		}
		return err
	})
	return found, err
}

// SetBootDevice writes the order of the BIOS. It counts at the next start, and lasts, also where it is asked for once.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, _ bool) error {
	order := orders[device]
	if order == "" {
		return fmt.Errorf("node %s: Invalid boot device %s specified: a SeaMicro chassis has disk and pxe: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the boot device to %s", device), func(c chassis) error {
		is, err := c.first(ctx)
		if err != nil || is == device {
			return err
		}
		if err := c.put(ctx, f, c.self(), "", map[string]any{"action": "set-bios-boot-order", "boot-order": order}); err != nil {
			return err
		}
		if is, err = c.first(ctx); err == nil && is != device && is != "" {
			err = &bmc.Failure{Said: fmt.Sprintf("that all is well, and has %s first still", is)}
		}
		return err
	})
}

func without(n *node.Document, what string) error {
	return fmt.Errorf("node %s: a SeaMicro chassis tells and takes no %s: %w", n.Label(), what, driver.ErrUnsupported)
}

// BootMode is not known.
func (*Driver) BootMode(_ context.Context, n *node.Document) (string, error) {
	return "", without(n, "boot mode")
}

// SetBootMode is refused.
func (*Driver) SetBootMode(_ context.Context, _ driver.Fence, n *node.Document, _ string) error {
	return without(n, "boot mode")
}

// Identity is not known.
func (*Driver) Identity(_ context.Context, n *node.Document) (driver.Identity, error) {
	return driver.Identity{}, without(n, "identity")
}

// InjectNMI is refused.
func (*Driver) InjectNMI(_ context.Context, _ driver.Fence, n *node.Document) error {
	return without(n, "NMI")
}
