package daemon

import (
	"net/netip"
	"testing"

	"github.com/ironyard/ironyard/rackd/netboot/boottls"
)

// Firmware is served by TLS at each address of a rackd that has a certificate, and at none of one that has not.
func TestWhereFirmwareIsServedByTLS(t *testing.T) {
	r := &Rack{Address: netip.MustParseAddr("10.0.0.1"), Address6: netip.MustParseAddr("fd00::1"), HTTPPort: 8080, HTTPSPort: 8443}
	for _, f := range append(r.faces(), r.face(), r.face6()) {
		if f.https() != "" {
			t.Errorf("without a certificate: %s", f.https())
		}
	}
	r.HTTPS = boottls.Files{Certificate: "c", Key: "k"}
	if four, six := r.face().https(), r.face6().https(); four != "https://10.0.0.1:8443" || six != "https://[fd00::1]:8443" {
		t.Errorf("with one: %q, %q", four, six)
	}
	if r.Address = (netip.Addr{}); r.face().https() != "https://[fd00::1]:8443" || len(r.faces()) != 1 {
		t.Errorf("by IPv6 alone: %q", r.face().https())
	}
	if r.Address6 = (netip.Addr{}); r.face().https() != "" {
		t.Errorf("with no address: %q", r.face().https())
	}
}
