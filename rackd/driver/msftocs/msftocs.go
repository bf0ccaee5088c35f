// Package msftocs is the power and management interfaces of blades in a chassis of Microsoft's Open CloudServer, over the REST API
// of its Chassis Manager.
//
// It may import rackd/driver, rackd/driver/bmc and protocol. Turns, courtesy, the fence and errors are those of rackd/driver/bmc: a
// chassis serves many nodes, which share its turn. Invariants:
//   - Orders are GETs. They are sent once, on a connection of their own, so that no HTTP client repeats them.
//   - The power state is that of the blade's chipset. Its socket in the chassis stays on.
//   - GetNextBoot tells the device, and not whether it lasts. So all that are set last.
//
// Everything exported is safe for concurrent use. Sources: the source of the Chassis Manager, and Ironic's driver of before 2017.
package msftocs

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldURL      = "msftocs_base_url"
	fieldBlade    = "msftocs_blade_id"
	fieldUser     = "msftocs_username"
	fieldPassword = "msftocs_password"
	fieldVerifyCA = "msftocs_verify_ca"
)

// contracts is the namespace of answers.
const contracts = "http://schemas.datacontract.org/2004/07/Microsoft.GFS.WCS.Contracts"

// Driver implements driver.Power and driver.Management.
type Driver struct {
	opts bmc.WebOptions
	pool *bmc.Pool[bmc.Stateless]
}

// New returns a driver; Close ends it.
func New(o bmc.WebOptions) *Driver {
	return &Driver{o.Filled(), bmc.NewPool[bmc.Stateless](o.Pool("msftocs"))}
}

// Close ends the driver. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldURL:      "URL of the Chassis Manager's REST API, such as http://10.0.0.1:8000. Required.",
		fieldBlade:    "Number of the blade, counted from 1. Required.",
		fieldUser:     "User of the Chassis Manager. Required.",
		fieldPassword: "Password of that user. Required.",
		fieldVerifyCA: "How to check the certificate of a URL with https: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
	}
}

// target is a blade in a chassis.
type target struct {
	bmc.Web
	path  string
	blade int
}

func parse(n *node.Document) (t target, err error) {
	refuse := func(format string, args ...any) (target, error) {
		return target{}, fmt.Errorf("node %s: %w", n.Label(), driver.Refuse(format, args...))
	}
	var missing []string
	for _, field := range []string{fieldURL, fieldBlade, fieldUser, fieldPassword} {
		if n.DriverString(field) == "" {
			missing = append(missing, field)
		}
	}
	if missing != nil {
		return refuse("The following parameters were missing: %s", strings.Join(missing, " "))
	}
	u, err := url.Parse(n.DriverString(fieldURL))
	switch {
	case err == nil && u.User != nil:
		return refuse("%s holds a user or a password: give them in %s and %s", fieldURL, fieldUser, fieldPassword)
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		return refuse(`"%s" is not a valid "msftocs_base_url"`, n.DriverString(fieldURL))
	}
	id := n.DriverString(fieldBlade)
	if t.blade, err = strconv.Atoi(id); err != nil {
		return refuse(`"%s" is not a valid "msftocs_blade_id"`, id)
	}
	if t.blade < 1 {
		return refuse(`"msftocs_blade_id" must be greater than 0. The provided value is: %d`, t.blade)
	}
	t.path = strings.TrimRight(u.EscapedPath(), "/")
	t.Web = bmc.Web{Node: n, Scheme: u.Scheme, Host: u.Hostname(), Port: u.Port(), User: n.DriverString(fieldUser), Password: n.DriverString(fieldPassword),
		VerifyCA: bmc.VerifyCA(n.DriverString(fieldVerifyCA)), Fields: bmc.Fields{Address: fieldURL, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}}
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

// chassis is a Chassis Manager at the caller's turn, and the blade that is meant.
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
	return t.Attempt(n, "Chassis Manager", doing).Explain(err)
}

