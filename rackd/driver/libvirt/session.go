package libvirt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// session is a connection to one host's libvirt. The holder of the host's turn uses it.
type session struct {
	rpc   *golibvirt.Libvirt
	conn  net.Conn
	wire  *replies // of conn
	opts  Options
	under func() // closes what conn travels in, nil for nothing
	cut   atomic.Bool
}

// open dials a host and opens what the URI names.
func open(ctx context.Context, t target, o Options) (*session, error) {
	dial, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	s := &session{opts: o}
	if err := s.dial(dial, t); err != nil {
		return nil, err
	}
	s.wire = &replies{Conn: s.conn}
	s.rpc = golibvirt.NewWithDialer(dialers.NewAlreadyConnected(s.wire))
	err := s.call(dial, func() error { return s.rpc.ConnectToURI(golibvirt.ConnectURI(t.uri)) })
	if err != nil {
		s.Drop()
		return nil, unanswered(s.said(err))
	}
	return s, nil
}

// dial makes conn.
func (s *session) dial(ctx context.Context, t target) (err error) {
	d := outbound.Dialer(s.opts.ConnectTimeout, s.opts.Networks.Check)
	if t.transport == local {
		d = &net.Dialer{Timeout: s.opts.ConnectTimeout}
		s.conn, err = d.DialContext(ctx, "unix", t.socket)
		return lost(err)
	}
	if t.transport == overSSH {
		return s.tunnel(ctx, t)
	}
	wire, err := d.DialContext(ctx, "tcp", t.address())
	if err != nil {
		return lost(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = wire.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err = s.shakeTLS(ctx, wire, t); err != nil {
		wire.Close()
	}
	return err
}

// shakeTLS makes conn of a TLS connection. libvirt says by one octet whether it takes the client's certificate.
func (s *session) shakeTLS(ctx context.Context, wire net.Conn, t target) error {
	config, err := t.trust(s.opts).TLS()
	if err != nil {
		return err
	}
	config = config.Clone()
	config.ServerName = t.host
	if t.cert != "" {
		pair, err := tls.X509KeyPair([]byte(t.cert), []byte(t.key))
		if err != nil {
			return invalid(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	conn := tls.Client(wire, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return lost(err)
	}
	verdict := make([]byte, 1)
	_, err = conn.Read(verdict)
	if silent, is := errors.AsType[net.Error](err); is && silent.Timeout() {
		return lost(err) // it hangs; a refusal ends the connection
	}
	if err != nil || verdict[0] != 1 {
		return bmc.RefusedLogin(&bmc.Failure{Class: bmc.Denied, Said: fmt.Sprintf("the client's certificate is not taken (%v)", err)})
	}
	s.conn = conn
	return nil
}

// tunnel makes conn of libvirt's socket at the other end of an SSH connection.
func (s *session) tunnel(ctx context.Context, t target) error {
	client, err := dialSSH(ctx, t, s.opts)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	conn, err := client.Dial("unix", t.socket)
	if err != nil {
		client.Close()
		return fmt.Errorf("lets the user not to libvirt's socket %s (%w): check that libvirtd runs, that the user may use it, and that sshd allows AllowStreamLocalForwarding: %w", t.socket, err, driver.ErrUnreachable)
	}
	s.conn, s.under = conn, func() { client.Close() }
	return nil
}

// dialSSH logs in to the host.
func dialSSH(ctx context.Context, t target, o Options) (*ssh.Client, error) {
	host := bmc.SSH{Address: t.address(), User: t.user, Password: t.password, HostKey: t.hostKey, HostKeyField: fieldHostKey}
	if t.key != "" {
		signer, err := ssh.ParsePrivateKey([]byte(t.key))
		if err != nil {
			return nil, invalid(err)
		}
		host.Key = signer
	}
	return host.Dial(ctx, o.ConnectTimeout, o.Networks)
}

// Close implements bmc.Session.
func (s *session) Close(ctx context.Context) {
	_ = s.call(ctx, s.rpc.Disconnect)
	s.Drop()
}

// Drop implements bmc.Session.
func (s *session) Drop() {
	s.cut.Store(true)
	s.conn.Close()
	if s.under != nil {
		s.under()
	}
}

// call makes one call. go-libvirt knows no contexts: one that ends before the answer ends the connection.
func (s *session) call(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		s.Drop()
		return context.Cause(ctx)
	}
}

// read makes a call that changes nothing.
func (s *session) read(ctx context.Context, do func() error) error {
	return s.sort(ctx, s.call(ctx, do))
}

// write makes a call that changes the machine, behind the fence.
func (s *session) write(ctx context.Context, f driver.Fence, do func() error) error {
	return bmc.Order(f, func() (left bool, err error) {
		if s.cut.Load() {
			return false, errors.New("the connection is closed")
		}
		if err = s.call(ctx, do); err == nil {
			return true, nil
		}
		if said := answered(err); said != nil {
			return true, said
		}
		return true, err
	})
}

// said is err, or what the host has sent in place of a packet.
func (s *session) said(err error) error {
	if broken := s.wire.broken.Load(); broken != nil {
		return &bmc.Failure{Said: broken.what}
	}
	return err
}

// sort sorts what came in place of the answer to a read. A connection that has broken is opened once more.
func (s *session) sort(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if said := answered(err); said != nil {
		return said
	}
	if s.wire.broken.Load() != nil {
		return bmc.Forgotten(s.said(err))
	}
	if ctx.Err() == nil {
		return bmc.Forgotten(&bmc.Lost{Err: err})
	}
	return &bmc.Lost{Err: err}
}
