// Package ribcl is power, boot devices, virtual media, inspection, sensors, light and event log of HPE's machines whose iLO speaks
// RIBCL: XML over HTTPS, as iLO 3 and iLO 4 do.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/redfish (for the names of fields), rackd/driver/namedfile, rackd/outbound
// and protocol. Invariants:
//   - Each script holds the credentials: there is no session. Scripts are never logged or quoted.
//   - What writes stands in a script of its own, behind the fence.
//   - What an iLO refuses is text in an answer that is otherwise good: each part of an answer is looked at.
//
// Everything exported is safe for concurrent use.
package ribcl

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Options of the driver; zero values mean the defaults of rackd/driver/redfish.
type Options struct {
	ConnectTimeout time.Duration
	MaxBMCs, Pace  int
	Recovery       time.Duration
	CAFolder       namedfile.Folder
	Networks       outbound.BMCs
	// Dialect is the fields of driver_info, with Read.
	Dialect redfish.Dialect
	// Shared is bmc.PoolOptions\'.
	Shared bmc.Shared
	Log    *slog.Logger
}

// Driver implements driver.Power and driver.Management.
type Driver struct {
	opts Options
	pool *bmc.Pool[*link]
}

// New returns a driver without any connection.
func New(o Options) *Driver {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 30*time.Second)
	o.Shared = o.Shared.Filled()
	return &Driver{o, bmc.NewPool[*link](bmc.PoolOptions{Driver: "ribcl", MaxBMCs: o.MaxBMCs, Recovery: o.Recovery, Pace: o.Pace, Shared: o.Shared, Log: o.Log})}
}

// Close lets go of the connections.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties implements driver.Interface.
func (d *Driver) Properties() map[string]string { return d.opts.Dialect.Properties }

// Validate implements driver.Interface.
func (d *Driver) Validate(n *node.Document) error { _, err := d.account(n); return err }

// Account implements driver.Accounted.
func (d *Driver) Account(n *node.Document) string {
	a, err := d.account(n)
	if err != nil {
		return ""
	}
	sum := a.sum()
	return hex.EncodeToString(sum[:])
}

// account is how to reach one iLO.
type account struct {
	redfish.Values
	host    string // with its port
	trust   bmc.Trust
	timeout time.Duration
}

func (a account) sum() [32]byte {
	return sha256.Sum256([]byte(strings.Join([]string{a.Address, a.User, a.Password, a.trust.Verify, a.timeout.String()}, "\x00")))
}

func (d *Driver) account(n *node.Document) (account, error) {
	v, timeout, err := d.opts.Dialect.Read(n)
	if err != nil {
		return account{}, fmt.Errorf("node %s: %w", n.Label(), err)
	}
	u, err := url.Parse(v.Address)
	if err != nil || u.Host == "" {
		return account{}, fmt.Errorf("node %s: driver_info %s is neither a host name nor an address: %w", n.Label(), d.opts.Dialect.Names.Address, driver.ErrInvalid)
	}
	a := account{Values: v, host: u.Host, timeout: cmp.Or(timeout, 60*time.Second),
		trust: bmc.Trust{Verify: bmc.VerifyCA(v.VerifyCA), Field: d.opts.Dialect.Names.VerifyCA, Folder: d.opts.CAFolder, Pins: d.opts.Shared.Pins, Node: n, Address: u.Host}}
	if _, err := a.trust.TLS(); err != nil {
		return account{}, fmt.Errorf("node %s: %w", n.Label(), err)
	}
	return a, nil
}

// link is connections to one iLO. The holder of the iLO's turn uses it.
type link struct{ wire *bmc.HTTP }

// Close implements bmc.Session: there is nothing to log out of.
func (l *link) Close(context.Context) { l.wire.Forget() }

// Drop implements bmc.Session.
func (l *link) Drop() { l.wire.Forget() }

// turn is a call's turn at an iLO.
type turn struct {
	ctx  context.Context
	f    driver.Fence
	wire *bmc.HTTP
	a    account
}

