package bmc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// selfSigned is a certificate with a new key.
func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A session makes several connections. Each is held to the key of the first, and to the pin: no request reaches another key.
func TestEachConnectionOfASessionIsHeldToThePin(t *testing.T) {
	var shown atomic.Pointer[tls.Certificate]
	var requests atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}}, nil
	}}
	first, second := selfSigned(t), selfSigned(t)
	shown.Store(first)
	s.StartTLS()
	t.Cleanup(s.Close)
	pins, n := NewPins(), &node.Document{UUID: "b3d1"}
	session := func() *http.Client {
		config, err := Trust{Verify: node.PinKey, Field: "redfish_verify_ca", Pins: pins, Node: n, Address: s.URL}.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	}
	ask := func(c *http.Client) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("admin", "s3cret")
		answer, err := c.Do(r)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	refused := func(what string, c *http.Client) {
		t.Helper()
		before, err := requests.Load(), ask(c)
		if _, changed := errors.AsType[*Changed](err); !changed || !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if requests.Load() != before {
			t.Errorf("%s: the other key got the request, with the password", what)
		}
	}
	old := session()
	for range 2 {
		if err := ask(old); err != nil {
			t.Fatal(err)
		}
	}
	shown.Store(second)
	refused("a session that goes on", old)
	refused("a session that begins", session())
	n.PinnedSince = 1
	if err := ask(session()); err != nil {
		t.Errorf("after the pin was to be forgotten: %v", err)
	}
	shown.Store(first)
	refused("the key of before", session())
	if got := requests.Load(); got != 3 {
		t.Errorf("%d requests arrived, want 3", got)
	}
}
