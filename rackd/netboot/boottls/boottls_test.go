package boottls

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var here = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// issue writes a certificate that names an address, and its key, and returns it.
func issue(t *testing.T, f Files, address string, serial int64, at time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: at.Add(-time.Hour), NotAfter: at.Add(1000 * time.Hour), IPAddresses: []net.IP{net.ParseIP(address)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{f.Certificate: {Type: "CERTIFICATE", Bytes: der}, f.Key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return der
}

func names(t *testing.T) Files {
	dir := t.TempDir()
	return Files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// serve answers each connection with a greeting, until the test ends.
func serve(t *testing.T, c *tls.Config) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "hello") // a client that left has seen enough
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// A renewed certificate is shown from the next connection on; half a renewal, and one for another address, change nothing.
func TestRenewal(t *testing.T) {
	f, start := names(t), time.Now().Add(-time.Minute).Truncate(time.Second)
	var log bytes.Buffer
	first := issue(t, f, "127.0.0.1", 1, start)
	c, err := Open(f, here, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	at := serve(t, c)
	shown := func(want []byte, when string) {
		t.Helper()
		roots := x509.NewCertPool()
		parsed, err := x509.ParseCertificate(want)
		if err != nil {
			t.Fatal(err)
		}
		roots.AddCert(parsed)
		conn, err := tls.Dial("tcp", at, &tls.Config{RootCAs: roots})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer conn.Close()
		if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
			t.Errorf("%s: %q, %v", when, got, err)
		}
	}
	shown(first, "at first")
	second := issue(t, f, "127.0.0.1", 2, start.Add(time.Second))
	shown(second, "renewed")
	issue(t, f, "192.0.2.1", 3, start.Add(2*time.Second))
	shown(second, "with one for another address")
	if err := os.Remove(f.Key); err != nil {
		t.Fatal(err)
	}
	shown(second, "without a key")
	if got := strings.Count(log.String(), "cannot be used"); got != 2 {
		t.Errorf("%d warnings for two bad changes:\n%s", got, log.String())
	}
	third := issue(t, f, "127.0.0.1", 4, start.Add(3*time.Second))
	shown(third, "renewed again")
}

// A rackd that runs for long says each day that its certificate ends soon, not only when it starts.
func TestCertificateThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := names(t)
		issue(t, f, "127.0.0.1", 1, time.Now()) // for 1000 hours
		var log bytes.Buffer
		c, err := Open(f, here, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 0}, {270 * time.Hour, 0}, {290 * time.Hour, 1}, {300 * time.Hour, 1}, {320 * time.Hour, 2}} {
			time.Sleep(time.Until(start.Add(step.after)))
			for range 3 {
				if _, err := c.GetCertificate(nil); err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.Count(log.String(), "ends soon"); got != step.want {
				t.Errorf("after %s: %d warnings, want %d:\n%s", step.after, got, step.want, log.String())
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	f := names(t)
	log := slog.New(slog.DiscardHandler)
	if _, err := Open(f, here, log); err == nil {
		t.Error("files that are not there were taken")
	}
	issue(t, f, "192.0.2.1", 1, time.Now())
	if _, err := Open(f, here, log); err == nil || !strings.Contains(err.Error(), "IP:127.0.0.1") {
		t.Errorf("a certificate for another address: %v", err)
	}
	if _, err := Open(f, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")}, log); err == nil || !strings.Contains(err.Error(), "IP:fd00::1") {
		t.Errorf("a certificate for one of two addresses: %v", err)
	}
	other := names(t)
	issue(t, other, "127.0.0.1", 2, time.Now())
	if _, err := Open(Files{other.Certificate, f.Key}, here, log); err == nil {
		t.Error("a key of another certificate was taken")
	}
}

// OpenSSL, in the way of firmware without elliptic curves, gets the page; one that speaks TLS 1.1 alone does not.
func TestFirmwareWithoutCurves(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("NOT RUN: needs Debian's package openssl")
	}
	f := names(t)
	if out, err := exec.Command(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=rack", "-addext", "subjectAltName=IP:127.0.0.1",
		"-keyout", f.Key, "-out", f.Certificate).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, err := Open(f, here, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	at := serve(t, c)
	connect := func(args ...string) string {
		out, _ := exec.Command(openssl, append([]string{"s_client", "-connect", at, "-CAfile", f.Certificate, "-verify_return_error", "-verify_ip", "127.0.0.1"}, args...)...).CombinedOutput()
		return string(out)
	}
	for _, suite := range []string{"AES128-SHA256", "AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"} {
		if out := connect("-tls1_2", "-cipher", suite); !strings.Contains(out, "Verify return code: 0 (ok)") || !strings.Contains(out, "Cipher    : "+suite) {
			t.Errorf("%s: %s", suite, out)
		}
	}
	if out := connect("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"); strings.Contains(out, "hello") {
		t.Errorf("TLS 1.1 was spoken: %s", out)
	}
}
