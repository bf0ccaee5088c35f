package boot

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestImageServersCertificate holds that an image's server is the rackd, or one for whose name or
// address an authority vouches.
func TestImageServersCertificate(t *testing.T) {
	for _, c := range []struct {
		at                string // the certificate is for 127.0.0.1
		rackd, vouchedFor bool
		want              bool
	}{
		{"127.0.0.1", false, true, true},
		{"127.0.0.2", false, true, false},
		{"127.0.0.1", false, false, false},
		{"127.0.0.2", true, false, true},
	} {
		l, err := net.Listen("tcp", net.JoinHostPort(c.at, "0"))
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s.Listener.Close()
		s.Listener = l
		s.StartTLS()
		authorities := x509.NewCertPool()
		if c.vouchedFor {
			authorities.AddCert(s.Certificate())
		}
		pin := strings.Repeat("ab", 32)
		if c.rackd {
			sum := sha256.Sum256(s.Certificate().Raw)
			pin = hex.EncodeToString(sum[:])
		}
		client, err := imageClient(pin, authorities)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Get(s.URL)
		if (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			res.Body.Close()
		}
		client.CloseIdleConnections()
		s.Close()
	}
}
