package redfish

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// fleetCertificate makes a certificate in PEM.
func fleetCertificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
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

// databasesModel is a BMC with the databases db, KEK and PK. What is added shows at once, or when pending is called.
func databasesModel(late bool) (m *model, pending func()) {
	const at = systemAt + "/SecureBoot"
	m = newModel("Contoso")
	merge(m.at[systemAt], map[string]any{"SecureBoot": link(at)})
	m.put(map[string]map[string]any{at: {"@odata.id": at, "SecureBootEnable": false, "SecureBootMode": "SetupMode", "SecureBootDatabases": link(at + "/Databases")}})
	var paths []string
	for _, name := range []string{"db", "KEK", "PK"} {
		path := at + "/Databases/" + name
		paths = append(paths, path)
		m.put(map[string]map[string]any{path: {"@odata.id": path, "Id": name, "DatabaseId": name, "Certificates": link(path + "/Certificates")}, path + "/Certificates": links()})
	}
	m.put(map[string]map[string]any{at + "/Databases": links(paths...)})
	var waiting []func()
	show := func() {
		for _, f := range waiting {
			f()
		}
		waiting = nil
	}
	m.after = func(m *model, r *http.Request, body map[string]any) {
		path := r.URL.Path
		waiting = append(waiting, func() {
			list := m.at[path]["Members"].([]any)
			one := fmt.Sprintf("%s/%d", path, len(list)+1)
			m.at[one] = map[string]any{"@odata.id": one, "CertificateString": body["CertificateString"]}
			m.at[path]["Members"] = append(list, any(link(one)))
		})
		if !late {
			show()
		}
	}
	return m, func() { m.set(show) }
}

// Certificates are added in the order that ends setup mode last, and read back; those that are there are not added again. A BMC that
// shows them at the next start has the machine restarted once.
func TestEnrolSecureBootCertificates(t *testing.T) {
	t.Parallel()
	db, other, kek, pk := fleetCertificate(t), fleetCertificate(t), fleetCertificate(t), fleetCertificate(t)
	for name, c := range map[string]struct {
		late, never bool
		starts      int
	}{"at once": {}, "at a restart": {late: true, starts: 1}, "never": {late: true, never: true, starts: 1}} {
		t.Run(name, func(t *testing.T) {
			m, pending := databasesModel(c.late)
			r, d := modelRig(t, m)
			r.SetPowerState(driver.PowerOn)
			r.Fail = func(call string) error {
				if call == "set_power" && !c.never {
					pending()
				}
				return nil
			}
			step := stepNamed(t, Management{Driver: d}.NamedSteps(r.Node), "enrol_secure_boot_certificates")
			args := map[string]any{"PK": pk, "KEK": kek, "db": db + other}
			err := runStep(t, r, step, args)
			if c.never {
				if err == nil || !strings.Contains(err.Error(), "does not show all in db, KEK, PK") {
					t.Errorf("a BMC that keeps none: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := m.written()
			if len(got) != 4 || !strings.Contains(got[0], "/db/") || !strings.Contains(got[2], "/KEK/") || !strings.Contains(got[3], "/PK/") || len(r.Writes("power power on")) != c.starts {
				t.Errorf("%d starts; the BMC got %q", len(r.Writes("power power on")), got)
			}
			r.NextStep()
			if err := runStep(t, r, step, args); err != nil || len(m.written()) != 4 {
				t.Errorf("the second time: %v, the BMC got %q", err, m.written()[4:])
			}
		})
	}
}

func TestCertificatesThatCannotBeEnrolled(t *testing.T) {
	m, _ := databasesModel(false)
	r, d := modelRig(t, m)
	step := stepNamed(t, Management{Driver: d}.NamedSteps(r.Node), "enrol_secure_boot_certificates")
	good := fleetCertificate(t)
	secret := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}))
	for name, args := range map[string]map[string]any{"nothing": {}, "no text": {"db": 1.0}, "no PEM": {"db": "x"}, "an empty list": {"db": " "}, "a private key": {"db": good + secret}, "two platform keys": {"PK": good + good},
		"a torn certificate": {"db": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))}} {
		err := step.Check(r.Node, args)
		if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if err := runStep(t, r, step, map[string]any{"dbx": good}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a database that is not there: %v, want ErrUnsupported", err)
	}
	if len(m.written()) != 0 {
		t.Errorf("the BMC got %q", m.written())
	}
}
