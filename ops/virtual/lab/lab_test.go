package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"crypto/tls"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/netns"
)

// One life of a lab: up, a machine turned on by Redfish inside the namespace, left
// running without its BMC, found by its status, taken down from the description.
func TestLife(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a lab needs root for its network namespace")
	}
	dir := t.TempDir()
	l, err := New(fmt.Sprintf("test-%d", os.Getpid()), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if err := l.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, served := make(chan *Serving, 1), make(chan error, 1)
	go func() { served <- l.Serve(ctx, nil, func(s *Serving) { ready <- s }, statusByUDP) }()
	select {
	case <-ready:
	case err := <-served:
		cancel()
		t.Fatal(err)
	}
	if err := l.Down(t.Context()); !errors.Is(err, ErrServed) {
		t.Errorf("down while served: %v, want ErrServed", err)
	}
	bios := l.Machines[1]
	turnOn(t, l, bios)
	if got := askByUDP(t, l); got != "bios-0 true" {
		t.Errorf("the second BMC of the machine that the first turned on says %q", got)
	}
	limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if _, err := machine.OpenSerial(bios.Dir, 0).Wait(limit, regexp.MustCompile("iPXE|SeaBIOS")); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := again.Status()
	if err != nil || !s.Up || s.Machines[0].Power != "off" || s.Machines[1].Power != "on" {
		t.Errorf("status %+v, %v", s, err)
	}
	for range 2 {
		if err := again.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("description after down: %v", err)
	}
	if s, err := again.Status(); err != nil || s.Up || s.Machines[1].Power != "off" {
		t.Errorf("status after down %+v, %v", s, err)
	}
}

// statusByUDP is a BMC of another protocol: it answers any datagram by the name of its
// machine and whether it is on.
func statusByUDP(m Machine, computer *machine.Machine, ns *netns.Namespace) (func(context.Context) error, error) {
	if m.Firmware != machine.BIOS {
		return nil, nil
	}
	conn, err := ns.ListenPacket("udp4", "10.77.0.1:623")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		for buffer := make([]byte, 16); ; {
			_, from, err := conn.ReadFrom(buffer)
			if err == nil {
				_, err = conn.WriteTo(fmt.Appendf(nil, "%s %t", m.Name, computer.On()), from)
			}
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}, nil
}

func askByUDP(t *testing.T, l *Lab) string {
	t.Helper()
	ns, err := l.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ns.Dial("udp4", "10.77.0.1:623")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := make([]byte, 64)
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer[:n])
}

func turnOn(t *testing.T, l *Lab, m Machine) {
	t.Helper()
	ns, err := l.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: ns.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	c, err := gofish.Connect(gofish.ClientConfig{
		Endpoint: m.BMCURL(), Username: m.BMCUser, Password: m.BMCPassword, HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Logout()
	systems, err := c.Service.Systems()
	if err != nil {
		t.Fatal(err)
	}
	if err := systems[0].Reset(redfish.OnResetType); err != nil {
		t.Fatal(err)
	}
}
