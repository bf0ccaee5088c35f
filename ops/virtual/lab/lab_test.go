package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"crypto/tls"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

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
	systems, err := connect(t, l, m).Service.Systems()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := systems[0].Reset(schemas.OnResetType); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, l *Lab, m Machine) *gofish.APIClient {
	t.Helper()
	ns, err := l.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: ns.DialContext, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	c, err := gofish.Connect(gofish.ClientConfig{
		Endpoint: m.BMCURL(), Username: m.BMCUser, Password: m.BMCPassword, HTTPClient: &http.Client{Transport: transport}, BasicAuth: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A description names what a machine's BMCs are: one of a further protocol, and what the
// firmware lets its Redfish BMC do.
func TestMachinesByDescription(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a lab needs root for its network namespace")
	}
	machines := Machines()
	machines[0].BootByVariables, machines[0].SecureBoot = true, true
	options := []Option{WithMachines(machines...), WithBMC("bios-0", "udp")}
	l, err := New(fmt.Sprintf("desc-%d", os.Getpid()), t.TempDir(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := l.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Serve(t.Context(), nil, nil); err == nil {
		t.Error("a lab was served without the BMC that its description names")
	}
	if err := l.Serve(t.Context(), nil, nil, ByProtocol(map[string]BMC{"tcp": statusByUDP})); err == nil || !strings.Contains(err.Error(), `"udp"`) {
		t.Errorf("a lab with a protocol that is not known: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, served := make(chan *Serving, 1), make(chan error, 1)
	var address string
	known := map[string]BMC{"udp": func(m Machine, c *machine.Machine, ns *netns.Namespace) (func(context.Context) error, error) {
		address = m.Name + " " + m.FurtherBMCs["udp"]
		return statusByUDP(m, c, ns)
	}}
	go func() {
		served <- l.Serve(ctx, nil, func(s *Serving) { ready <- s }, ByProtocol(known))
	}()
	select {
	case <-ready:
	case err := <-served:
		cancel()
		t.Fatal(err)
	}
	if address != "bios-0 10.77.0.1:9011" {
		t.Errorf("the further BMC was told %q", address)
	}
	if got := askByUDP(t, l); got != "bios-0 false" {
		t.Errorf("the further BMC says %q", got)
	}
	for i, able := range []bool{true, false} {
		c := connect(t, l, l.Machines[i])
		systems, err := c.Service.Systems()
		if err != nil || len(systems) != 1 {
			t.Fatalf("systems %v, %v", systems, err)
		}
		secure, err := systems[0].SecureBoot()
		if err != nil || (secure != nil) != able {
			t.Errorf("%s: secure boot %+v, %v", l.Machines[i].Name, secure, err)
		}
		err = systems[0].SetBoot(&schemas.Boot{BootSourceOverrideTarget: schemas.UefiHTTPBootSource, BootSourceOverrideEnabled: "Once", HTTPBootURI: gofish.ToRef("http://10.77.0.1/x")})
		if (err == nil) != able {
			t.Errorf("%s: HTTP boot: %v", l.Machines[i].Name, err)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	again, err := Load(l.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		options []Option
		same    bool
	}{"the same": {options, true}, "ordinary machines": {nil, false}, "other BMCs": {append(slices.Clone(options), WithBMC("uefi-0", "udp")), false}} {
		wanted, err := New(l.Name, l.Dir, c.options...)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Differs(wanted); (err == nil) != c.same {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := New("x", t.TempDir(), WithBMC("uefi-9", "udp")); err == nil {
		t.Error("a BMC for a machine that is not there")
	}
}

// A lab keeps the architecture of its machines; a description from before there were several is of x86_64.
func TestDiffersByArchitecture(t *testing.T) {
	of := func(a machine.Arch) *Lab {
		t.Helper()
		l, err := New("x", t.TempDir(), WithMachines(machine.Config{Name: "m-0", Firmware: machine.UEFI, Arch: a}))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := of("").Differs(of(machine.X8664)); err != nil {
		t.Error(err)
	}
	if err := of("").Differs(of(machine.AArch64)); err == nil || !strings.Contains(err.Error(), "architecture x86_64") {
		t.Errorf("a lab of x86_64 that is to be of aarch64: %v", err)
	}
}
