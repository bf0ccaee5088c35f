package daemon_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"golang.org/x/crypto/bcrypt"

	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/protocol/seal"
)

// certificate writes a certificate for 127.0.0.1 with a serial number.
func certificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "central"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	put(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func user(t *testing.T, name, password string) []byte {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(name + ":" + string(hash) + "\n")
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("after 20 s not yet: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestUsersAndCertificatesAreReadAgain serves gophercloud's client for HTTP basic over
// TLS while the files behind both change.
func TestUsersAndCertificatesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	users, rules, cert, keyFile := filepath.Join(dir, "users"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	put(t, users, user(t, "ann", "one"))
	put(t, rules, []byte("# nothing yet\n"))
	certificate(t, cert, keyFile, 1)
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	conn, _, stopBus := busIn(t, dir)
	defer stopBus()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan daemon.Info, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{Database: "sqlite:" + filepath.Join(dir, "central.db"), Listen: "127.0.0.1:0", Key: key, Conn: conn,
			TLSCert: cert, TLSKey: keyFile, Log: slog.New(slog.DiscardHandler),
			Access: daemon.Access{Strategies: []string{"http_basic"}, Htpasswd: users, PolicyFile: rules, Refresh: 10 * time.Millisecond}},
			func(i daemon.Info) { ready <- i })
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("central ended: %v", err)
		}
	}()
	var info daemon.Info
	select {
	case info = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("central ended at once: %v", err)
	}
	serial := int64(0)
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, // its serial is looked at instead
		VerifyConnection: func(s tls.ConnectionState) error {
			serial = s.PeerCertificates[0].SerialNumber.Int64()
			return nil
		}}}}
	list := func(name, password string) error {
		client, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{IronicEndpoint: info.Endpoint + "/v1", IronicUser: name, IronicUserPassword: password})
		if err != nil {
			t.Fatal(err)
		}
		client.ProviderClient.HTTPClient = *plain
		client.Microversion = "1.80"
		_, err = drivers.ListDrivers(client, drivers.ListDriversOpts{}).AllPages(t.Context())
		return err
	}
	if err := list("ann", "one"); err != nil {
		t.Fatal(err)
	}
	if err := list("ann", "two"); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("with a wrong password: %v", err)
	}
	if serial != 1 {
		t.Errorf("certificate %d", serial)
	}
	put(t, users, user(t, "bob", "two"))
	eventually(t, "bob is let in, ann no more", func() bool { return list("bob", "two") == nil && list("ann", "one") != nil })
	certificate(t, cert, keyFile, 2)
	eventually(t, "the second certificate is shown", func() bool { return list("bob", "two") == nil && serial == 2 })
	put(t, rules, []byte("\"baremetal:driver:get\": \"!\"\n"))
	eventually(t, "nobody lists drivers", func() bool { return gophercloud.ResponseCodeIs(list("bob", "two"), http.StatusForbidden) })
}

func TestAccessThatCannotBe(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	put(t, empty, []byte("baremetal:node:gett: role:a\n"))
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for want, access := range map[string]daemon.Access{
		"unknown strategy":         {Strategies: []string{"kerberos"}},
		"cannot be combined":       {Strategies: []string{"noauth", "http_basic"}},
		"needs a file of users":    {Strategies: []string{"http_basic"}},
		"not hashed with bcrypt":   {Strategies: []string{"http_basic"}, Htpasswd: empty},
		"OIDC needs the issuer":    {Strategies: []string{"oidc"}},
		"Keystone needs its URL":   {Strategies: []string{"keystone"}},
		"line 1: there is no rule": {PolicyFile: empty},
		"holds no PEM certificate": {CAFile: empty},
		"no such file":             {PolicyFile: empty + "x"},
	} {
		err := daemon.Run(t.Context(), daemon.Config{Database: "sqlite:" + filepath.Join(t.TempDir(), "c.db"), Listen: "127.0.0.1:0", Key: key, BusURL: "nats://127.0.0.1:1", Access: access}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", access, err, want)
		}
	}
}
