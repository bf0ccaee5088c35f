package ucs

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/cisco"
	"github.com/ironyard/ironyard/rackd/driver/cisco/ciscotest"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newChassis is a UCS Manager with two service profiles that share a boot policy, and a third without a server.
func newChassis(t *testing.T) *ciscotest.Server {
	s := ciscotest.New(t)
	s.Set(func() {
		s.Put(cisco.New("lsbootPolicy", "dn", "org-root/boot-policy-default", "name", "default", "bootMode", "legacy", "rebootOnUpdate", "yes", "enforceVnicName", "yes").With(
			cisco.New("lsbootStorage", "rn", "storage", "type", "storage", "access", "read-write", "order", "1").With(cisco.New("lsbootLocalStorage", "rn", "local-storage").With(
				cisco.New("lsbootLocalHddImage", "rn", "local-hdd", "order", "1", "type", "local-lun"))),
			cisco.New("lsbootLan", "rn", "lan", "type", "lan", "access", "read-only", "order", "2", "prot", "pxe").With(
				cisco.New("lsbootLanImagePath", "rn", "path-primary", "type", "primary", "vnicName", "nic-a"))))
		s.Put(cisco.New("topSystem", "dn", "sys", "name", "ucsm1", "mode", "cluster"))
		s.Put(cisco.New("networkElement", "dn", "sys/switch-A", "model", "UCS-FI-6248UP"))
		for i, name := range []string{"web1", "web2"} {
			blade := "sys/chassis-1/blade-" + string(rune('1'+i))
			s.Put(cisco.New("computeBlade", "dn", blade, "presence", "equipped", "operPower", "off", "uuid", "1b4e28ba-2fa1-11d2-883f-0016d3cca42"+string(rune('0'+i)), "vendor", "Cisco Systems Inc", "model", "UCSB-B200-M4", "serial", "FCH1"))
			s.Put(cisco.New("lsServer", "dn", "org-root/ls-"+name, "name", name, "assocState", "associated", "pnDn", blade, "bootPolicyName", "default", "operBootPolicyName", "org-root/boot-policy-default"))
			s.Put(cisco.New("lsPower", "dn", "org-root/ls-"+name+"/power", "state", "down"))
		}
		s.Put(cisco.New("vnicEther", "dn", "org-root/ls-web1/ether-nic-b", "name", "nic-b", "order", "2"))
		s.Put(cisco.New("vnicEther", "dn", "org-root/ls-web1/ether-nic-a", "name", "nic-a", "order", "1"))
		s.Put(cisco.New("lsServer", "dn", "org-root/ls-idle", "name", "idle", "assocState", "unassociated", "pnDn", ""))
		s.Wrote = func(o cisco.Object) {
			switch o.Class() {
			case "lsPower":
				blade := s.Object(s.Object(strings.TrimSuffix(o.Get("dn"), "/power")).Get("pnDn"))
				is := map[string]string{"admin-up": "on", "admin-down": "off", "soft-shut-down": "off", "hard-reset-immediate": "on"}[o.Get("state")]
				if is != "" {
					s.Put(blade.Set("operPower", is))
				}
			case "lsServer":
				if o.Get("bootPolicyName") == "" {
					s.Put(o.With().Set("operBootPolicyName", o.Get("dn")+"/boot-policy"))
				}
			}
		}
	})
	return s
}

func nodeOf(s *ciscotest.Server, more map[string]any) *node.Document {
	host, port := s.HostPort()
	info := map[string]any{"ucs_address": host, "ucs_port": port, "ucs_username": "admin", "ucs_password": "s3cret", "ucs_verify_ca": s.PEM(), fieldProfile: "org-root/ls-web1"}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", Driver: "cisco-ucs-managed", DriverInfo: info}
}

func newDriver(t *testing.T) *Driver {
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		s, d := newChassis(t), newDriver(t)
		m := s.Play(&drivertest.Machine{Power: d, Management: d, Node: nodeOf(s, nil), Lasting: true, Secret: "s3cret"})
		m.Second = func() *node.Document {
			n := nodeOf(s, map[string]any{fieldProfile: "org-root/ls-web2"})
			n.UUID, n.Name = "b3d2", "web2"
			return n
		}
		m.Deny = func() { s.Set(func() { s.Password, s.Cookies = "an0ther", nil }) }
		m.Logins = func() (n int) { s.Set(func() { n = s.Refused }); return n }
		m.Sessions = func() (n int) { s.Set(func() { n = len(s.Cookies) }); return n }
		m.Forget = func() { // another manager of its profiles gives it the shared policy back
			s.Set(func() {
				s.Put(cisco.New("lsServer", "dn", "org-root/ls-web1", "bootPolicyName", "default", "operBootPolicyName", "org-root/boot-policy-default"))
			})
		}
		m.Corrected = func() *node.Document { return nodeOf(s, map[string]any{"ucs_password": "an0ther"}) }
		return m
	})
}

