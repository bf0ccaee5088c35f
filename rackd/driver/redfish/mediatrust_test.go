package redfish

import (
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// A BMC that answers 409 to a certificate may have it by then. Where it does not show it, the error says what the BMC has answered.
func TestACertificateInConflict(t *testing.T) {
	const drives, drive, all = redfishtest.System + "/VirtualMedia", redfishtest.System + "/VirtualMedia/Cd", redfishtest.System + "/VirtualMedia/Cd/Certificates"
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("a certificate")}))
	for _, shown := range []bool{true, false} {
		b := redfishtest.Start(t, "Contoso", redfishtest.Tree{drives: redfishtest.Links(drive), all: redfishtest.Links(), all + "/1": {"@odata.id": all + "/1", "CertificateString": text},
			drive: {"@odata.id": drive, "Id": "Cd", "MediaTypes": []any{"CD"}, "VerifyCertificate": true, "Certificates": redfishtest.Link(all)}})
		b.Do(func() { b.At[redfishtest.System]["VirtualMedia"] = redfishtest.Link(drives) })
		b.Write = func(w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
			if shown {
				b.At[all] = redfishtest.Links(all + "/1")
			}
			redfishtest.Refuse(w, http.StatusConflict, "another one has added it")
			return true
		}
		n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
		err := newDriver(t, Options{}).TrustMedia(t.Context(), &drivertest.Fence{}, n, "cdrom", []string{text})
		if (err == nil) != shown || err != nil && (!strings.Contains(err.Error(), "another one has added it") || !strings.Contains(err.Error(), "does not show it among its certificates")) {
			t.Errorf("shown %t: %v", shown, err)
		}
	}
}

// A BMC has room for a few certificates. The error says how many it has, and where. One that has two copies of ours is given no third.
func TestAStoreOfCertificates(t *testing.T) {
	const drives, drive, all = redfishtest.System + "/VirtualMedia", redfishtest.System + "/VirtualMedia/Cd", redfishtest.System + "/VirtualMedia/Cd/Certificates"
	pemOf := func(text string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
	}
	ours := pemOf("ours")
	for name, c := range map[string]struct {
		has   [2]string
		fails []string
	}{
		"full":       {[2]string{pemOf("another's"), "no certificate"}, []string{"there is no room", "It has 2 others", all}},
		"two copies": {[2]string{ours, ours}, nil},
	} {
		b := redfishtest.Start(t, "Contoso", redfishtest.Tree{drives: redfishtest.Links(drive), all: redfishtest.Links(all+"/1", all+"/2"),
			all + "/1": {"@odata.id": all + "/1", "CertificateString": c.has[0]}, all + "/2": {"@odata.id": all + "/2", "CertificateString": c.has[1]},
			drive: {"@odata.id": drive, "Id": "Cd", "MediaTypes": []any{"CD"}, "VerifyCertificate": true, "Certificates": redfishtest.Link(all)}})
		b.Do(func() { b.At[redfishtest.System]["VirtualMedia"] = redfishtest.Link(drives) })
		writes := 0
		b.Write = func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
			writes++
			redfishtest.Refuse(w, http.StatusBadRequest, "there is no room")
			return true
		}
		n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
		err := newDriver(t, Options{}).TrustMedia(t.Context(), &drivertest.Fence{}, n, "cdrom", []string{ours})
		if (err != nil) != (c.fails != nil) || writes > len(c.fails)/3 {
			t.Errorf("%s: %v, %d writes", name, err, writes)
			continue
		}
		for _, want := range c.fails {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", name, want, err)
			}
		}
	}
}
