package drivers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// keyed is a server with a key that a test changes.
type keyed struct {
	*httptest.Server
	shown    atomic.Pointer[tls.Certificate]
	requests atomic.Int64
}

// rekey gives the server a new key, and returns its fingerprint.
func (k *keyed) rekey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// Long over, and of no address: BMCs have such certificates. The key is what is pinned.
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	k.shown.Store(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:])
}

func newKeyed(t *testing.T) *keyed {
	k := &keyed{}
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		k.requests.Add(1)
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	k.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*k.shown.Load()}}, nil
	}}
	k.rekey(t)
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

// Each driver that checks certificates pins the key of the first use, tells it to the document, and sends nothing to another one.
func TestKeysOfBMCsArePinned(t *testing.T) {
	open := func(t *testing.T) *Set {
		o := all
		o.BMCs, o.BMCPace = outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, 1000
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(t.Context()) })
		return s
	}
	for _, c := range []struct {
		driver, power, field string
		info                 func(url, host, port string) map[string]any
	}{
		{"redfish", "redfish", "redfish_verify_ca", func(url, _, _ string) map[string]any {
			return map[string]any{"redfish_address": url, "redfish_username": "admin", "redfish_password": "s3cret"}
		}},
		{"ilo", "ilo", "ilo_verify_ca", func(_, host, port string) map[string]any {
			return map[string]any{"ilo_address": host, "client_port": port, "ilo_username": "admin", "ilo_password": "s3cret"}
		}},
		{"idrac", "idrac-wsman", "drac_verify_ca", func(_, host, port string) map[string]any {
			return map[string]any{"drac_address": host, "drac_port": port, "drac_username": "admin", "drac_password": "s3cret"}
		}},
		{"cisco-ucs-managed", "ucsm", "ucs_verify_ca", func(_, host, port string) map[string]any {
			return map[string]any{"ucs_address": host, "ucs_port": port, "ucs_username": "admin", "ucs_password": "s3cret", "ucs_service_profile": "org-root/ls-1"}
		}},
		{"cisco-ucs-standalone", "cimc", "cimc_verify_ca", func(_, host, port string) map[string]any {
			return map[string]any{"cimc_address": host, "cimc_port": port, "cimc_username": "admin", "cimc_password": "s3cret"}
		}},
		{"asrockrack", "", "asrockrack_verify_ca", func(_, host, port string) map[string]any {
			return map[string]any{"asrockrack_address": host, "asrockrack_port": port, "asrockrack_username": "admin", "asrockrack_password": "s3cret"}
		}},
		{"seamicro", "", "seamicro_verify_ca", func(url, _, _ string) map[string]any {
			return map[string]any{"seamicro_api_endpoint": url + "/v2.0", "seamicro_username": "admin", "seamicro_password": "s3cret", "seamicro_server_id": "0/0"}
		}},
		{"msftocs", "", "msftocs_verify_ca", func(url, _, _ string) map[string]any {
			return map[string]any{"msftocs_base_url": url, "msftocs_username": "admin", "msftocs_password": "s3cret", "msftocs_blade_id": "1"}
		}},
	} {
		t.Run(c.driver, func(t *testing.T) {
			k, s := newKeyed(t), open(t)
			host, port, _ := net.SplitHostPort(k.Listener.Addr().String())
			n := &node.Document{UUID: "b3d1", Name: "web1", Driver: c.driver, Interfaces: map[string]string{}, DriverInfo: c.info(k.URL, host, port)}
			if c.power != "" {
				n.Interfaces["power"] = c.power
			}
			n.DriverInfo[c.field] = node.PinKey
			first := k.rekey(t)
			read := func(s *Set) error {
				hw, err := s.Resolve(n)
				if err != nil {
					t.Fatal(err)
				}
				if err := hw.Power().Validate(n); err != nil {
					t.Fatal(err)
				}
				_, err = hw.Power().PowerState(t.Context(), n)
				var o hardware.Observation
				if hw.Remember(n, &o); o.Kept != nil {
					n.Kept = o.Kept
				}
				return err
			}
			if err := read(s); err == nil || errors.Is(err, driver.ErrInvalid) || !strings.Contains(string(n.Kept), first) {
				t.Fatalf("%v: the key %s of the first use is not kept: %s", err, first, n.Kept)
			}
			second := k.rekey(t)
			takeover := open(t) // has the document alone
			for name, set := range map[string]*Set{"the same rackd": s, "another rackd": takeover} {
				before := k.requests.Load()
				err := read(set)
				if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) ||
					!strings.Contains(err.Error(), c.field) || strings.Count(err.Error(), "(b3d1)") != 1 {
					t.Errorf("%s, another key: %v", name, err)
				}
				if k.requests.Load() != before {
					t.Errorf("%s sent a request to a BMC with another key", name)
				}
			}
			n.PinnedSince++ // an operator has asked for the pin once more
			if err := read(s); errors.Is(err, driver.ErrInvalid) || !strings.Contains(string(n.Kept), second) || strings.Contains(string(n.Kept), first) {
				t.Errorf("after it was to be forgotten: %v, kept %s", err, n.Kept)
			}
			if err := read(takeover); errors.Is(err, driver.ErrInvalid) {
				t.Errorf("another rackd has not heard of it: %v", err)
			}
			third := k.rekey(t)
			again := *n // deleted, and enrolled again under its UUID
			again.Kept, again.PinnedSince = nil, n.PinnedSince+1
			n = &again
			if err := read(s); errors.Is(err, driver.ErrInvalid) || !strings.Contains(string(n.Kept), third) {
				t.Errorf("a node that was made again: %v, kept %s", err, n.Kept)
			}
			elsewhere := newKeyed(t)
			host, port, _ = net.SplitHostPort(elsewhere.Listener.Addr().String())
			fourth := elsewhere.rekey(t)
			n.DriverInfo = c.info(elsewhere.URL, host, port)
			n.DriverInfo[c.field] = node.PinKey
			if err := read(s); errors.Is(err, driver.ErrInvalid) || !strings.Contains(string(n.Kept), fourth) || strings.Contains(string(n.Kept), third) {
				t.Errorf("at another address: %v, kept %s", err, n.Kept)
			}
		})
	}
}

