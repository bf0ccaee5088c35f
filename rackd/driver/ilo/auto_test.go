package ilo

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// An iLO without a Redfish service is asked by RIBCL, and not for Redfish again.
func TestOldILOIsAskedByRIBCL(t *testing.T) {
	roots, scripts := 0, 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ribcl" {
			if strings.HasPrefix(r.URL.Path, "/redfish") {
				roots++
			}
			http.NotFound(w, r)
			return
		}
		scripts++
		raw, _ := io.ReadAll(r.Body)
		body := ""
		if strings.Contains(string(raw), "<GET_HOST_POWER_STATUS") {
			body = `<GET_HOST_POWER HOST_POWER="ON"/>`
		}
		fmt.Fprint(w, `<?xml version="1.0"?><RIBCL VERSION="2.23"><RESPONSE STATUS="0x0000" MESSAGE='No error'/>`+body+`</RIBCL>`)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Document{UUID: "u", Name: "web1", DriverInfo: map[string]any{fieldAddress: u.Hostname(), fieldPort: u.Port(), fieldUser: "admin", fieldPassword: "pw",
		fieldVerifyCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))}}
	a := auto(t)
	for range 3 {
		if is, err := a.PowerState(t.Context(), n); err != nil || is != driver.PowerOn {
			t.Fatalf("%s, %v", is, err)
		}
	}
	if roots != 1 || scripts != 3 {
		t.Errorf("asked %d times for Redfish and %d times by RIBCL, want 1 and 3", roots, scripts)
	}
	if err := a.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOn); err != nil {
		t.Error(err)
	}
	if _, err := a.SecureBoot(t.Context(), n); err == nil || !strings.Contains(err.Error(), "does not support get_secure_boot_state") {
		t.Errorf("what RIBCL cannot do: %v", err)
	}
	r := drivertest.NewRig()
	r.Node.DriverInfo = n.DriverInfo
	steps := AutoInspection{Auto: a}.InspectSteps(r.Node)
	if _, err := steps[0].Run(t.Context(), r.Task(networkboot.IPXE())); err == nil || !strings.Contains(err.Error(), "inspect the machine") {
		t.Errorf("an inspection of an iLO that tells nothing of itself: %v", err)
	}
}
