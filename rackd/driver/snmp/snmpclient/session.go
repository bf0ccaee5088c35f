package snmpclient

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Options bound what an agent may take; zero values mean the defaults.
type Options struct {
	// AnswerTimeout bounds the wait for one answer to a read, which is asked for Tries times; default 1 s and 6 times.
	AnswerTimeout time.Duration
	Tries         int
	// SetTimeout bounds the wait for the answer to a write, which is sent once; default 5 s.
	SetTimeout time.Duration
	// Networks are those that agents are in.
	Networks outbound.BMCs
}

func (o Options) orDefaults() Options {
	if o.AnswerTimeout <= 0 {
		o.AnswerTimeout = time.Second
	}
	if o.Tries <= 0 {
		o.Tries = 6
	}
	if o.SetTimeout <= 0 {
		o.SetTimeout = 5 * time.Second
	}
	return o
}

// Session is a socket for one agent, with what gosnmp knows of its engine. The holder of the agent's turn uses it.
type Session struct {
	client *gosnmp.GoSNMP
	wire   *wire
	opts   Options
	target Target
	// silent: a question was not answered. The agent may be at another address under its name by now.
	silent  bool
	sockets int
}

// Sockets is how many sockets the session has had. Another one may lead to another agent.
func (s *Session) Sockets() int { return s.sockets }

// renew opens another socket where the agent was silent on this one.
func (s *Session) renew(ctx context.Context) error {
	if !s.silent {
		return nil
	}
	next, err := Open(ctx, s.target, s.opts)
	if err != nil {
		return err
	}
	next.sockets += s.sockets
	s.Drop()
	*s = *next
	return nil
}

// wire is a socket that asks the fence for each datagram of a write.
type wire struct {
	net.Conn
	fence   driver.Fence // nil for reads
	left    int          // datagrams of this request that may have reached the agent
	refused error        // by the fence
	// reports is the error that a datagram reports, nil for none.
	reports  func(datagram []byte) error
	reported error
	before   uint32 // the id before that of the request's first message
}

func (w *wire) begin(f driver.Fence) { w.fence, w.left, w.refused, w.reported = f, 0, nil, nil }

// Read leaves answers without a number out, and looks for a report among what it passes on.
func (w *wire) Read(b []byte) (n int, err error) {
	for {
		if n, err = w.Conn.Read(b); err != nil || !numberless(b[:n]) {
			break
		}
	}
	if err == nil && w.reports != nil {
		w.reported = w.reports(b[:n])
	}
	return n, err
}

// Write sends nothing more once the agent has refused the request: wrong keys are counted.
func (w *wire) Write(b []byte) (n int, err error) {
	if w.reported != nil {
		return 0, w.reported
	}
	send := func() (bool, error) {
		n, err = w.Conn.Write(b)
		if err == nil {
			w.left++
		}
		return false, err
	}
	if w.fence == nil {
		_, err := send()
		return n, err
	}
	err = bmc.Order(w.fence, send)
	if errors.Is(err, driver.ErrFenced) {
		w.refused = err
	}
	return n, err
}

// numberless reports whether a datagram that anybody can make is an answer to request 0. gosnmp takes it for the answer to any, and
// has no request of that number.
func numberless(datagram []byte) bool {
	packet, err := unprotected().SnmpDecodePacket(slices.Clone(datagram))
	return err == nil && packet.RequestID == 0 && packet.PDUType != gosnmp.Report
}

// Open makes a socket. It sends nothing: the first request finds out about the agent.
func Open(ctx context.Context, t Target, o Options) (*Session, error) {
	o = o.orDefaults()
	c := &gosnmp.GoSNMP{
		Target: t.Host, Port: t.Port, Version: t.Version, Community: t.Read, Context: ctx,
		Timeout: o.AnswerTimeout, Retries: o.Tries - 1, MaxOids: 1,
		Control: outbound.Dialer(o.AnswerTimeout, o.Networks.Check).Control,
	}
	if t.Version == gosnmp.Version3 {
		c.SecurityModel, c.MsgFlags = gosnmp.UserSecurityModel, gosnmp.NoAuthNoPriv
		switch {
		case t.Priv != gosnmp.NoPriv:
			c.MsgFlags = gosnmp.AuthPriv
		case t.Auth != gosnmp.NoAuth:
			c.MsgFlags = gosnmp.AuthNoPriv
		}
		c.SecurityParameters = &gosnmp.UsmSecurityParameters{UserName: t.User, AuthenticationProtocol: t.Auth, AuthenticationPassphrase: t.AuthKey,
			PrivacyProtocol: t.Priv, PrivacyPassphrase: t.PrivKey}
		c.ContextEngineID, c.ContextName = t.Engine, t.Context
	}
	if err := c.Connect(); err != nil {
		return nil, &bmc.Lost{Err: err}
	}
	w := &wire{Conn: c.Conn}
	c.Conn = w
	if t.Version == gosnmp.Version3 && t.Auth != gosnmp.NoAuth {
		w.reports = func(datagram []byte) error { return unauthenticReport(c, datagram, w.before) }
	}
	return &Session{client: c, wire: w, opts: o, target: t, sockets: 1}, nil
}

