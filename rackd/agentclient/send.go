package agentclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// maxAnswer bounds an answer: the largest is a base64 archive of the agent's logs.
const maxAnswer = 32 << 20

// request is one question to the agent.
type request struct {
	method, path, wait string
	body               []byte
	fence              driver.Fence // of writes
	doing              string       // for messages
}

// refusal is an answer of the agent that is no success.
type refusal struct {
	status int
	text   string
	cause  error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }

// send sends r and returns the body of a success. It sends again only what an agent has refused
// for its token, and with another.
func (c *Client) send(ctx context.Context, r request) (body []byte, err error) {
	for _, token := range c.tokens() {
		body, err = c.sendWith(ctx, token, r)
		if refused, is := errors.AsType[*refusal](err); !is || refused.status != http.StatusUnauthorized {
			if err == nil {
				c.fit.Store(&token)
			}
			return body, err
		}
	}
	return body, err
}

func (c *Client) sendWith(ctx context.Context, token string, r request) ([]byte, error) {
	a := c.cfg.State()
	if a == nil || a.URL == "" {
		return nil, fmt.Errorf("%s: the agent has not called yet: %w", r.doing, driver.ErrUnreachable)
	}
	wire, err := pinned(a)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %s: %w", a.URL, r.doing, err)
	}
	defer wire.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	query := url.Values{"agent_token": {token}}
	if r.wait != "" {
		query.Set("wait", r.wait)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, strings.TrimSuffix(a.URL, "/")+r.path+"?"+query.Encode(), bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("agent: %s: the URL it called back with is none: %w", r.doing, driver.ErrInvalid)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	refused := func() error { return nil }
	if r.fence != nil {
		if err := r.fence.Check(); err != nil {
			return nil, err
		}
		req, refused = driver.Guard(req, r.fence)
		// For the agent's records.
		req.Header.Set(work.EpochHeader, strconv.FormatUint(r.fence.Epoch(), 10))
		req.Header.Set(work.IDHeader, r.fence.Work())
	}
	// The transport, not a client: its errors do not repeat the URL, which holds
	// the token, and it follows no redirect.
	resp, err := wire.RoundTrip(req)
	if err != nil {
		if fenced := refused(); fenced != nil {
			return nil, fenced
		}
		return nil, fmt.Errorf("agent %s: %s: %w: %w", a.URL, r.doing, err, driver.ErrUnreachable)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("agent %s: %s: reading the answer: %w: %w", a.URL, r.doing, err, driver.ErrUnreachable)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("agent %s: %s: the answer is larger than %d bytes", a.URL, r.doing, maxAnswer)
	case resp.StatusCode/100 != 2:
		return nil, c.refused(a, r, resp.StatusCode, body)
	}
	return body, nil
}

func (c *Client) refused(a *work.Agent, r request, status int, body []byte) error {
	e := &refusal{status: status}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.cause = driver.ErrDenied
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.cause = driver.ErrUnreachable
	}
	said := c.fault(body)
	// The fence refuses by the same status. ironic-python-agent says it with a capital letter.
	if status == http.StatusConflict && strings.HasPrefix(strings.ToLower(said), agentapi.Busy) {
		e.cause = driver.ErrBusy
	}
	e.text = fmt.Sprintf("agent %s: %s: it answered HTTP %d: %s", a.URL, r.doing, status, said)
	return e
}

// fault is what the agent says went wrong, bounded and on one line.
func (c *Client) fault(body []byte) string {
	var f agentapi.Fault
	text := string(body)
	if json.Unmarshal(body, &f) == nil && f.String != "" {
		text = f.String
	}
	for _, token := range c.tokens() {
		if token != "" {
			text = strings.ReplaceAll(text, token, agentapi.Masked)
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }), " ")
	const most = 1000
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

// tokens are those that the agent may have, the one that it took last before the others.
func (c *Client) tokens() []string {
	var list []string
	if c.cfg.Tokens != nil {
		list = c.cfg.Tokens()
	}
	if len(list) == 0 {
		return []string{""}
	}
	if fit := c.fit.Load(); fit != nil {
		if i := slices.Index(list, *fit); i > 0 {
			list = slices.Concat(list[i:i+1], list[:i], list[i+1:])
		}
	}
	return list
}

// Lives reports whether an agent is there: whether what answers at its URL shows the certificate
// of its heartbeat. What it answers does not matter.
func Lives(ctx context.Context, a work.Agent) bool {
	wire, err := pinned(&a)
	if err != nil {
		return false
	}
	defer wire.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(a.URL, "/")+agentapi.StatusPath, nil)
	if err != nil {
		return false
	}
	resp, err := wire.RoundTrip(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return true
}

// pinned returns a transport that talks to the agent with the heartbeat's
// certificate and to nobody else.
func pinned(a *work.Agent) (*http.Transport, error) {
	if !strings.HasPrefix(a.URL, "https://") {
		return nil, fmt.Errorf("it called back with a URL that is not https: %w", driver.ErrInvalid)
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL it called back with is none: %w", driver.ErrInvalid)
	}
	known, roots, err := certificates(a.VerifyCA)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		DisableKeepAlives: true, // a machine that reboots leaves nothing half open
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// Verified below: the very certificate of the heartbeat is trusted whatever
			// the clocks say, else one that it has signed for this address.
			InsecureSkipVerify: true,
			VerifyConnection: func(s tls.ConnectionState) error {
				leaf := s.PeerCertificates[0]
				for _, k := range known {
					if leaf.Equal(k) {
						return nil
					}
				}
				between := x509.NewCertPool()
				for _, c := range s.PeerCertificates[1:] {
					between.AddCert(c)
				}
				// The connection knows no name where the URL has an address, as agents' have.
				_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: u.Hostname(), Intermediates: between})
				if err != nil {
					return fmt.Errorf("it shows another certificate than its heartbeat gave: %w", err)
				}
				return nil
			},
		},
		MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// certificates reads those of a heartbeat.
func certificates(text string) (known []*x509.Certificate, roots *x509.CertPool, err error) {
	roots = x509.NewCertPool()
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		k, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("its heartbeat gave a certificate that cannot be read (%w): %w", err, driver.ErrInvalid)
		}
		known = append(known, k)
		roots.AddCert(k)
	}
	if len(known) == 0 {
		return nil, nil, fmt.Errorf("its heartbeat gave no certificate: %w", driver.ErrInvalid)
	}
	return known, roots, nil
}
