package irmc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// SCCIOptions of the transport; zero values mean the defaults of rackd/driver/redfish.
type SCCIOptions struct {
	ConnectTimeout time.Duration
	MaxBMCs, Pace  int
	Recovery       time.Duration
	CAFolder       namedfile.Folder
	Networks       outbound.BMCs
	// Shared is bmc.PoolOptions\'.
	Shared bmc.Shared
	Log    *slog.Logger
}

// SCCI gives orders to iRMCs that have no Redfish service.
type SCCI struct {
	opts SCCIOptions
	pool *bmc.Pool[*link]
}

// NewSCCI returns an SCCI without any connection.
func NewSCCI(o SCCIOptions) *SCCI {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 30*time.Second)
	o.Shared = o.Shared.Filled()
	return &SCCI{o, bmc.NewPool[*link](bmc.PoolOptions{Driver: "irmc", MaxBMCs: o.MaxBMCs, Recovery: o.Recovery, Pace: o.Pace, Shared: o.Shared, Log: o.Log})}
}

// Close lets go of the connections.
func (s *SCCI) Close(ctx context.Context) error { return s.pool.Close(ctx) }

// link is connections to one iRMC.
type link struct{ wire *bmc.HTTP }

// Close implements bmc.Session: there is nothing to log out of.
func (l *link) Close(context.Context) { l.wire.Forget() }

// Drop implements bmc.Session.
func (l *link) Drop() { l.wire.Forget() }

// orders are SCCI's, by where they lead.
var orders = map[driver.PowerState]string{
	driver.PowerOn: "PowerOnCabinet", driver.PowerOff: "PowerOffCabinet", driver.Rebooting: "ResetServer",
	driver.SoftPowerOff: "RequestShutdownAndOff", driver.SoftReboot: "RequestShutdownAndReset",
}

// nmi is the order that injects an NMI.
const nmi = "RaiseNMI"

// order gives an order to the node's iRMC.
func (s *SCCI) order(ctx context.Context, f driver.Fence, n *node.Document, doing, code string) error {
	return s.with(ctx, n, doing, func(l *link, as login) error { return l.send(ctx, f, as, code) })
}

// with runs do in the iRMC's turn.
func (s *SCCI) with(ctx context.Context, n *node.Document, doing string, do func(*link, login) error) error {
	v, timeout, err := read(n)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Label(), err)
	}
	as := login{v.Address, v.User, v.Password, strings.EqualFold(n.DriverString(fieldAuth), "digest")}
	u, err := url.Parse(v.Address)
	if err != nil {
		return fmt.Errorf("node %s: %s is no address: %w", n.Label(), fieldAddress, driver.ErrInvalid)
	}
	trust := bmc.Trust{Verify: bmc.VerifyCA(v.VerifyCA), Field: fieldVerifyCA, Folder: s.opts.CAFolder, Pins: s.opts.Shared.Pins, Node: n, Address: u.Host,
		Plain: u.Scheme != "https", AddressField: fieldAddress}
	sum := sha256.Sum256([]byte(strings.Join([]string{v.Address, v.User, v.Password, trust.Verify, n.DriverString(fieldAuth)}, "\x00")))
	err = s.pool.Use(ctx, trust.Account(sum), func(context.Context) (*link, error) {
		config, err := trust.TLS()
		if err != nil {
			return nil, err
		}
		return &link{bmc.NewHTTP(bmc.HTTPOptions{Host: u.Host, TLS: config, ConnectTimeout: s.opts.ConnectTimeout, AnswerTimeout: timeout, Networks: s.opts.Networks})}, nil
	}, func(l *link) error { return do(l, as) })
	return bmc.Attempt{Node: n, Doing: doing, BMC: v.Address, User: v.User, Secrets: []string{v.Password},
		Fields: bmc.Fields{Address: fieldAddress, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}}.Explain(err)
}

// script is one order.
func script(code string) string {
	return `<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>` + "\n<CMDSEQ>\n" + `  <CMD Context="SCCI" OC="` + code + `" OE="0" OI="0" Type="SET">` + "\n  </CMD>\n</CMDSEQ>\n"
}

// login is the address of an iRMC, the account for requests to it, and whether that is shown by digest.
type login struct {
	address, user, password string
	digest                  bool
}

// send gives an order.
func (l *link) send(ctx context.Context, f driver.Fence, as login, code string) error {
	answer, err := l.talk(ctx, f, as, http.MethodPost, "/config", "application/x-www-form-urlencoded", []byte(script(code)))
	if err != nil {
		return err
	}
	if answer.Status != http.StatusOK && answer.Status != http.StatusCreated {
		return bmc.StatusFailure(answer.Status, true, http.StatusText(answer.Status), nil)
	}
	return judge(answer.Body)
}

// talk sends a request, a write if f is not nil. By digest it goes out twice: the answer to the first, which has no credentials, says what
// they are wanted for. An iRMC that wants none carries out the first.
func (l *link) talk(ctx context.Context, f driver.Fence, as login, method, at, kind string, body []byte) (bmc.Answer, error) {
	accept := "application/json, */*;q=0.1" // the report is XML
	request := bmc.Request{Method: method, URL: as.address + at, Body: body, Header: http.Header{"Accept": {accept}}}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if !as.digest {
		request.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(as.user+":"+as.password)))
	}
	ask := func() (bmc.Answer, error) {
		if f == nil {
			return l.wire.Read(ctx, request)
		}
		return l.wire.Order(ctx, f, request)
	}
	answer, err := ask()
	if err != nil {
		return answer, err
	}
	if as.digest && answer.Status == http.StatusUnauthorized {
		c, err := challenged(answer.Header)
		if err != nil {
			return answer, err
		}
		request.Header.Set("Authorization", c.Answer(as.user, as.password, request.Method, at))
		if answer, err = ask(); err != nil {
			return answer, err
		}
	}
	if failure := bmc.StatusFailure(answer.Status, f != nil, http.StatusText(answer.Status), nil); failure.Class == bmc.Denied {
		return answer, bmc.RefusedLogin(failure)
	}
	return answer, nil
}

// challenged is the challenge of a server that wants a digest.
func challenged(h http.Header) (*bmc.Challenge, error) {
	for _, offer := range h.Values("WWW-Authenticate") {
		if len(offer) >= 6 && strings.EqualFold(offer[:6], "digest") {
			c, err := bmc.ParseChallenge(offer)
			if err != nil {
				return nil, &bmc.Failure{Said: err.Error()}
			}
			return c, nil
		}
	}
	return nil, &bmc.Failure{Class: bmc.Invalid, Said: "HTTP 401, and wants no digest: set " + fieldAuth + " to basic"}
}

// judge reads an answer: anything but the value 0 is a refusal.
func judge(raw []byte) error {
	var status struct {
		Value, Severity, Error, Message string
	}
	d := xml.NewDecoder(strings.NewReader(string(raw)))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // they say UTF-8 in several ways
	if err := d.Decode(&status); err != nil || status.Value == "" {
		return &bmc.Failure{Class: bmc.Unknown, Said: "the order with what is no SCCI that can be read"}
	}
	if v := strings.TrimSpace(status.Value); v != "0" {
		return &bmc.Failure{Said: fmt.Sprintf("SCCI status %s: %s %s", v, status.Error, status.Message)}
	}
	return nil
}
