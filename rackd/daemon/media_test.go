package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/bootorder"
)

// A BMC that has gone is waited for by no request any more. One that waits is given the time that it takes to bring the files.
func TestWhoWaitsForFilesOfAMedium(t *testing.T) {
	load := bootorder.Load{Kernel: bootorder.File{ID: "sha256-k"}}
	for name, c := range map[string]struct{ leaves, comes, want time.Duration }{
		"the files come":        {leaves: time.Hour, comes: 3 * time.Second, want: 3 * time.Second},
		"the BMC leaves":        {leaves: time.Second, comes: time.Hour, want: time.Second},
		"the files never do so": {leaves: time.Hour, comes: time.Hour, want: bringForBMC},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.leaves)
				defer cancel()
				bringForMedium(ctx, func(bootorder.File) error {
					if time.Since(began) < c.comes {
						return errComing
					}
					return nil
				}, load)
				if got := time.Since(began); got != c.want {
					t.Errorf("it waited for %s, want %s", got, c.want)
				}
			})
		})
	}
}

// A medium is served for as long as a rackd lives at its address that serves nodes of its group, by TLS or without.
func TestWhereMediaAreServed(t *testing.T) {
	s := mediaServer{base: "http://10.0.0.1:8080", members: func() []bus.Member {
		return []bus.Member{{Group: "g", BootURL: "http://10.0.0.2:8080", BootTLSURL: "https://10.0.0.2:8443"}, {Group: "f", BootURL: "http://10.0.0.3:8080"}, {Group: "h", BootURL: "http://10.0.0.4:8080"}}
	}, serves: func(by, group string) bool { return group == "g" && by != "h" }}
	for base, want := range map[string]bool{"": false, "http://10.0.0.1:8080": true, "https://10.0.0.1:8443": false, "http://10.0.0.2:8080": true,
		"https://10.0.0.2:8443": true, "http://10.0.0.3:8080": true, "https://10.0.0.3:8443": false, "http://10.0.0.4:8080": false} {
		if got := s.Served(base, "g"); got != want {
			t.Errorf("%q is served: %t", base, got)
		}
	}
	if s.secure = "https://10.0.0.1:8443"; !s.Served(s.TLSBase(), "g") || s.Served("", "g") {
		t.Error("its own base by TLS is not served, or none is")
	}
}

// A certificate that cannot be read is an error, and not one that is not there: a BMC would be told to trust none.
func TestCertificatesOfMediaThatCannotBeRead(t *testing.T) {
	der := []byte("a certificate")
	for name, c := range map[string]struct {
		tls   *tls.Config
		count int
		says  string
	}{
		"by HTTP alone": {},
		"read": {tls: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{der, der}}, nil
		}}, count: 2},
		"not read": {tls: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("the key is gone") }}, says: "the key is gone"},
	} {
		r := &rackd{firmwareTLS: c.tls}
		list, err := mediaServer{shown: r.firmwareCertificates}.TLSCertificates()
		if len(list) != c.count || (err != nil) != (c.says != "") || err != nil && !(strings.Contains(err.Error(), c.says) && strings.Contains(err.Error(), "--https-certificate")) {
			t.Errorf("%s: %q, %v", name, list, err)
		}
	}
}
