package drivertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// StartTLS starts a server that a test has made, with a certificate of 127.0.0.1 that all servers of the process share. Its key
// is of an elliptic curve: with the RSA key that net/http/httptest has, a handshake takes several times as long.
func StartTLS(t testing.TB, s *httptest.Server) {
	t.Helper()
	own, err := ownCertificate()
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	s.StartTLS()
}

var ownCertificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("key of a test's BMCs: %w", err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"BMCs of a test"}},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2084, 1, 29, 16, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"example.com", "*.example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate of a test's BMCs: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
})
