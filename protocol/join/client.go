package join

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrStranger means that the server is not the one whose fingerprint the token
// names. Nothing was sent to it.
var ErrStranger = errors.New("this is not the central that made the token")

// RefusedError is central's refusal.
type RefusedError struct {
	URL    string
	Status int
	Text   string
	// Challenge is set where the renewal is to be sent again, with it.
	Challenge string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("central at %s refuses (%d): %s", e.URL, e.Status, e.Text)
}

// Central is where a member enrolls and renews.
type Central struct {
	URL         string `json:"url"`
	Fingerprint string `json:"pin"`
	ServerName  string `json:"server_name,omitempty"`
}

// Central returns the token's.
func (t Token) Central() Central { return Central{t.URL, t.Fingerprint, t.ServerName} }

// timeout bounds one request with its answer.
const timeout = 30 * time.Second

// Enrol sends a request. It fails with ErrStranger before anything is sent when the
// server is another, and with a *RefusedError when central says no.
func (c Central) Enrol(ctx context.Context, r Request) (Grant, error) {
	return c.post(ctx, EnrolPath, r)
}

// Renew sends a renewal; its errors are those of Enrol. A *RefusedError with a Challenge
// asks for the same renewal with that challenge, signed again.
func (c Central) Renew(ctx context.Context, r Renewal) (Grant, error) {
	return c.post(ctx, RenewPath, r)
}

func (c Central) post(ctx context.Context, path string, what any) (Grant, error) {
	var g Grant
	body, err := json.Marshal(what)
	if err != nil {
		return g, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	config, err := c.TLS()
	if err != nil {
		return g, err
	}
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	target := strings.TrimRight(c.URL, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return g, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return g, fmt.Errorf("ask central: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	if err != nil {
		return g, fmt.Errorf("read the answer of %s: %w", target, err)
	}
	if len(answer) > MaxBody {
		return g, fmt.Errorf("%s answered with more than %d bytes", target, MaxBody)
	}
	if resp.StatusCode != http.StatusOK {
		var f Failure
		if json.Unmarshal(answer, &f) != nil || f.Error == "" {
			f.Error = http.StatusText(resp.StatusCode)
		}
		return g, &RefusedError{URL: c.URL, Status: resp.StatusCode, Text: f.Error, Challenge: f.Challenge}
	}
	if err := json.Unmarshal(answer, &g); err != nil {
		return g, fmt.Errorf("%s sent an answer that is no grant: %w", target, err)
	}
	return g, nil
}

// TLS returns a configuration that trusts the server whose chain holds the
// certificate with the fingerprint, and no other: the leaf itself, or an authority
// under which the leaf names ServerName (or the URL's host).
func (c Central) TLS() (*tls.Config, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" {
		return nil, fmt.Errorf("central's URL %q is not https", c.URL)
	}
	pin, err := hex.DecodeString(c.Fingerprint)
	if err != nil || len(pin) != sha256.Size {
		return nil, fmt.Errorf("%q is not the fingerprint of a certificate", c.Fingerprint)
	}
	name := c.ServerName
	if name == "" {
		name = u.Hostname()
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: name,
		// The system's roots say nothing here; VerifyConnection decides, also for a
		// session that is resumed.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := holds(s.PeerCertificates, [sha256.Size]byte(pin), name); err != nil {
				return fmt.Errorf("%s: %w: %w", c.URL, ErrStranger, err)
			}
			return nil
		},
	}, nil
}

// holds checks that chain holds the pinned certificate, and that the leaf hangs on it
// under name.
func holds(chain []*x509.Certificate, pin [sha256.Size]byte, name string) error {
	var seen []string
	for i, c := range chain {
		seen = append(seen, Fingerprint(c)[:16]+"…")
		if sha256.Sum256(c.Raw) != pin {
			continue
		}
		if i == 0 {
			return nil
		}
		roots, between := x509.NewCertPool(), x509.NewCertPool()
		roots.AddCert(c)
		for _, other := range chain[1:] {
			between.AddCert(other)
		}
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		return err
	}
	return fmt.Errorf("it shows certificates with the fingerprints %s, the token names %x…: a wrong address, or a third party in between",
		strings.Join(seen, ", "), pin[:8])
}
