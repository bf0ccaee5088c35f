package cimc

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

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

// newIMC is an IMC whose server boots by kinds, or with exact by a precise order.
func newIMC(t *testing.T, exact bool) *ciscotest.Server {
	s := ciscotest.New(t)
	s.Set(func() {
		s.Put(cisco.New("computeRackUnit", "dn", unit, "operPower", "off", "adminPower", "policy", "uuid", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "vendor", "Cisco Systems Inc", "model", "UCSC-C220-M4S", "serial", "FCH2"))
		s.Put(cisco.New("topSystem", "dn", "sys", "name", "imc1", "mode", "stand-alone"))
		s.Put(cisco.New("biosUnit", "dn", unit+"/bios", "model", "UCSC-C220-M4S"))
		s.Put(cisco.New("lsbootDef", "dn", byKind, "rebootOnUpdate", "no").With(
			cisco.New("lsbootStorage", "rn", "storage-read-write", "access", "read-write", "order", "1", "type", "storage"),
			cisco.New("lsbootLan", "rn", "lan-read-only", "access", "read-only", "order", "2", "type", "lan", "prot", "pxe"),
			cisco.New("lsbootEfi", "rn", "efi-read-only", "access", "read-only", "order", "3", "type", "efi"),
			cisco.New("lsbootBootSecurity", "rn", "boot-security", "secureBoot", "disabled")))
		if exact {
			s.Put(cisco.New("lsbootDevPrecision", "dn", precise, "configuredBootMode", "Uefi", "rebootOnUpdate", "no").With(
				cisco.New("lsbootHdd", "rn", "hdd-raid", "name", "raid", "order", "1", "type", "LOCALHDD", "slot", "MRAID", "state", "Enabled"),
				cisco.New("lsbootPxe", "rn", "pxe-mlom", "name", "mlom", "order", "2", "type", "PXE", "subtype", "PXE", "slot", "MLOM", "port", "1", "state", "Enabled")))
		} else {
			s.Put(cisco.New("lsbootDevPrecision", "dn", precise, "rebootOnUpdate", "no"))
		}
		s.Wrote = func(o cisco.Object) {
			if is := map[string]string{"up": "on", "down": "off", "soft-shut-down": "off", "hard-reset-immediate": "on"}[o.Get("adminPower")]; is != "" {
				s.Put(cisco.New("computeRackUnit", "dn", unit, "operPower", is, "adminPower", "policy"))
			}
		}
	})
	return s
}

func nodeOf(s *ciscotest.Server, more map[string]any) *node.Document {
	host, port := s.HostPort()
	info := map[string]any{"cimc_address": host, "cimc_port": port, "cimc_username": "admin", "cimc_password": "s3cret", "cimc_verify_ca": s.PEM()}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", Driver: "cisco-ucs-standalone", DriverInfo: info}
}

func newDriver(t *testing.T) *Driver {
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

func TestConformance(t *testing.T) {
	for name, exact := range map[string]bool{"by kinds": false, "precise": true} {
		t.Run(name, func(t *testing.T) {
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
				s, d := newIMC(t, exact), newDriver(t)
				m := s.Play(&drivertest.Machine{Power: d, Management: d, Node: nodeOf(s, nil), Lasting: true, Secret: "s3cret", Without: map[string]string{"Second": "an IMC is one machine"}})
				m.Deny = func() { s.Set(func() { s.Password, s.Cookies = "an0ther", nil }) }
				m.Logins = func() (n int) { s.Set(func() { n = s.Refused }); return n }
				m.Sessions = func() (n int) { s.Set(func() { n = len(s.Cookies) }); return n }
				m.Forget = func() {
					s.Set(func() {
						for at, order := range map[string]string{byKind + "/storage-read-write": "1", byKind + "/lan-read-only": "2"} {
							s.Put(s.Object(at).Set("order", order))
						}
						if exact {
							s.Put(s.Object(precise+"/hdd-raid").Set("order", "1"))
							s.Put(s.Object(precise+"/pxe-mlom").Set("order", "2"))
						}
					})
				}
				m.Corrected = func() *node.Document { return nodeOf(s, map[string]any{"cimc_password": "an0ther"}) }
				return m
			})
		})
	}
}

