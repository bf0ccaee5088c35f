package ilo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
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

const tlsAt, tlsSettingsAt = biosAt + "/oem/hpe/tlsconfig", biosAt + "/oem/hpe/tlsconfig/settings"

// authority is a certificate: its PEM, and its fingerprint as an iLO shows it.
type authority struct{ text, fingerprint string }

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, b := range sha256.Sum256(der) {
		parts = append(parts, fmt.Sprintf("%02X", b))
	}
	return authority{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), strings.Join(parts, ":")}
}

// truster is an iLO 5 whose machine's firmware trusts authorities. Orders are staged until the machine starts.
type truster struct {
	*double
	staged []any
	// deaf: the firmware does not act on orders. then is what the next order's answer is: "lost" or "refused".
	deaf bool
	then string
}

func newTruster(t *testing.T, list ...authority) *truster {
	t.Helper()
	s := &truster{double: newDouble(t)}
	certificates := []any{}
	for _, a := range list {
		certificates = append(certificates, map[string]any{"FingerPrint": a.fingerprint, "Subject": "CN=ca"})
	}
	s.Do(func() {
		hpe := s.At[biosAt]["Oem"].(map[string]any)["Hpe"].(map[string]any)
		hpe["Links"].(map[string]any)["TlsConfig"] = redfishtest.Link(tlsAt + "/")
		s.At[tlsAt] = map[string]any{"Certificates": certificates, "@Redfish.Settings": map[string]any{"SettingsObject": redfishtest.Link(tlsSettingsAt + "/")}}
		write := s.Write
		s.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			if strings.TrimSuffix(r.URL.Path, "/") != tlsSettingsAt {
				return write(w, r, body)
			}
			then := s.then
			if s.then = ""; then == "refused" {
				redfishtest.Refuse(w, http.StatusBadRequest, "UnauthorizedToModify")
				return true
			}
			s.staged, _ = body["DeleteCertificates"].([]any)
			if then == "lost" {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"iLO.2.8.SystemResetRequired"}]}}`)
			return true
		}
	})
	return s
}

// start is a start of the machine.
func (s *truster) start() {
	s.Do(func() {
		if !s.deaf {
			s.At[tlsAt]["Certificates"] = slices.DeleteFunc(s.At[tlsAt]["Certificates"].([]any), func(c any) bool {
				return slices.ContainsFunc(s.staged, func(o any) bool { return o.(map[string]any)["FingerPrint"] == c.(map[string]any)["FingerPrint"] })
			})
		}
		s.staged = nil
	})
}

func (s *truster) left() (n int) {
	s.Do(func() { n = len(s.At[tlsAt]["Certificates"].([]any)) })
	return n
}

// run runs the step to its end, each time as another owner. What may be tried again is.
func (s *truster) run(t *testing.T, r *drivertest.Rig, list ...any) error {
	t.Helper()
	m := management(t)
	steps := m.NamedSteps(r.Node)
	step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == clearCA })]
	args := map[string]any{argFiles: list}
	if list == nil {
		args[argFiles] = []any{}
	}
	if err := step.Check(r.Node, args); err != nil {
		return err
	}
	left := step.Retries
	for range 200 {
		on := len(r.Writes("power power on"))
		task := r.Task(networkboot.IPXE())
		task.Args = args
		out, err := step.Run(t.Context(), task)
		if len(r.Writes("power power on")) > on {
			s.start()
		}
		if errors.Is(err, driver.ErrUnknown) && left > 0 {
			left--
			continue
		}
		if _, waits := out.Waiting(); err != nil || !waits {
			return err
		}
	}
	return errors.New("it still waits")
}

func (s *truster) rig() *drivertest.Rig {
	r := drivertest.NewRig()
	r.Node.DriverInfo = s.info(redfishtest.Password)
	return r
}

// What is deleted is named by its fingerprint, in the form of proliantutils, and gone when the step ends. The machine is restarted once.
func TestClearCertificates(t *testing.T) {
	a, b, c := newAuthority(t, "a"), newAuthority(t, "b"), newAuthority(t, "c")
	for name, of := range map[string]struct {
		list   []any
		delete []authority
		left   int
	}{
		"one":                    {[]any{b.text}, []authority{b}, 1},
		"two in one text":        {[]any{a.text + "a comment\n" + b.text}, []authority{a, b}, 0},
		"two, and one not there": {[]any{a.text, c.text, b.text}, []authority{a, b}, 0},
		"all":                    {nil, []authority{a, b}, 0},
		"none that is there":     {[]any{c.text}, nil, 2},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lost %t", name, lost), func(t *testing.T) {
				s := newTruster(t, a, b)
				if lost {
					s.then = "lost"
				}
				r := s.rig()
				if err := s.run(t, r, of.list...); err != nil {
					t.Fatal(err)
				}
				var fingerprints []string
				for _, d := range of.delete {
					fingerprints = append(fingerprints, `{"FingerPrint":"`+d.fingerprint+`"}`)
				}
				want, orders, restarts := "PUT "+tlsSettingsAt+` {"DeleteCertificates":[`+strings.Join(fingerprints, ",")+"]}", 1, 1
				if lost {
					orders = 2 // to give it again is harmless
				}
				if of.delete == nil {
					orders, restarts = 0, 0
				}
				wrote := s.Written()
				if len(wrote) != orders || slices.ContainsFunc(wrote, func(w string) bool { return w != want }) {
					t.Errorf("written %q, want %d times %q", wrote, orders, want)
				}
				if s.left() != of.left || len(r.Writes("power power on")) != restarts {
					t.Errorf("%d certificates are left, want %d; power %v", s.left(), of.left, r.Writes("power"))
				}
				if log := r.Writes("power"); restarts > 0 && log[len(log)-1] != "power power off" {
					t.Errorf("the machine was off before: %v", log)
				}
				if told := strings.Join(r.Phases, "\n"); (restarts > 0) != strings.Contains(told, "CA certificates: deleted: ") {
					t.Errorf("the history has %q", told)
				}
			})
		}
	}
}

// A certificate that stays is no success. What cannot be done is refused, and neither ordered nor restarted for.
func TestClearCertificatesFails(t *testing.T) {
	a := newAuthority(t, "a")
	for name, of := range map[string]struct {
		set      func(*truster)
		list     []any
		restarts int
		orders   int
		says     string
		is       error
	}{
		"the firmware keeps it": {func(s *truster) { s.deaf = true }, []any{a.text}, 1, 1, "15m0s after the machine was restarted its firmware still has CN=ca (" + a.fingerprint, nil},
		"refused":               {func(s *truster) { s.then = "refused" }, []any{a.text}, 0, 1, "UnauthorizedToModify", nil},
		"BIOS boot mode": {func(s *truster) { s.At[biosAt]["Attributes"].(map[string]any)["BootMode"] = "LegacyBios" }, nil, 0, 0,
			"TLS certificates cannot be removed in BIOS boot mode", driver.ErrUnsupported},
		"an older iLO": {func(s *truster) { delete(s.At[biosAt], "Oem") }, nil, 0, 0, "shows no certificates", driver.ErrUnsupported},
		"no settings":  {func(s *truster) { delete(s.At[tlsAt], "@Redfish.Settings") }, nil, 0, 0, "takes no orders", driver.ErrUnsupported},
		"a path":       {nil, []any{"/etc/ssl/ca.pem"}, 0, 0, "No valid certificate at 1", driver.ErrInvalid},
		"no text":      {nil, []any{a.text, 5.0}, 0, 0, "No valid certificate at 2", driver.ErrInvalid},
		"no certificate": {nil, []any{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))}, 0, 0, "Certificate 1 in 'certificate_files' cannot be read",
			driver.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTruster(t, a)
			if of.set != nil {
				s.Do(func() { of.set(s) })
			}
			r := s.rig()
			err := s.run(t, r, of.list...)
			if err == nil || !strings.Contains(err.Error(), of.says) || of.is != nil && !errors.Is(err, of.is) {
				t.Errorf("%v, want %q", err, of.says)
			}
			if len(s.Written()) != of.orders || len(r.Writes("power power on")) != of.restarts || s.left() != 1 {
				t.Errorf("written %q, power %v, %d left", s.Written(), r.Writes("power"), s.left())
			}
		})
	}
	r := drivertest.NewRig()
	if err := management(t).clearStep().Check(r.Node, map[string]any{argFiles: "all"}); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "is not a list") {
		t.Error(err)
	}
}

// A rackd that has lost the node orders nothing. While a person may be at the machine it is not restarted.
func TestClearCertificatesHoldsBack(t *testing.T) {
	a := newAuthority(t, "a")
	s, m := newTruster(t, a), management(t)
	r := s.rig()
	task := r.Task(networkboot.IPXE())
	task.Args = map[string]any{argFiles: []any{}}
	r.Fence.Lose()
	if _, err := m.clearCertificates(t.Context(), task); !errors.Is(err, driver.ErrFenced) || len(s.Written()) > 0 {
		t.Errorf("%v, written %q", err, s.Written())
	}
	r = s.rig()
	task = r.Task(networkboot.IPXE())
	task.Args = map[string]any{argFiles: []any{}}
	task.Attended = func() bool { return true }
	out, err := m.clearCertificates(t.Context(), task)
	if _, waits := out.Waiting(); err != nil || !waits || len(r.Writes("power")) > 0 || len(s.Written()) != 1 {
		t.Errorf("%v, waits %t, power %v, written %q", err, waits, r.Writes("power"), s.Written())
	}
}
