package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/serialline"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// display is where the VNC server of a machine listens on its host.
type display struct{ network, address string }

// running is what is read of the description of a machine as it runs.
type running struct {
	ID      string `xml:"id,attr"` // a machine that is off has none
	Devices struct {
		Graphics []graphics `xml:"graphics"`
	} `xml:"devices"`
}

// graphics is one display.
type graphics struct {
	Type   string `xml:"type,attr"`
	Port   string `xml:"port,attr"`
	Listen string `xml:"listen,attr"`
	Socket string `xml:"socket,attr"`
	// Password is why its viewers need one.
	Password string `xml:"passwd,attr"`
	Listens  []struct {
		Type    string `xml:"type,attr"`
		Address string `xml:"address,attr"`
		Socket  string `xml:"socket,attr"`
	} `xml:"listen"`
}

// displayOf finds the VNC server in a description of a machine that runs. An error says what there is instead.
func displayOf(text string) (display, error) {
	var r running
	if err := xml.Unmarshal([]byte(text), &r); err != nil {
		return display{}, &bmc.Failure{Said: "with a description of the machine that cannot be read: " + err.Error()}
	}
	if r.ID == "" {
		return display{}, &bmc.Failure{Class: bmc.Busy, Said: "that the machine is off: it has a display while it runs"}
	}
	other := ""
	for _, g := range r.Devices.Graphics {
		if g.Type != "vnc" {
			other = g.Type
			continue
		}
		return g.display()
	}
	if other != "" {
		return display{}, fmt.Errorf("the machine's display speaks %.20s and no VNC: give it <graphics type='vnc'/>: %w", other, driver.ErrUnsupported)
	}
	return display{}, fmt.Errorf("the machine has no display: give it <graphics type='vnc'/>: %w", driver.ErrUnsupported)
}

// display is where the server listens.
func (g graphics) display() (display, error) {
	if g.Password != "" {
		return display{}, fmt.Errorf("the machine's display asks viewers for a password (passwd of <graphics>), which rackd does not give away: take it out, and let the display listen on 127.0.0.1 or a socket: %w", driver.ErrUnsupported)
	}
	host, socket := g.Listen, g.Socket
	for _, l := range g.Listens {
		if l.Type == "none" {
			return display{}, fmt.Errorf("the machine's display listens nowhere (<listen type='none'/>): give it an address or a socket: %w", driver.ErrUnsupported)
		}
		if l.Socket != "" {
			socket = l.Socket
		}
		if l.Address != "" {
			host = l.Address
		}
	}
	if socket != "" {
		return display{"unix", socket}, nil
	}
	port, err := strconv.ParseUint(g.Port, 10, 16)
	if err != nil || port == 0 {
		return display{}, &bmc.Failure{Class: bmc.Busy, Said: fmt.Sprintf("that the machine's display has no port yet (%.20q)", g.Port)}
	}
	switch ip := net.ParseIP(host); {
	case host == "":
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified() && ip.To4() == nil:
		host = "::1"
	case ip != nil && ip.IsUnspecified():
		host = "127.0.0.1"
	}
	return display{"tcp", net.JoinHostPort(host, g.Port)}, nil
}

// displayNow reads where the machine's display is.
func (s *session) displayNow(ctx context.Context, domain golibvirt.Domain) (display, error) {
	var text string
	err := s.read(ctx, func() (err error) {
		text, err = s.rpc.DomainGetXMLDesc(domain, golibvirt.DomainXMLSecure)
		return err
	})
	if err != nil {
		return display{}, err
	}
	return displayOf(text)
}

// dialDisplay connects to a display as libvirt itself is reached.
func dialDisplay(ctx context.Context, t target, at display, o Options) (serialline.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	switch t.transport {
	case local:
		d := outbound.Dialer(o.ConnectTimeout, o.Networks.Check)
		if at.network == "unix" {
			d = &net.Dialer{Timeout: o.ConnectTimeout}
		}
		conn, err := d.DialContext(ctx, at.network, at.address)
		if err != nil {
			return nil, lost(err)
		}
		return &viewerConn{Conn: conn}, nil
	case overSSH:
		client, err := dialSSH(ctx, t, o)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { client.Close() })
		conn, err := client.Dial(at.network, at.address)
		if !stop() || err != nil {
			client.Close()
			if ctx.Err() != nil {
				return nil, lost(context.Cause(ctx))
			}
			return nil, fmt.Errorf("its host lets the user not to the machine's display at %s (%w): check that sshd allows AllowTcpForwarding and AllowStreamLocalForwarding: %w", at.address, err, driver.ErrUnreachable)
		}
		return &viewerConn{conn, client}, nil
	}
	return nil, fmt.Errorf("libvirt's TLS carries no display: give %s as qemu+ssh://HOST/system: %w", fieldURI, driver.ErrUnsupported)
}

// viewerConn is a connection to a display.
type viewerConn struct {
	net.Conn
	client *ssh.Client // that it travels in, nil for none
}

// Read implements serialline.Stream.
func (v *viewerConn) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	if errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// Write implements serialline.Stream.
func (v *viewerConn) Write(p []byte) error {
	_, err := v.Conn.Write(p)
	return err
}

// Break implements serialline.Stream: a display has none.
func (v *viewerConn) Break() error {
	return fmt.Errorf("a graphical console has no break: %w", driver.ErrUnsupported)
}

// Alive implements serialline.Stream. A host of SSH is asked; the end of a server on rackd's own machine, or in its network, is told by
// the kernel.
func (v *viewerConn) Alive(ctx context.Context) error {
	if v.client == nil {
		return nil
	}
	return serialline.Answers(ctx, v.client)
}

// Close implements serialline.Stream.
func (v *viewerConn) Close() {
	v.Conn.Close()
	if v.client != nil {
		v.client.Close()
	}
}
