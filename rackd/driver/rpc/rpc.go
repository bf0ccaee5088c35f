// Package rpc is the power and management interfaces of machines that a service of the operator's switches: it is told by webhooks,
// in the form of bmclib's provider of that name, which Tinkerbell's users have.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/nextboot and protocol. Turns, courtesy, the fence and errors are those
// of rackd/driver/bmc. Invariants:
//   - Each request is a POST of JSON, which an HMAC of the secret signs. The secret itself never leaves.
//   - The service tells no boot device. So one that is set is kept with the node, and told before each order that starts the machine.
//
// bmclib's provider is no dependency: it asks no fence, and sends wherever a URL leads. It is the judge of the tests' double.
// Everything exported is safe for concurrent use.
package rpc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/nextboot"
)

// Fields of driver_info. Ironic has no such driver.
const (
	fieldURL       = "rpc_url"
	fieldMachine   = "rpc_host"
	fieldSecret    = "rpc_secret"
	fieldAlgorithm = "rpc_algorithm"
	fieldVerifyCA  = "rpc_verify_ca"
)

// Driver implements driver.Power, driver.Management and driver.Keeper.
type Driver struct {
	opts  bmc.WebOptions
	pool  *bmc.Pool[bmc.Stateless]
	boots nextboot.Devices
}

// New returns a driver; Close ends it.
func New(o bmc.WebOptions) *Driver {
	return &Driver{opts: o.Filled(), pool: bmc.NewPool[bmc.Stateless](o.Pool("rpc"))}
}

// Close ends the driver. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldURL:       "URL of the service that switches machines. Required.",
		fieldMachine:   "What the service calls the machine or its BMC. Required.",
		fieldSecret:    "Secret by which requests are signed. Default: they are not.",
		fieldAlgorithm: "Hash of the signature, sha256 or sha512. Default sha256.",
		fieldVerifyCA:  "How to check the certificate of a URL with https: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
	}
}

// algorithms are the hashes, with the names that headers have for them.
var algorithms = map[string]struct {
	header string
	hash   func() hash.Hash
}{"sha256": {"X-BMCLIB-Signature-256", sha256.New}, "sha512": {"X-BMCLIB-Signature-512", sha512.New}}

// target is a machine of a service.
type target struct {
	bmc.Web
	path, machine, algorithm string
}

func parse(n *node.Document) (t target, err error) {
	refuse := func(format string, args ...any) (target, error) {
		return target{}, fmt.Errorf("node %s: %w", n.Label(), driver.Refuse(format, args...))
	}
	if missing := bmc.Missing(n, fieldURL, fieldMachine); missing != "" {
		return refuse("The following parameters are missing in driver_info: %s", missing)
	}
	u, err := url.Parse(n.DriverString(fieldURL))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return refuse("%s is no URL of a service, such as https://HOST/power, without a user and a password", fieldURL)
	}
	t = target{Web: bmc.Web{Node: n, Scheme: u.Scheme, Host: u.Hostname(), Port: u.Port(), User: n.DriverString(fieldMachine), Password: n.DriverString(fieldSecret), VerifyCA: bmc.VerifyCA(n.DriverString(fieldVerifyCA)),
		Fields: bmc.Fields{Address: fieldURL, User: fieldMachine, Password: fieldSecret, VerifyCA: fieldVerifyCA}}, path: u.RequestURI(), machine: n.DriverString(fieldMachine), algorithm: n.DriverString(fieldAlgorithm)}
	if t.Port == "" {
		t.Port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if t.algorithm == "" {
		t.algorithm = "sha256"
	}
	if algorithms[t.algorithm].hash == nil {
		return refuse("%s is %q: give sha256 or sha512", fieldAlgorithm, t.algorithm)
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

// account is that of the service, which all its machines share: the secret is known to the service, not to a machine.
func (t target) account() bmc.Web {
	service := t.Web
	service.User = t.path + " " + t.algorithm
	return service
}

// Account implements driver.Accounted.
func (*Driver) Account(n *node.Document) string {
	t, err := parse(n)
	if err != nil {
		return ""
	}
	return t.account().AccountName()
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}

// Kept implements driver.Keeper.
func (d *Driver) Kept(n *node.Document) json.RawMessage { return d.boots.Kept(n) }

// service is a service at the caller's turn, and the machine that is meant.
type service struct {
	bmc.Stateless
	target
}

// with runs do when it is the caller's turn at the service, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(service) error) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, t.account().Account(), func(context.Context) (bmc.Stateless, error) {
		wire, err := t.Open(d.opts)
		return bmc.Stateless{HTTP: wire}, err
	}, func(s bmc.Stateless) error { return do(service{s, t}) })
	return t.Attempt(n, "service", doing).Explain(err)
}

