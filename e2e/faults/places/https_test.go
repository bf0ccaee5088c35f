package places

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// secure is a flow of nodes whose firmware loads by HTTPS alone, so that each of its rackds has a certificate.
func secure(f flow) flow {
	f.secure = true
	return f
}

// addCertificate makes a certificate for the rackds of all groups. It returns the authorities that machines' firmware trusts.
func (r *rig) addCertificate(t *testing.T) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rackds"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.ParseIP(address(spare))}}
	for i := range groups {
		c.IPAddresses = append(c.IPAddresses, net.ParseIP(address(lane(i))))
	}
	body, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificateFile, keyFile := filepath.Join(r.dir, "rackds.pem"), filepath.Join(r.dir, "rackds.pem.key")
	shown := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: body})
	if err := errors.Join(os.WriteFile(certificateFile, shown, 0o600), os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)); err != nil {
		t.Fatal(err)
	}
	// The BMCs of other fleets may have the usual port, on all addresses of this machine.
	r.https = []string{"--https-certificate", certificateFile, "--https-key", keyFile, "--https-port", "8743"}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(shown)
	r.images = &http.Client{Timeout: client.Timeout, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	return authorities
}

// flags are those of the rackd that begins a flow.
func (r *rig) flags(f flow) []string {
	if !f.secure {
		return f.flags
	}
	return slices.Concat(f.flags, r.https)
}