// Close implements bmc.Session: SNMP knows no farewell.
func (s *Session) Close(context.Context) { s.Drop() }

// Drop implements bmc.Session.
func (s *Session) Drop() { _ = s.wire.Conn.Close() }

// under runs do for ctx: gosnmp looks at the end of a context between its tries only.
func (s *Session) under(ctx context.Context, do func() (*gosnmp.SnmpPacket, error)) (*gosnmp.SnmpPacket, error) {
	s.client.Context = ctx
	at := s.wire // the session may have another socket by the time that an ended call comes to this
	stop := context.AfterFunc(ctx, func() { _ = at.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if s.client.Version == gosnmp.Version3 {
		s.wire.before = rand.Uint32N(1 << 30)
		s.client.SetMsgID(s.wire.before)
	}
	packet, err := do()
	if err != nil && s.wire.reported != nil {
		return packet, s.wire.reported
	}
	if err != nil && ctx.Err() != nil && s.wire.refused == nil {
		err = context.Cause(ctx)
	}
	return packet, err
}

// Get reads an object. One that is not there is an ErrAbsent.
func (s *Session) Get(ctx context.Context, object string) (gosnmp.SnmpPDU, error) {
	v, err := s.read(ctx, func() (*gosnmp.SnmpPacket, error) { return s.client.Get([]string{object}) })
	if err == nil && strings.TrimPrefix(v.Name, ".") != object {
		return v, &bmc.Failure{Said: "another object than the one that was asked for"}
	}
	return v, err
}

// read asks for one object, several times if there is no answer. None, or the end of all objects, is an ErrAbsent.
func (s *Session) read(ctx context.Context, ask func() (*gosnmp.SnmpPacket, error)) (gosnmp.SnmpPDU, error) {
	if err := s.renew(ctx); err != nil {
		return gosnmp.SnmpPDU{}, err
	}
	names := s.target.Names
	s.client.Community, s.client.Timeout, s.client.Retries = s.target.Read, s.opts.AnswerTimeout, s.opts.Tries-1
	s.wire.begin(nil)
	packet, err := s.under(ctx, ask)
	if err != nil {
		s.silent = names.reported(err) == nil
		return gosnmp.SnmpPDU{}, names.unanswered(err)
	}
	if err := refusal(packet, names.Read, names.User); err != nil {
		return gosnmp.SnmpPDU{}, err
	}
	if len(packet.Variables) != 1 {
		return gosnmp.SnmpPDU{}, &bmc.Failure{Said: fmt.Sprintf("%d objects to a request for one", len(packet.Variables))}
	}
	switch v := packet.Variables[0]; v.Type {
	case gosnmp.NoSuchObject, gosnmp.NoSuchInstance, gosnmp.EndOfMibView, gosnmp.Null:
		return v, ErrAbsent
	default:
		return v, nil
	}
}

// Number reads an object that is an integer.
func (s *Session) Number(ctx context.Context, object string) (int, error) {
	v, err := s.Get(ctx, object)
	if err != nil {
		return 0, err
	}
	if number, is := Integer(v); is {
		return number, nil
	}
	return 0, &bmc.Failure{Said: fmt.Sprintf("%s with something that is no number of a state (type %s)", object, v.Type)}
}

// Integer is the value of an object, if it is an integer of 32 bits.
func Integer(v gosnmp.SnmpPDU) (int, bool) {
	switch v.Type {
	case gosnmp.Integer, gosnmp.Uinteger32, gosnmp.Gauge32, gosnmp.Counter32, gosnmp.TimeTicks:
		if i := gosnmp.ToBigInt(v.Value); i.IsInt64() && i.CmpAbs(big.NewInt(1<<31)) < 0 {
			return int(i.Int64()), true
		}
	}
	return 0, false
}

// Text reads an object that is a text.
func (s *Session) Text(ctx context.Context, object string) (string, error) {
	v, err := s.Get(ctx, object)
	if err != nil {
		return "", err
	}
	text, is := v.Value.([]byte)
	if v.Type != gosnmp.OctetString || !is {
		return "", &bmc.Failure{Said: fmt.Sprintf("%s with something that is no text (type %s)", object, v.Type)}
	}
	return string(text), nil
}

// Set writes an integer, in one datagram. Reports say that an agent has not looked at a request, and anybody can make one: after
// such a report too the outcome is unknown. An object that cannot be written is an ErrAbsent.
func (s *Session) Set(ctx context.Context, f driver.Fence, object string, value int) error {
	s.client.Community, s.client.Timeout, s.client.Retries = s.target.Write, s.opts.SetTimeout, 0
	s.wire.begin(f)
	packet, err := s.under(ctx, func() (*gosnmp.SnmpPacket, error) {
		return s.client.Set([]gosnmp.SnmpPDU{{Name: "." + object, Type: gosnmp.Integer, Value: value}})
	})
	switch {
	case s.wire.refused != nil:
		return s.wire.refused
	case err != nil:
		return &bmc.Lost{Err: err, Unknown: s.wire.left > 0}
	}
	return refusal(packet, s.target.Names.Write, s.target.Names.User)
}