// with runs do at the node's iLO. f is nil for calls that only read.
func (d *Driver) with(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*turn) error) error {
	a, err := d.account(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, a.trust.Account(a.sum()), func(context.Context) (*link, error) {
		config, err := a.trust.TLS()
		if err != nil {
			return nil, err
		}
		return &link{bmc.NewHTTP(bmc.HTTPOptions{Host: a.host, TLS: config, ConnectTimeout: d.opts.ConnectTimeout, AnswerTimeout: a.timeout, Networks: d.opts.Networks})}, nil
	}, func(l *link) error { return do(&turn{ctx, f, l.wire, a}) })
	names := d.opts.Dialect.Names
	return bmc.Attempt{Node: n, Doing: doing, BMC: a.Address, User: a.User, Secrets: []string{a.Password},
		Fields: bmc.Fields{Address: names.Address, User: names.User, Password: names.Password, VerifyCA: names.VerifyCA}}.Explain(err)
}

// Kinds of scripts, by the part of the iLO that they are for.
const (
	server = "SERVER_INFO"
	rib    = "RIB_INFO"
	users  = "USER_INFO"
)

// read runs a command that only reads. It returns the element of that name of the answer.
func (t *turn) read(section, command string, attributes map[string]string, want string) (element, error) {
	t.wire.BeginRead(t.ctx) // a POST too, which opens no session although it has the password
	parts, err := t.run(section, "read", command, attributes, "", false)
	if err != nil {
		return element{}, err
	}
	for _, p := range parts {
		if found, ok := p.find(want); ok {
			return found, nil
		}
	}
	return element{}, fmt.Errorf("its answer to %s has no %s", command, want)
}

// write runs a command that changes the machine. body is what is inside the command. It returns what the iLO said.
func (t *turn) write(section, command string, attributes map[string]string, body string) (said string, err error) {
	t.wire.Begin(t.ctx, t.f)
	parts, err := t.run(section, "write", command, attributes, body, true)
	for _, p := range parts {
		for _, r := range p.Children {
			if m := r.attribute("MESSAGE"); r.XMLName.Local == "RESPONSE" && m != "" && m != "No error" {
				said = m
			}
		}
	}
	return said, err
}

func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes everything
	return b.String()
}

// script is one command with its credentials.
func (a account) script(section, mode, command string, attributes map[string]string, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<?xml version=\"1.0\"?>\r\n<LOCFG VERSION=\"2.21\"/>\r\n<RIBCL VERSION=\"2.0\">\r\n<LOGIN USER_LOGIN=\"%s\" PASSWORD=\"%s\">\r\n<%s MODE=\"%s\">\r\n<%s", escape(a.User), escape(a.Password), section, mode, command)
	for _, name := range sortedKeys(attributes) {
		fmt.Fprintf(&b, " %s=\"%s\"", name, escape(attributes[name]))
	}
	if body == "" {
		b.WriteString("/>")
	} else {
		fmt.Fprintf(&b, ">%s</%s>", body, command)
	}
	fmt.Fprintf(&b, "\r\n</%s>\r\n</LOGIN>\r\n</RIBCL>\r\n", section)
	return b.String()
}

func (t *turn) run(section, mode, command string, attributes map[string]string, body string, write bool) ([]element, error) {
	req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, t.a.Address+"/ribcl", strings.NewReader(t.a.script(section, mode, command, attributes, body)))
	if err != nil {
		return nil, errors.New("its address is no URL")
	}
	req.Header.Set("Content-Type", "text/xml")
	resp, err := (&http.Client{Transport: t.wire, CheckRedirect: bmc.SameHost}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		f := bmc.StatusFailure(resp.StatusCode, write, http.StatusText(resp.StatusCode), nil)
		if resp.StatusCode == http.StatusUnauthorized {
			return nil, bmc.RefusedLogin(f)
		}
		return nil, f
	}
	parts, err := parse(string(raw))
	if _, refused := errors.AsType[*bmc.Failure](err); err != nil && write && !refused {
		return nil, &bmc.Failure{Class: bmc.Unknown, Said: "a write, but " + err.Error()}
	}
	return parts, err
}