// response is what of all answers is read.
type response struct {
	XMLName xml.Name
	Code    string `xml:"http://schemas.datacontract.org/2004/07/Microsoft.GFS.WCS.Contracts completionCode"`
	Status  string `xml:"http://schemas.datacontract.org/2004/07/Microsoft.GFS.WCS.Contracts statusDescription"`
	State   string `xml:"http://schemas.datacontract.org/2004/07/Microsoft.GFS.WCS.Contracts bladeState"`
	Next    string `xml:"http://schemas.datacontract.org/2004/07/Microsoft.GFS.WCS.Contracts nextBoot"`
}

// call is a method of the Chassis Manager on the blade.
func (c chassis) call(method string, more ...string) bmc.Request {
	at := c.URL(c.path+"/"+method) + "?bladeId=" + strconv.Itoa(c.blade)
	for _, m := range more {
		at += "&" + m
	}
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(c.User, c.Password)
	return bmc.Request{Method: http.MethodGet, URL: at, Header: r.Header}
}

func (c chassis) read(ctx context.Context, method string) (response, error) {
	answer, err := c.Read(ctx, c.call(method))
	if err != nil {
		return response{}, err
	}
	return sorted(answer, false)
}

func (c chassis) write(ctx context.Context, f driver.Fence, method string, more ...string) error {
	answer, err := c.Order(ctx, f, c.call(method, more...))
	if err != nil {
		return err
	}
	_, err = sorted(answer, true)
	return err
}

func sorted(answer bmc.Answer, write bool) (r response, err error) {
	if answer.Status != http.StatusOK {
		f := bmc.StatusFailure(answer.Status, write, http.StatusText(answer.Status), nil)
		if answer.Status == http.StatusUnauthorized {
			return r, bmc.RefusedLogin(f)
		}
		return r, f
	}
	if err := xml.Unmarshal(answer.Body, &r); err != nil || r.XMLName.Space != contracts {
		f := &bmc.Failure{Said: "what is no answer of a Chassis Manager; check " + fieldURL + ": " + string(answer.Body[:min(len(answer.Body), 100)])}
		if write {
			f.Class = bmc.Unknown
		}
		return r, f
	}
	if r.Code == "Success" {
		return r, nil
	}
	f := &bmc.Failure{Said: strings.TrimSpace(r.Code + ": " + r.Status)}
	switch r.Code {
	case "Timeout", "Unknown":
		f.Class = bmc.Busy
		if write {
			f.Class = bmc.Unknown
		}
	case "ParameterOutOfRange":
		f.Class = bmc.Invalid
		f.Said += "; check " + fieldBlade
	case "CommandNotValidForBlade":
		f.Class = bmc.Unsupported
	}
	return r, f
}

func (c chassis) power(ctx context.Context) (driver.PowerState, error) {
	r, err := c.read(ctx, "GetBladeState")
	if err != nil {
		return "", err
	}
	switch r.State {
	case "ON", "OnFwDecompress":
		return driver.PowerOn, nil
	case "OFF":
		return driver.PowerOff, nil
	}
	return driver.PowerError, nil
}

// PowerTargets lists the supported targets. The API asks no system to shut down.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting}
}

// PowerState reads the state of the blade's chipset.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(c chassis) (err error) { state, err = c.power(ctx); return err })
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetPower gives a power order, if the blade is not there.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), goal) {
		return fmt.Errorf("node %s: a Chassis Manager knows no power target %q: %w", n.Label(), goal, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the power to %q", goal), func(c chassis) error {
		is, err := c.power(ctx)
		switch {
		case err != nil || is == goal:
			return err
		case goal == driver.PowerOff:
			return c.write(ctx, f, "SetBladeOff")
		case goal == driver.Rebooting && is != driver.PowerOff:
			return c.write(ctx, f, "SetBladeActivePowerCycle", "offTime=0")
		}
		return c.write(ctx, f, "SetBladeOn")
	})
}
