package snmp

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

// session is a socket for one PDU, with what gosnmp knows of its engine. The holder of the PDU's turn uses it.
type session struct {
	client *gosnmp.GoSNMP
	wire   *wire
	opts   Options
	read   string // communities
	write  string
	// identity is the model that the PDU said it is, empty until it was asked.
	identity string
	target   target
	// silent: a question was not answered. The PDU may be at another address under its name by now.
	silent bool
}

// renew opens another socket where the PDU was silent on this one.
func (s *session) renew(ctx context.Context) error {
	if !s.silent {
		return nil
	}
	next, err := open(ctx, s.target, s.opts)
	if err != nil {
		return err
	}
	s.Drop()
	*s = *next
	return nil
}

// wire is a socket that asks the fence for each datagram of a write.
type wire struct {
	net.Conn
	fence   driver.Fence // nil for reads
	left    int          // datagrams of this request that may have reached the PDU
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

// Write sends nothing more once the PDU has refused the request: wrong keys are counted.
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

// open makes a socket. It sends nothing: the first request finds out about the PDU.
func open(ctx context.Context, t target, o Options) (*session, error) {
	c := &gosnmp.GoSNMP{
		Target: t.host, Port: t.port, Version: t.version, Community: t.read, Context: ctx,
		Timeout: o.AnswerTimeout, Retries: o.Tries - 1, MaxOids: 1,
		Control: outbound.Dialer(o.AnswerTimeout, o.Networks.Check).Control,
	}
	if t.version == gosnmp.Version3 {
		c.SecurityModel, c.MsgFlags = gosnmp.UserSecurityModel, gosnmp.NoAuthNoPriv
		switch {
		case t.priv != gosnmp.NoPriv:
			c.MsgFlags = gosnmp.AuthPriv
		case t.auth != gosnmp.NoAuth:
			c.MsgFlags = gosnmp.AuthNoPriv
		}
		c.SecurityParameters = &gosnmp.UsmSecurityParameters{UserName: t.user, AuthenticationProtocol: t.auth, AuthenticationPassphrase: t.authKey,
			PrivacyProtocol: t.priv, PrivacyPassphrase: t.privKey}
		c.ContextEngineID, c.ContextName = t.engine, t.context
	}
	if err := c.Connect(); err != nil {
		return nil, &bmc.Lost{Err: err}
	}
	w := &wire{Conn: c.Conn}
	c.Conn = w
	if t.version == gosnmp.Version3 && t.auth != gosnmp.NoAuth {
		w.reports = func(datagram []byte) error { return unauthenticReport(c, datagram, w.before) }
	}
	return &session{client: c, wire: w, opts: o, read: t.read, write: t.write, target: t}, nil
}

// Close implements bmc.Session: SNMP knows no farewell.
func (s *session) Close(context.Context) { s.Drop() }

// Drop implements bmc.Session.
func (s *session) Drop() { _ = s.wire.Conn.Close() }

// under runs do for ctx: gosnmp looks at the end of a context between its tries only.
func (s *session) under(ctx context.Context, do func() (*gosnmp.SnmpPacket, error)) (*gosnmp.SnmpPacket, error) {
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

// get reads an object. One that is not there is an errAbsent.
func (s *session) get(ctx context.Context, object string) (gosnmp.SnmpPDU, error) {
	if err := s.renew(ctx); err != nil {
		return gosnmp.SnmpPDU{}, err
	}
	s.client.Community, s.client.Timeout, s.client.Retries = s.read, s.opts.AnswerTimeout, s.opts.Tries-1
	s.wire.begin(nil)
	packet, err := s.under(ctx, func() (*gosnmp.SnmpPacket, error) { return s.client.Get([]string{object}) })
	if err != nil {
		s.silent = reported(err) == nil
		return gosnmp.SnmpPDU{}, unanswered(err)
	}
	if err := refusal(packet, fieldCommunityRead); err != nil {
		return gosnmp.SnmpPDU{}, err
	}
	if len(packet.Variables) != 1 || strings.TrimPrefix(packet.Variables[0].Name, ".") != object {
		return gosnmp.SnmpPDU{}, &bmc.Failure{Said: "another object than the one that was asked for"}
	}
	switch v := packet.Variables[0]; v.Type {
	case gosnmp.NoSuchObject, gosnmp.NoSuchInstance, gosnmp.EndOfMibView, gosnmp.Null:
		return v, errAbsent
	default:
		return v, nil
	}
}

// number reads an object that is an integer.
func (s *session) number(ctx context.Context, object string) (int, error) {
	v, err := s.get(ctx, object)
	if err != nil {
		return 0, err
	}
	switch v.Type {
	case gosnmp.Integer, gosnmp.Uinteger32, gosnmp.Gauge32, gosnmp.Counter32, gosnmp.TimeTicks:
		if i := gosnmp.ToBigInt(v.Value); i.IsInt64() && i.CmpAbs(big.NewInt(1<<31)) < 0 {
			return int(i.Int64()), nil
		}
	}
	return 0, &bmc.Failure{Said: fmt.Sprintf("%s with something that is no number of a state (type %s)", object, v.Type)}
}

// set writes an integer, in one datagram. Reports say that a PDU has not looked at a request, and anybody can make one: after
// such a report too the outcome is unknown.
func (s *session) set(ctx context.Context, f driver.Fence, o order, outlet int) error {
	object := at(o.object, outlet)
	s.client.Community, s.client.Timeout, s.client.Retries = s.write, s.opts.SetTimeout, 0
	s.wire.begin(f)
	packet, err := s.under(ctx, func() (*gosnmp.SnmpPacket, error) {
		return s.client.Set([]gosnmp.SnmpPDU{{Name: "." + object, Type: gosnmp.Integer, Value: o.value}})
	})
	switch {
	case s.wire.refused != nil:
		return s.wire.refused
	case err != nil:
		return &bmc.Lost{Err: err, Unknown: s.wire.left > 0}
	}
	err = refusal(packet, fieldCommunityWrite)
	if errors.Is(err, errAbsent) {
		return fmt.Errorf("answered that it has no object %s that can be written with these credentials: check %s and %s: %w", object, fieldDriver, fieldCommunityWrite, driver.ErrInvalid)
	}
	return err
}