// Two nodes of one manager share a login, and not a machine.
func TestTwoNodesOfOneManager(t *testing.T) {
	s, d := newChassis(t), newDriver(t)
	one, two := nodeOf(s, nil), nodeOf(s, map[string]any{fieldProfile: "org-root/ls-web2"})
	f := &drivertest.Fence{}
	if err := d.SetPower(t.Context(), f, one, driver.PowerOn); err != nil {
		t.Fatal(err)
	}
	if err := d.SetBootDevice(t.Context(), f, one, driver.BootPXE, true); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[*node.Document]driver.PowerState{one: driver.PowerOn, two: driver.PowerOff} {
		if is, err := d.PowerState(t.Context(), n); err != nil || is != want {
			t.Errorf("%v: %q, %v; want %q", n.DriverInfo[fieldProfile], is, err, want)
		}
	}
	if vendor, err := d.DetectVendor(t.Context(), two); err != nil || vendor != "cisco" {
		t.Errorf("vendor %q, %v", vendor, err)
	}
	for n, want := range map[*node.Document]string{one: "pxe", two: "disk"} {
		if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != want {
			t.Errorf("%v boots from %q, %v; want %s", n.DriverInfo[fieldProfile], is.Device, err, want)
		}
	}
	s.Set(func() {
		if lan := s.Object("org-root/boot-policy-default/lan"); lan.Get("order") != "2" {
			t.Errorf("the shared policy was written: lan has the order %s", lan.Get("order"))
		}
		if own := s.Object("org-root/ls-web1/boot-policy"); own.Get("rebootOnUpdate") != "no" || own.Get("enforceVnicName") != "yes" || own.Get("bootMode") != "legacy" {
			t.Errorf("the profile's own policy: %v", own.Attrs)
		}
		for at, want := range map[string]string{"lan": "1", "storage": "2", "storage/local-storage/local-hdd": "2"} {
			if o := s.Object("org-root/ls-web1/boot-policy/" + at); o.Get("order") != want || at == "lan" && o.Get("type") != "" && o.Get("type") != "lan" {
				t.Errorf("%s has the order %q, want %s", at, o.Get("order"), want)
			}
		}
		if path := s.Object("org-root/ls-web1/boot-policy/lan/path-primary"); path.Get("vnicName") != "nic-a" {
			t.Errorf("the vNIC got lost: %v", path.Attrs)
		}
		if s.Logins != 1 {
			t.Errorf("%d logins", s.Logins)
		}
	})
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Set(func() {
		if len(s.Cookies) != 0 || s.Logouts != 1 {
			t.Errorf("%d sessions were left behind, %d logged out of", len(s.Cookies), s.Logouts)
		}
	})
}

// A device that the policy has not is added, the network card by the profile's first vNIC; boot modes are written.
func TestDevicesThatThePolicyLacks(t *testing.T) {
	s, d := newChassis(t), newDriver(t)
	n, f := nodeOf(s, nil), &drivertest.Fence{}
	s.Set(func() {
		s.Put(cisco.New("lsServer", "dn", "org-root/ls-web1", "bootPolicyName", "", "operBootPolicyName", ""))
	})
	if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != "" {
		t.Errorf("without a policy: %+v, %v", is, err)
	}
	for _, device := range []driver.BootDevice{"cdrom", driver.BootDisk, driver.BootPXE} {
		if err := d.SetBootDevice(t.Context(), f, n, device, false); err != nil {
			t.Fatal(err)
		}
		if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != string(device) {
			t.Errorf("%+v, %v; want %s", is, err, device)
		}
	}
	if err := d.SetBootMode(t.Context(), f, n, "uefi"); err != nil {
		t.Error(err)
	}
	s.Set(func() {
		if own := s.Object("org-root/ls-web1/boot-policy"); own.Get("bootMode") != "uefi" {
			t.Errorf("boot mode %q", own.Get("bootMode"))
		}
		if path := s.Object("org-root/ls-web1/boot-policy/lan/path-primary"); path.Get("vnicName") != "nic-a" || path.Get("type") != "primary" {
			t.Errorf("the path of the network card: %v", path.Attrs)
		}
	})
}

func TestRefusals(t *testing.T) {
	s, d := newChassis(t), newDriver(t)
	for _, c := range []struct {
		more map[string]any
		says string
	}{
		{map[string]any{fieldProfile: "org-root/ls-none"}, "there is no service profile org-root/ls-none"},
		{map[string]any{fieldProfile: "org-root/ls-idle"}, "is unassociated; associate it with a server"},
		{map[string]any{"ucs_verify_ca": "true"}, "certificate that is not trusted"},
	} {
		if _, err := d.PowerState(t.Context(), nodeOf(s, c.more)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.more, err, c.says)
		}
	}
	s.Set(func() { s.Most = 1; s.Cookies = []string{"of another"} })
	if _, err := newDriver(t).PowerState(t.Context(), nodeOf(s, nil)); !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "log out other sessions") {
		t.Errorf("with all sessions taken: %v", err)
	}
}

func TestValidate(t *testing.T) {
	s, d := newChassis(t), newDriver(t)
	for _, c := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{"ucs_port": nil, "ucs_verify_ca": "false"}, ""},
		{map[string]any{"ucs_username": "", fieldProfile: nil}, "cisco-ucs-managed driver requires these parameters to be set in the node's driver_info.. Missing are: ['ucs_username', 'ucs_service_profile']"},
		{map[string]any{fieldProfile: "web1"}, "give a distinguished name"},
		{map[string]any{"ucs_port": "many"}, `ucs_port "many" is not a valid integer.`},
		{map[string]any{"ucs_address": "https://127.0.0.1"}, "ucs_address is neither"},
		{map[string]any{"ucs_address": "192.0.2.1"}, "--bmc-networks"},
		{map[string]any{"ucs_verify_ca": "ca.pem"}, "ucs_verify_ca"},
	} {
		err := d.Validate(nodeOf(s, c.more))
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%v: %v", c.more, err)
		case c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that says %q", c.more, err, c.says)
		}
	}
}
