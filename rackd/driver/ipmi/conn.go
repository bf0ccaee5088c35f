package ipmi

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// conn is a session during one call.
type conn struct {
	*lan.Session
	ctx context.Context
	account
	fence driver.Fence // nil: the call only reads
	// told: an order has left in this call.
	told bool
}

// suites remembers which cipher suite a BMC took. It lives as long as rackd.
type suites struct{ by sync.Map } // uint8 by place

// tried are the cipher suites to try, in turn.
func (s *suites) tried(a account) []uint8 {
	if a.suite >= 0 {
		return []uint8{uint8(a.suite)}
	}
	list := []uint8{17, 3}
	if known, there := s.by.Load(a.place()); there {
		list = append([]uint8{known.(uint8)}, slices.DeleteFunc(list, func(v uint8) bool { return v == known })...)
	}
	return list
}

// with runs do in a session with the node's BMC and explains what went wrong. f is nil for calls that only read.
func (d *Driver) with(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*conn) error) error {
	a, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, bmc.Account{Address: a.place(), Sum: a.sum(), Node: n},
		func(ctx context.Context) (*lan.Session, error) { return d.login(ctx, a) },
		func(s *lan.Session) error { return do(&conn{Session: s, ctx: ctx, account: a, fence: f}) })
	return a.explain(n, doing, err)
}

// login opens a session.
func (d *Driver) login(ctx context.Context, a account) (*lan.Session, error) {
	t := lan.Target{Address: a.place(), Username: a.user, Password: a.password, Privilege: a.privilege, Key: a.key, Old: a.old, Suites: d.suites.tried(a)}
	s, err := lan.Open(ctx, t, lan.Options{Tries: d.tries, Idle: d.opts.Idle, Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return outbound.Dialer(d.opts.Timeout, d.opts.Networks.Check).DialContext(ctx, "udp", address)
	}})
	if err != nil {
		return nil, refusal(err, a)
	}
	if !a.old && a.suite < 0 {
		d.suites.by.Store(a.place(), s.Suite())
	}
	return s, nil
}

// busyPauses are the pauses before a request is repeated that the BMC answered to be too busy for.
var busyPauses = []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}

// ask reads: its request may be sent several times.
func (c *conn) ask(netFn, command uint8, data ...byte) ([]byte, error) {
	return c.askVia(lan.Request{NetFn: netFn, Command: command, Data: data, Via: c.bridge})
}

// askVia is ask on the request's own way.
func (c *conn) askVia(r lan.Request) (answer []byte, err error) {
	for i := 0; ; i++ {
		answer, err = c.Ask(c.ctx, r)
		if !busy(err) || i == len(busyPauses) || driver.Pause(c.ctx, busyPauses[i]) != nil {
			break
		}
	}
	if err == nil {
		return answer, nil
	}
	err = failure(err, false)
	_, silent := errors.AsType[*lan.NoAnswerError](err)
	if (silent || errors.Is(err, lan.ErrGone)) && !c.told {
		// BMCs are silent to a session that they have ended.
		return nil, bmc.Forgotten(err)
	}
	return nil, err
}

// tell gives an order: one datagram, after the fence. The order is given again only to a BMC that answered to be busy.
func (c *conn) tell(netFn, command uint8, data ...byte) (answer []byte, err error) {
	return c.tellOf(lan.Request{NetFn: netFn, Command: command, Data: data})
}

func (c *conn) tellOf(r lan.Request) (answer []byte, err error) {
	r.Via = c.bridge
	for i := 0; ; i++ {
		var cause error
		err = bmc.Order(c.fence, func() (left bool, err error) {
			answer, left, cause = c.Tell(c.ctx, r)
			c.told = c.told || left
			return left, failure(cause, true)
		})
		if !busy(cause) || i == len(busyPauses) || driver.Pause(c.ctx, busyPauses[i]) != nil {
			break
		}
	}
	if errors.Is(err, lan.ErrGone) {
		return nil, bmc.Forgotten(err)
	}
	return answer, err
}

// Names for errors: an operator finds these fields in driver_info.
var fields = bmc.Fields{
	Address:  fieldAddress + " and " + fieldPort + " (UDP), that IPMI over LAN is enabled and no firewall is in between",
	User:     fieldUser,
	Password: fieldPassword,
}

// explain turns what went wrong into an error of the driver.
func (a account) explain(n *node.Document, doing string, err error) error {
	return a.attempt(n, doing, err).Explain(err)
}

// attempt is what has ended with err.
func (a account) attempt(n *node.Document, doing string, err error) bmc.Attempt {
	named := fields
	if _, elsewhere := errors.AsType[*outbound.RefusedError](err); elsewhere {
		named.Address = fieldAddress
	}
	return bmc.Attempt{Node: n, Doing: doing, BMC: strings.TrimSuffix(a.place(), ":623"), User: a.user, Secrets: a.secrets(), Fields: named}
}