// request is a signed request.
func (s service) request(method string, params any) (bmc.Request, error) {
	body, err := json.Marshal(struct {
		ID     int64  `json:"id"`
		Host   string `json:"host"`
		Method string `json:"method"`
		Params any    `json:"params,omitempty"`
	}{time.Now().UnixNano(), s.machine, method, params})
	if err != nil {
		return bmc.Request{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	header.Set("X-BMCLIB-Timestamp", time.Now().Format(time.RFC3339))
	if s.Password != "" {
		a := algorithms[s.algorithm]
		sum := hmac.New(a.hash, []byte(s.Password))
		sum.Write(body)
		header.Set(a.header, s.algorithm+"="+hex.EncodeToString(sum.Sum(nil)))
	}
	return bmc.Request{Method: http.MethodPost, URL: s.URL(s.path), Header: header, Body: body}, nil
}

// sorted reads an answer's result.
func sorted(answer bmc.Answer, write bool) (any, error) {
	var r struct {
		Result any
		Error  *struct {
			Code    int
			Message string
		}
	}
	readable := json.Unmarshal(answer.Body, &r) == nil
	said := http.StatusText(answer.Status)
	if readable && r.Error != nil {
		said = fmt.Sprintf("error %d: %s", r.Error.Code, r.Error.Message)
	}
	switch {
	case answer.Status == http.StatusUnauthorized: // 403 is about one machine, and the secret is that of all
		return nil, bmc.RefusedLogin(bmc.StatusFailure(answer.Status, write, said, nil))
	case answer.Status != http.StatusOK:
		return nil, bmc.StatusFailure(answer.Status, write, said, nil)
	case !readable:
		f := &bmc.Failure{Said: "what is no JSON of this protocol; check " + fieldURL + ": " + string(answer.Body[:min(len(answer.Body), 100)])}
		if write {
			f.Class = bmc.Unknown
		}
		return nil, f
	case r.Error != nil && (r.Error.Code != 0 || r.Error.Message != ""):
		return nil, &bmc.Failure{Said: said}
	}
	return r.Result, nil
}

func (s service) power(ctx context.Context) (driver.PowerState, error) {
	request, err := s.request("getPowerState", nil)
	if err != nil {
		return "", err
	}
	answer, err := s.Read(ctx, request)
	if err != nil {
		return "", err
	}
	result, err := sorted(answer, false)
	if err != nil {
		return "", err
	}
	switch result {
	case "on":
		return driver.PowerOn, nil
	case "off":
		return driver.PowerOff, nil
	}
	return "", &bmc.Failure{Said: fmt.Sprintf("the power state %v, and knows on and off", result)}
}

// order tells the service to change the machine.
func (s service) order(ctx context.Context, f driver.Fence, method string, params any) error {
	request, err := s.request(method, params)
	if err != nil {
		return err
	}
	answer, err := s.Order(ctx, f, request)
	if err != nil {
		return err
	}
	_, err = sorted(answer, true)
	return err
}

// words are bmclib's for power targets.
var words = map[driver.PowerState]string{driver.PowerOn: "on", driver.PowerOff: "off", driver.Rebooting: "cycle", driver.SoftPowerOff: "soft"}

// PowerTargets lists the supported targets.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

// PowerState asks for the power state.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(s service) (err error) { state, err = s.power(ctx); return err })
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetPower gives a power order, if the machine is not there. Before each start the service is told the boot device.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	if words[goal] == "" {
		return fmt.Errorf("node %s: the driver rpc knows no power target %q: %w", n.Label(), goal, driver.ErrUnsupported)
	}
	started, next := false, d.boots.Of(n)
	err := d.with(ctx, n, fmt.Sprintf("set the power to %q", goal), func(s service) error {
		is, err := s.power(ctx)
		if err != nil || is == goal || is == driver.PowerOff && goal == driver.SoftPowerOff {
			if err == nil && is == driver.PowerOn {
				d.boots.Runs(n)
			}
			return err
		}
		wanted := goal
		if is == driver.PowerOff {
			wanted = driver.PowerOn
		}
		if starts := wanted == driver.PowerOn || wanted == driver.Rebooting; starts && next.Device != "" {
			if err := s.order(ctx, f, "setBootDevice", map[string]any{"device": next.Device, "persistent": !next.Once, "efiBoot": n.BootMode() == "uefi"}); err != nil {
				return err
			}
			started = true
		}
		return s.order(ctx, f, "setPowerState", map[string]any{"state": words[wanted]})
	})
	switch {
	case err == nil && started && next.Once:
		d.boots.Keep(n, "", false) // used up
	case started && errors.Is(err, driver.ErrUnknown):
		d.boots.Told(n)
	}
	return err
}

// devices are those that bmclib knows.
var devices = []driver.BootDevice{driver.BootPXE, driver.BootDisk, "cdrom", "bios"}

// SupportedBootDevices are those that bmclib knows.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return slices.Clone(devices), nil
}

// BootDevice is the one that is kept: the service tells none. It is empty where none was set, or one for a start was used up.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	if _, err := d.PowerState(ctx, n); err != nil { // a device is not told of a machine that cannot be reached
		return found, err
	}
	if b := d.boots.Of(n); b.Device != "" {
		lasts := !b.Once
		found = ask.BootDevice{Device: string(b.Device), Persistent: &lasts}
	}
	return found, nil
}

// SetBootDevice keeps the device for the next start, or for all. The service is told by SetPower.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	if !slices.Contains(devices, device) {
		return fmt.Errorf("node %s: the driver rpc knows no boot device %q: %w", n.Label(), device, driver.ErrUnsupported)
	}
	if _, err := d.PowerState(ctx, n); err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	d.boots.Keep(n, device, !persistent)
	return nil
}

func without(n *node.Document, what string) error {
	return fmt.Errorf("node %s: the driver rpc tells and takes no %s: %w", n.Label(), what, driver.ErrUnsupported)
}

// BootMode is not known. A boot device is set with that of the node's capability.
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
