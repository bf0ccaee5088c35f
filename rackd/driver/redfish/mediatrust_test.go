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
