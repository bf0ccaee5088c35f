package uefivars

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"testing"

	"github.com/google/uuid"
)

// The authorities come back as they were set; a certificate that is no authority's is refused, and changes nothing.
func TestTLSAuthorities(t *testing.T) {
	certificate := func(authority bool) []byte {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: authority, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	s := newStore(t)
	one, two := certificate(true), certificate(true)
	if err := s.SetTLSAuthorities(uuid.New(), one, two); err != nil {
		t.Fatal(err)
	}
	if err := s.SetTLSAuthorities(uuid.New(), certificate(false)); err == nil {
		t.Error("a certificate that is no authority's was taken")
	}
	got, err := s.TLSAuthorities()
	if err != nil || len(got) != 2 || !bytes.Equal(got[0], one) || !bytes.Equal(got[1], two) {
		t.Errorf("%d authorities, %v", len(got), err)
	}
	if v, ok := s.Get(TLSVendor, "TlsCaCertificate"); !ok || v.Attributes != NonVolatile|BootService {
		t.Errorf("the variable: %t, attributes %#x", ok, v.Attributes)
	}
	if err := s.SetTLSAuthorities(uuid.New()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.TLSAuthorities(); err != nil || len(got) != 0 {
		t.Errorf("%d authorities are left, %v", len(got), err)
	}
}
