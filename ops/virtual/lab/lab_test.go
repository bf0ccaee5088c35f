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
	go func() { served <- l.Serve(ctx, nil, func(s *Serving) { ready <- s }) }()
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