// element is an element of an answer.
type element struct {
	XMLName    xml.Name
	Attributes []xml.Attr `xml:",any,attr"`
	Children   []element  `xml:",any"`
	Text       string     `xml:",chardata"`
}

// attribute is an attribute's value, whatever the case of its name.
func (e element) attribute(name string) string {
	for _, a := range e.Attributes {
		if strings.EqualFold(a.Name.Local, name) {
			return strings.TrimSpace(a.Value)
		}
	}
	return ""
}

// find is an element of that name: one that lies right in this one before one that lies deeper, of those the first. The summary of the
// health has elements of the same names as the parts that it sums up.
func (e element) find(name string) (element, bool) {
	for _, c := range e.Children {
		if c.XMLName.Local == name {
			return c, true
		}
	}
	for _, c := range e.Children {
		if found, ok := c.find(name); ok {
			return found, true
		}
	}
	return element{}, false
}

// value is the VALUE of the first element of that name, empty where there is none.
func (e element) value(name string) string {
	found, _ := e.find(name)
	return found.attribute("VALUE")
}

// all are the elements of that name, in depth.
func (e element) all(name string) (list []element) {
	for _, c := range e.Children {
		if c.XMLName.Local == name {
			list = append(list, c)
		}
		list = append(list, c.all(name)...)
	}
	return list
}

// parse splits an answer, which is several documents one after the other, and refuses what one of them refuses.
func parse(answer string) (parts []element, err error) {
	if err := bmc.CheckXML([]byte(answer)); err != nil {
		return nil, err
	}
	for _, text := range strings.Split(answer, "<?xml")[1:] {
		_, text, _ = strings.Cut(text, "?>")
		d := xml.NewDecoder(strings.NewReader(text))
		d.Strict, d.Entity = false, xml.HTMLEntity
		var e element
		if err := d.Decode(&e); err != nil {
			return nil, errors.New("its answer is no XML that can be read")
		}
		if e.XMLName.Local != "RIBCL" {
			return nil, fmt.Errorf("its answer is no RIBCL but %.40q", e.XMLName.Local)
		}
		for _, r := range e.Children {
			if r.XMLName.Local != "RESPONSE" {
				continue
			}
			if err := judge(r.attribute("STATUS"), r.attribute("MESSAGE")); err != nil {
				return nil, err
			}
		}
		parts = append(parts, e)
	}
	if len(parts) == 0 {
		return nil, errors.New("its answer holds no document")
	}
	return parts, nil
}

// Statuses of a refused login.
var refusedLogin = map[int64]bool{0x5f: true, 0x0a: true}

// judge turns a RESPONSE into an error, nil for a good one.
func judge(status, message string) error {
	code, err := strconv.ParseInt(strings.TrimPrefix(strings.ToLower(status), "0x"), 16, 64)
	if err != nil {
		return fmt.Errorf("its answer has the status %.20q", status)
	}
	if code == 0 {
		return nil
	}
	f := &bmc.Failure{Said: fmt.Sprintf("%s: %s", status, message)}
	low := strings.ToLower(message)
	switch {
	case refusedLogin[code], strings.Contains(low, "login failed"), strings.Contains(low, "login credentials rejected"), strings.Contains(low, "user login name was not found"):
		f.Class = bmc.Denied
		return bmc.RefusedLogin(f)
	case strings.Contains(low, "not supported"), strings.Contains(low, "syntax error"), strings.Contains(low, "license"):
		f.Class = bmc.Unsupported
	case strings.Contains(low, "in use"), strings.Contains(low, "busy"), strings.Contains(low, "try again"), strings.Contains(low, "not ready"):
		f.Class = bmc.Busy
	}
	return f
}
