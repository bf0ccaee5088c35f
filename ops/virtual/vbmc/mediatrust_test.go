package vbmc

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// The driver has a drive verify the servers of images. The drive then loads from the one whose certificate it was given, and from no other.
func TestRedfishDriverHasDrivesVerify(t *testing.T) {
	b, computer, address := serveEquipped(t)
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
		"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
	ours := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(ours.Close)
	theirs, err := SelfSigned("theirs")
	if err != nil {
		t.Fatal(err)
	}
	text := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	trust := func(der []byte) error {
		return d.TrustMedia(t.Context(), open{}, n, "cdrom", []string{text(der)})
	}
	own := ours.Certificate().Raw
	if err := trust(own); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "VerifyCertificate") || !strings.Contains(err.Error(), "web1") {
		t.Errorf("of drives that verify nothing it says %v", err)
	}
	if err := d.VerifiesMedia(t.Context(), n, "cdrom"); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "VerifyCertificate") || !strings.Contains(err.Error(), "web1") {
		t.Errorf("of drives that verify nothing a look says %v", err)
	}
	b.cfg.Dial = (&net.Dialer{}).DialContext
	if err := d.VerifiesMedia(t.Context(), n, "cdrom"); err != nil || len(b.Journal.Matching(cdPath)) > 0 {
		t.Errorf("of drives that may verify a look says %v, and writes %v", err, b.Journal.Matching(cdPath))
	}
	if err := trust(theirs.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	image := ours.URL + "/boot.iso"
	if err := d.AttachMedia(t.Context(), open{}, n, "cdrom", image); err == nil || !strings.Contains(err.Error(), "cannot be verified") || computer.image != "" {
		t.Errorf("of a server that it does not trust the drive has %q: %v", computer.image, err)
	}
	for range 2 { // what is there is not given again
		if err := trust(own); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(b.Journal.Matching(cdPath + "/Certificates")); got != 2 {
		t.Errorf("it was given %d certificates, want one of each", got)
	}
	if err := d.AttachMedia(t.Context(), open{}, n, "cdrom", image); err != nil || computer.image != image {
		t.Errorf("of a server that it trusts the drive has %q: %v", computer.image, err)
	}
}

// A BMC that takes the order and does nothing is seen.
func TestADriveThatDoesNotVerifyIsSeen(t *testing.T) {
	b, _, address := serveEquipped(t)
	b.cfg.Dial = (&net.Dialer{}).DialContext
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
		"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
	b.deafTrust = true
	theirs, err := SelfSigned("theirs")
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: theirs.Certificate[0]}))
	if err := d.TrustMedia(t.Context(), open{}, n, "cdrom", []string{text}); err == nil || !strings.Contains(err.Error(), "does not show") {
		said, _ := json.Marshal(b.cd())
		t.Errorf("%v, while the drive shows %s", err, said)
	}
}
