package machine

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/ops/virtual/uefivars"
	"github.com/ironyard/ironyard/rackd/netboot/boottls"
)

// authority makes a self-signed authority, and with it a certificate for servedAt. It returns the authority's certificate.
func authority(t *testing.T, f boottls.Files) []byte {
	t.Helper()
	issue := func(template, parent *x509.Certificate, key, by *rsa.PrivateKey) []byte {
		template.NotBefore, template.NotAfter = time.Now().Add(-24*time.Hour), time.Now().AddDate(1, 0, 0)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	root, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	top := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	top.Subject.CommonName = "rack"
	authority := issue(top, top, root, root)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.ParseIP(servedAt)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	leaf.Subject.CommonName = "rackd"
	certificate := issue(leaf, top, key, root)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{f.Certificate: {Type: "CERTIFICATE", Bytes: certificate}, f.Key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return authority
}

// Firmware that was given the rack's authority loads its program by TLS, with rackd's own configuration. With another authority it
// does not, and goes on with its disk.
func TestFirmwareLoadsByTLS(t *testing.T) {
	needsTime(t)
	needsFirmware(t)
	n := serve(t, nil)
	folder := t.TempDir()
	f := boottls.Files{Certificate: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem")}
	trusted := authority(t, f)
	secure, err := boottls.Open(f, []netip.Addr{netip.MustParseAddr(servedAt)}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := n.ns.Listen("tcp", servedAt+":8443")
	if err != nil {
		t.Fatal(err)
	}
	body := program("BY TLS", powerOffLong...)
	suites := make(chan string, 100)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		suites <- r.Method + " " + r.UserAgent() + " by " + tls.CipherSuiteName(r.TLS.CipherSuite)
		w.Header().Set("Content-Type", "application/efi")
		_, _ = w.Write(body)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(tls.NewListener(l, secure)) }()
	t.Cleanup(func() { server.Close(); <-ended })

	dir := t.TempDir()
	bootDisk(t, filepath.Join(dir, diskFile), program("DISK", powerOffLong...))
	m := open(t, Config{Name: "u", Dir: dir, Firmware: UEFI, MemoryMiB: 256, Tap: "tap0", MAC: testMAC, BootByVariables: true, DieWithParent: true, Command: n.ns.Command})
	stranger := boottls.Files{Certificate: filepath.Join(folder, "other.pem"), Key: filepath.Join(folder, "other-key.pem")}
	for _, c := range []struct {
		trusts []byte
		says   string
	}{{trusted, "BY TLS"}, {authority(t, stranger), "DISK"}} {
		if err := m.EditVariables(func(s *uefivars.Store) error { return s.SetTLSAuthorities(uuid.New(), c.trusts) }); err != nil {
			t.Fatal(err)
		}
		if err := m.SetHTTPBootURI("https://" + servedAt + ":8443/ramdisk.efi"); err != nil {
			t.Fatal(err)
		}
		if err := m.SetBootOverride(HTTP, true); err != nil {
			t.Fatal(err)
		}
		serial, started := m.Serial(0), time.Now()
		if at, err := os.Stat(serial.Path()); err == nil {
			serial = m.Serial(at.Size())
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitFirmware(t, serial, "^"+c.says+"$")
		t.Logf("%4.1fs %s", time.Since(started).Seconds(), c.says)
		waitOff(t, m)
	}
	var seen []string
	for len(suites) > 0 {
		seen = append(seen, <-suites)
	}
	t.Logf("requests: %q", seen)
	if !slices.ContainsFunc(seen, func(s string) bool { return s[:8] == "GET Uefi" }) {
		t.Errorf("no GET of the firmware's HTTP client in %q", seen)
	}
}