func TestOrders(t *testing.T) {
	f := &drivertest.Fence{}
	for exact, want := range map[bool]map[string]string{
		false: {byKind + "/lan-read-only": "1", byKind + "/storage-read-write": "2", byKind + "/efi-read-only": "3"},
		true:  {precise + "/pxe-mlom": "1", precise + "/hdd-raid": "2", byKind + "/lan-read-only": "2"},
	} {
		s, d := newIMC(t, exact), newDriver(t)
		if err := d.SetBootDevice(t.Context(), f, nodeOf(s, nil), driver.BootPXE, true); err != nil {
			t.Fatal(err)
		}
		s.Set(func() {
			for at, order := range want {
				if is := s.Object(at).Get("order"); is != order {
					t.Errorf("%s has the order %q, want %s", at, is, order)
				}
			}
			if exact && (s.Object(precise+"/pxe-mlom").Get("slot") != "MLOM" || s.Object(precise).Get("configuredBootMode") != "Uefi") {
				t.Error("the order lost what it does not concern")
			}
		})
		mode, err := d.BootMode(t.Context(), nodeOf(s, nil))
		if exact && (err != nil || mode != "uefi") || !exact && !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("boot mode %q, %v", mode, err)
		}
		if exact {
			if err := d.SetBootMode(t.Context(), f, nodeOf(s, nil), "bios"); err != nil {
				t.Error(err)
			}
			if mode, err := d.BootMode(t.Context(), nodeOf(s, nil)); err != nil || mode != "bios" {
				t.Errorf("boot mode %q, %v", mode, err)
			}
		}
		for vendor, want := range map[string]string{"Cisco Systems Inc": "cisco", "Cisco": "cisco", " Contoso ": "contoso", "": ""} {
			s.Set(func() { s.Put(cisco.New("computeRackUnit", "dn", unit, "vendor", vendor)) })
			if is, err := d.DetectVendor(t.Context(), nodeOf(s, nil)); err != nil || is != want {
				t.Errorf("%q: vendor %q, %v", vendor, is, err)
			}
		}
		id, err := d.Identity(t.Context(), nodeOf(s, nil))
		if err != nil || id.Serial != "FCH2" || id.UUID == "" {
			t.Errorf("%+v, %v", id, err)
		}
	}
}

// An order that is answered well and not carried out is no success.
func TestABootDeviceThatIsNotKept(t *testing.T) {
	s, d := newIMC(t, false), newDriver(t)
	s.Set(func() {
		s.Wrote = func(cisco.Object) {
			s.Put(cisco.New("lsbootStorage", "dn", byKind+"/storage-read-write", "order", "1"))
			s.Put(cisco.New("lsbootLan", "dn", byKind+"/lan-read-only", "order", "2"))
		}
	})
	err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, nodeOf(s, nil), driver.BootPXE, true)
	if err == nil || !strings.Contains(err.Error(), `has "disk" as its first boot device still`) {
		t.Errorf("%v", err)
	}
}

// A cookie is refreshed while it lasts, so that one session is all that an IMC ever has of a rackd.
func TestCookiesAreRefreshed(t *testing.T) {
	s, d := newIMC(t, false), newDriver(t)
	s.Set(func() { s.Period, s.Most = 1, 1 })
	for range 2 {
		if _, err := d.PowerState(t.Context(), nodeOf(s, nil)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(600 * time.Millisecond)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Set(func() {
		if s.Logins != 1 || s.Refreshs != 1 || s.Logouts != 1 || len(s.Cookies) != 0 {
			t.Errorf("%d logins, %d refreshes, %d log-outs, %d sessions left", s.Logins, s.Refreshs, s.Logouts, len(s.Cookies))
		}
	})
}