// Without TLS a BMC shows no key, so that nothing tells it from a stranger: it is sent nothing. No validation comes before a request after
// a change of the address.
func TestAPinWithoutTLSSendsNothing(t *testing.T) {
	for _, c := range []struct {
		driver, power, field string
		info                 func(url, host, port string) map[string]any
	}{
		{"redfish", "redfish", "redfish_verify_ca", func(url, _, _ string) map[string]any {
			return map[string]any{"redfish_address": url, "redfish_username": "admin", "redfish_password": "s3cret"}
		}},
		{"seamicro", "", "seamicro_verify_ca", func(url, _, _ string) map[string]any {
			return map[string]any{"seamicro_api_endpoint": url + "/v2.0", "seamicro_username": "admin", "seamicro_password": "s3cret", "seamicro_server_id": "0/0"}
		}},
		{"msftocs", "", "msftocs_verify_ca", func(url, _, _ string) map[string]any {
			return map[string]any{"msftocs_base_url": url, "msftocs_username": "admin", "msftocs_password": "s3cret", "msftocs_blade_id": "1"}
		}},
		{"idrac", "idrac-wsman", "drac_verify_ca", func(_, host, port string) map[string]any {
			return map[string]any{"drac_address": host, "drac_port": port, "drac_protocol": "http", "drac_username": "admin", "drac_password": "s3cret"}
		}},
	} {
		t.Run(c.driver, func(t *testing.T) {
			var requests atomic.Int64
			plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			t.Cleanup(plain.Close)
			o := all
			o.BMCs, o.BMCPace = outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, 1000
			s, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close(t.Context()) })
			host, port, _ := net.SplitHostPort(plain.Listener.Addr().String())
			n := &node.Document{UUID: "b3d1", Name: "web1", Driver: c.driver, Interfaces: map[string]string{}, DriverInfo: c.info(plain.URL, host, port)}
			if c.power != "" {
				n.Interfaces["power"] = c.power
			}
			read := func() error {
				hw, err := s.Resolve(n)
				if err != nil {
					t.Fatal(err)
				}
				_, err = hw.Power().PowerState(t.Context(), n)
				return err
			}
			n.DriverInfo[c.field] = "false"
			if err := read(); requests.Load() == 0 {
				t.Fatalf("the way is not open: %v", err)
			}
			requests.Store(0)
			n.DriverInfo[c.field] = node.PinKey
			if err := read(); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "without TLS") || requests.Load() != 0 {
				t.Errorf("%v after %d requests", err, requests.Load())
			}
		})
	}
}
