package ilo

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

const httpsAt = securityAt + "/HttpsCert"

// withCertificate gives a double a certificate of its web server. The request that it makes is there at the third look.
func withCertificate(t *testing.T, d *double) (csr []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if csr, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "web1"}}, key); err != nil {
		t.Fatal(err)
	}
	withDashboard(d)
	action := func(name string) map[string]any {
		return map[string]any{"target": httpsAt + "/Actions/HpeHttpsCert." + name}
	}
	looks := 0
	d.Do(func() {
		d.At[securityAt]["Links"].(map[string]any)["HttpsCert"] = redfishtest.Link(httpsAt + "/")
		d.At[httpsAt] = map[string]any{"CertificateSigningRequest": "an old one", "Actions": map[string]any{"#HpeHttpsCert.GenerateCSR": action("GenerateCSR"), "#HpeHttpsCert.ImportCertificate": action("ImportCertificate")}}
		d.Get = func(_ http.ResponseWriter, r *http.Request) bool {
			if looks > 0 && strings.TrimSuffix(r.URL.Path, "/") == httpsAt {
				if looks--; looks == 0 {
					d.At[httpsAt]["CertificateSigningRequest"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
				}
			}
			return false
		}
		write := d.Write
		d.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			switch path := strings.TrimSuffix(r.URL.Path, "/"); path {
			case httpsAt + "/Actions/HpeHttpsCert.GenerateCSR":
				looks = 3
			case httpsAt + "/Actions/HpeHttpsCert.ImportCertificate":
				d.At[manager]["LastResetTime"] = "now"
			default:
				return write(w, r, body)
			}
			w.WriteHeader(http.StatusOK)
			fmt.Fprint(w, "{}")
			return true
		}
	})
	return csr
}

var about = map[string]any{argCSR: map[string]any{"City": "Bern", "CommonName": "web1", "OrgName": "Example", "State": "BE"}}

// The request is in the history, whole; the order for it is given once, also when its answer is lost.
func TestCertificateRequest(t *testing.T) {
	for _, lost := range []bool{false, true} {
		d, m := newDouble(t), management(t)
		csr := withCertificate(t, d)
		r := drivertest.NewRig()
		r.Node.DriverInfo = d.info(redfishtest.Password)
		if lost {
			write := d.Write
			d.Do(func() {
				d.Write = func(w http.ResponseWriter, q *http.Request, body map[string]any) bool {
					done := write(w, q, body)
					if strings.Contains(q.URL.Path, "GenerateCSR") {
						panic(http.ErrAbortHandler)
					}
					return done
				}
			})
		}
		at := slices.IndexFunc(m.NamedSteps(r.Node), func(s driver.Step) bool { return s.Name == "create_csr" })
		step := m.NamedSteps(r.Node)[at]
		for range 10 { // each time another owner
			task := r.Task(networkboot.IPXE())
			task.Args = about
			out, err := step.Run(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			if _, waits := out.Waiting(); !waits {
				break
			}
		}
		w := d.Written()
		if len(w) != 1 || !strings.HasPrefix(w[0], "POST "+httpsAt+"/Actions/HpeHttpsCert.GenerateCSR ") || !strings.Contains(w[0], `"CommonName":"web1"`) {
			t.Errorf("lost %t: written %q", lost, w)
		}
		said, found := strings.CutPrefix(strings.Join(r.Phases, "\n"), "certificate request: ")
		if der, err := base64.StdEncoding.DecodeString(said); !found || err != nil || !bytes.Equal(der, csr) {
			t.Errorf("lost %t: the history has %q, %v", lost, r.Phases, err)
		}
	}
}

// A certificate is given as it is, and the step ends when the iLO has restarted.
func TestCertificate(t *testing.T) {
	d, m := newDouble(t), management(t)
	withCertificate(t, d)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if _, err := stepOf(t, d, m, "add_https_certificate", map[string]any{argCert: "a comment\n" + text}); err != nil {
		t.Fatal(err)
	}
	if w := d.Written(); len(w) != 1 || !strings.Contains(w[0], "HpeHttpsCert.ImportCertificate") || !strings.Contains(w[0], strings.ReplaceAll(strings.TrimSpace(text), "\n", `\n`)) {
		t.Errorf("written %q", w)
	}
	for says, c := range map[string]struct {
		step string
		args map[string]any
	}{
		"No valid certificate":       {"add_https_certificate", map[string]any{argCert: "/etc/passwd"}},
		"reads no file and no URL":   {"add_https_certificate", map[string]any{argCert: "http://example.org/ilo.crt"}},
		"cannot be read":             {"add_https_certificate", map[string]any{argCert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))}},
		"'csr_params' lacks City":    {"create_csr", map[string]any{argCSR: map[string]any{"CommonName": "web1"}}},
		"no part of a subject":       {"create_csr", map[string]any{argCSR: map[string]any{"City": "Bern", "CommonName": "web1", "OrgName": "Example", "State": "BE", "Colour": "red"}}},
		"lacks City. Step 'create_c": {"create_csr", nil},
	} {
		before := len(d.Written())
		if _, err := stepOf(t, d, m, c.step, c.args); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) || len(d.Written()) > before {
			t.Errorf("%s %v: %v, want %q", c.step, c.args, err, says)
		}
	}
	bare := newDouble(t)
	for step, args := range map[string]map[string]any{"create_csr": about, "add_https_certificate": {argCert: text}} {
		if _, err := stepOf(t, bare, m, step, args); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%s of an iLO without it: %v", step, err)
		}
	}
}
