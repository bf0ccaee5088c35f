package boot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/agent/rackclient"
)

// imageClient downloads images: from the rackd, whose certificate is pinned, or from servers that
// authorities vouch for; nil: those of the system, where the ramdisk has some. An image is
// verified by its checksum in any case.
func imageClient(fingerprint string, authorities *x509.CertPool) (*http.Client, error) {
	pinned, err := rackclient.Pinned(fingerprint)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext,
			// Each connection for itself: where a URL has an address for a host, nothing but the
			// URL says whose the certificate must be.
			DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				host, _, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				config := pinned.Clone()
				config.ServerName = host
				config.VerifyConnection = func(s tls.ConnectionState) error {
					if pinned.VerifyConnection(s) == nil {
						return nil
					}
					return vouchedFor(s.PeerCertificates, host, authorities)
				}
				ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
				defer cancel()
				return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, addr)
			},
			ResponseHeaderTimeout: time.Minute, DisableCompression: true, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) >= 5 {
				return errors.New("more than five redirections")
			}
			return nil
		},
	}, nil
}

// vouchedFor is what TLS does when it is not told otherwise.
func vouchedFor(chain []*x509.Certificate, host string, authorities *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Intermediates: between, Roots: authorities}); err != nil {
		return fmt.Errorf("the image server's certificate is neither the rackd's nor signed by an authority that the ramdisk knows: %w", err)
	}
	return nil
}
