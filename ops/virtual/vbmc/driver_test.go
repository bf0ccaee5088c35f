package vbmc

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// open is a fence that lets everything pass.
type open struct{}

func (open) Check() error  { return nil }
func (open) Work() string  { return "work" }
func (open) Epoch() uint64 { return 1 }

var _ driver.Fence = open{}

// The driver redfish and the abilities of a computer: secure boot, HTTP boot, media. What
// is so already is not written again.
func TestRedfishDriverUsesAbilities(t *testing.T) {
	b, computer, address := serveEquipped(t)
	computer.secure.PlatformKey = true
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
		"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
	fence := open{}
	const image = "http://10.0.0.1/a.iso"
	for range 2 {
		if err := d.SetSecureBoot(t.Context(), fence, n, true); err != nil || !computer.secure.Next {
			t.Fatalf("secure boot %t, %v", computer.secure.Next, err)
		}
		if err := d.SetBootDevice(t.Context(), fence, n, "uefihttp", false); err != nil {
			t.Fatal(err)
		}
		if device, once := computer.BootOverride(); device != HTTP || !once {
			t.Errorf("override %q, once %t", device, once)
		}
		if err := d.AttachMedia(t.Context(), fence, n, "cdrom", image); err != nil || computer.image != image {
			t.Fatalf("image %q, %v", computer.image, err)
		}
	}
	if on, err := d.SecureBoot(t.Context(), n); err != nil || !on {
		t.Errorf("secure boot is read as %t, %v", on, err)
	}
	if o, err := d.Observe(t.Context(), n); err != nil || o.SecureBoot == nil || !*o.SecureBoot {
		t.Errorf("observed %+v, %v", o, err)
	}
	if got := len(b.Journal.Matching("SecureBoot")) + len(b.Journal.Matching("Systems/1")) + len(b.Journal.Matching("VirtualMedia.InsertMedia")); got != 3 {
		t.Errorf("%d writes, want one for each of three settings: %+v", got, b.Journal.Writes())
	}
	const program = "http://10.0.0.1/boot.efi"
	if err := d.SetHTTPBoot(t.Context(), fence, n, program, false); err != nil || computer.uri != program {
		t.Errorf("HTTP boot of %q, %v", computer.uri, err)
	}
	if err := d.SetHTTPBoot(t.Context(), fence, n, "https://10.0.0.1/boot.efi", false); err == nil || computer.uri != program {
		t.Errorf("a URL that the computer refuses: HTTP boot of %q, %v", computer.uri, err)
	}
	computer.image = ""
	computer.unreadable = errors.New("the image's server answers 404")
	if err := d.AttachMedia(t.Context(), fence, n, "cdrom", image); err == nil {
		t.Error("an image that cannot be read was attached")
	}
	computer.unreadable, computer.image = nil, image
	for _, found := range []error{nil, errors.New("the server answers 404")} {
		computer.found = found
		list, err := d.Media(t.Context(), n)
		if err != nil || len(list) == 0 || (list[0].Problem != "") != (found != nil) || found != nil && list[0].Problem != found.Error() {
			t.Errorf("of a medium that the start found (%v) it says %+v, %v", found, list, err)
		}
	}
	computer.found = nil
	if err := d.EjectImage(t.Context(), fence, n, "cdrom", func(i string) bool { return i == image }); err != nil || computer.image != "" {
		t.Errorf("eject: image %q, %v", computer.image, err)
	}
}

// The driver gives the firmware a target with an address of IPv6, one of IPv4 after it, and takes either back.
func TestRedfishTellsFirmwareATargetOfIPv6(t *testing.T) {
	_, computer, address := serveEquipped(t)
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := &node.Document{UUID: "b3d1", DriverInfo: map[string]any{"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
	six := driver.ISCSITarget{Host: "2001:db8::10", Port: 3260, IQN: "iqn.2026-11.org.example:v", LUN: 1, Initiator: "iqn.2026-11.org.example:m",
		Second: driver.ISCSIPath{Host: "2001:db8::11", Port: 3261, IQN: "iqn.2026-11.org.example:w", LUN: 2}}
	four := six
	four.Host, four.Second = "192.0.2.10", driver.ISCSIPath{}
	for _, target := range []driver.ISCSITarget{six, four, six} {
		if err := d.SetISCSIBoot(t.Context(), open{}, n, target); err != nil {
			t.Fatal(err)
		}
		want := []ISCSITarget{{target.IQN, netip.AddrPortFrom(netip.MustParseAddr(target.Host), 3260), 1}}
		if target.Second.Host != "" {
			want = append(want, ISCSITarget{target.Second.IQN, netip.MustParseAddrPort("[2001:db8::11]:3261"), 2})
		}
		if is := computer.next; is == nil || !slices.Equal(is.Targets, want) {
			t.Errorf("for %s the next start has %+v", target.Host, is)
		}
	}
	if err := d.ClearISCSIBoot(t.Context(), open{}, n); err != nil {
		t.Fatal(err)
	}
	if is := computer.next; len(is.Targets) > 0 {
		t.Errorf("after it was cleared the next start has %+v", is)
	}
}

// The steps of the driver change the keys of secure boot, and see by the mode that they have.
func TestRedfishStepsChangeKeys(t *testing.T) {
	_, computer, address := serveEquipped(t)
	computer.secure.PlatformKey = true
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	rig := drivertest.NewRig()
	rig.Node.DriverInfo = map[string]any{"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}
	steps := map[string]driver.Step{}
	for _, s := range (redfishdriver.Management{Driver: d}).NamedSteps(rig.Node) {
		steps[s.Name] = s
	}
	for _, c := range []struct {
		step string
		key  bool
	}{{"clear_secure_boot_keys", false}, {"reset_secure_boot_keys_to_default", true}} {
		rig.NextStep()
		waits := true
		for range 20 {
			out, err := steps[c.step].Run(t.Context(), rig.Task(unused{}))
			if err != nil {
				t.Fatalf("%s: %v", c.step, err)
			}
			if _, waits = out.Waiting(); !waits {
				break
			}
		}
		if waits || computer.secure.PlatformKey != c.key {
			t.Errorf("%s: the computer has a platform key: %t, want %t; resets %v", c.step, computer.secure.PlatformKey, c.key, computer.resets)
		}
	}
	certificate := func() string {
		t.Helper()
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	args := map[string]any{"PK": certificate(), "KEK": certificate(), "db": certificate() + certificate()}
	for range 2 { // the second time they are there
		rig.NextStep()
		waits := true
		for range 20 {
			task := rig.Task(unused{})
			task.Args = args
			out, err := steps["enrol_secure_boot_certificates"].Run(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			if _, waits = out.Waiting(); !waits {
				break
			}
		}
		if got := computer.certificates; waits || len(got["db"]) != 2 || len(got["KEK"]) != 1 || len(got["PK"]) != 1 {
			t.Errorf("the computer has %d certificates in db, %d in KEK, %d in PK", len(got["db"]), len(got["KEK"]), len(got["PK"]))
		}
	}
	if len(rig.Writes("power")) > 0 {
		t.Errorf("the machine was restarted for keys that it shows at once: %q", rig.Writes("power"))
	}
}

// unused is a boot interface that no step calls.
type unused struct{ driver.Boot }

// However often the answer to a login is lost, the driver ends the session that was left: others find one of the few free.
func TestLostLoginsLeaveNoSessions(t *testing.T) {
	b, _, address := serveEquipped(t)
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
		"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
	for round := range 3 * maxSessions {
		d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
		var lost atomic.Bool
		b.Faults.Spoil(func(r *http.Request) Spoilt {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/Sessions") && lost.CompareAndSwap(false, true) {
				return Lost
			}
			return Sound
		})
		if _, err := d.PowerState(t.Context(), n); !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("round %d, a login that is lost: %v", round, err)
		}
		if _, err := d.PowerState(t.Context(), n); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := b.sessions.list(); len(left) != 0 {
			t.Fatalf("round %d: %d sessions are left", round, len(left))
		}
	}
}
