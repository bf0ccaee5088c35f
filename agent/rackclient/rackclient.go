// Package rackclient is how the agent talks to the rackd of its rack: lookup,
// heartbeat, logs.
//
// It may import protocol/agentapi only. Invariants: HTTPS only, to the one
// certificate whose fingerprint the boot script named; each request and each URL
// has a timeout; answers are bounded. Safe for concurrent use.
package rackclient

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// TokenHeader carries the agent's token with its logs.
const TokenHeader = "X-Ironyard-Agent-Token"

const (
	// perTry bounds one request to one URL.
	perTry = 15 * time.Second
	// maxReply bounds what is read of an answer.
	maxReply = 4 << 20
)

// Client asks rackds. Made by New.
type Client struct {
	// SystemUUID and SystemSerial tell this machine from others, as its firmware has them; set before use.
	SystemUUID, SystemSerial string

	urls []string
	http *http.Client
	// good is the index of the URL that answered last.
	good atomic.Int64
}

// StatusError is an answer that is not a success.
type StatusError struct {
	URL  string
	Code int
	Text string
}

// Refused reports whether err is a rackd's refusal, which another rackd would not take back: an answer of 400 to 499.
func Refused(err error) bool {
	s, ok := errors.AsType[*StatusError](err)
	return ok && s.Code >= 400 && s.Code < 500
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answered %d: %s", e.URL, e.Code, e.Text)
}

// Pinned returns a TLS configuration that trusts the certificate with this
// fingerprint (hex SHA-256 of its DER) and no other.
func Pinned(fingerprint string) (*tls.Config, error) {
	want, err := hex.DecodeString(fingerprint)
	if err != nil || len(want) != sha256.Size {
		return nil, fmt.Errorf("%q is not the fingerprint of a certificate", fingerprint)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: agentapi.DoorName(fingerprint),
		// The chain, the name and the dates say nothing here: the certificate is
		// self-signed and the machine's clock may be wrong. The fingerprint decides.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			got := sha256.Sum256(s.PeerCertificates[0].Raw)
			if subtle.ConstantTimeCompare(got[:], want) != 1 {
				return fmt.Errorf("the server's certificate has fingerprint %x, the boot script said %s: the machine was booted by another rackd, or a third party sits in between", got, fingerprint)
			}
			return nil
		},
	}, nil
}

// New makes a client of the rackds at urls. Close frees its connections.
func New(urls []string, fingerprint string) (*Client, error) {
	if len(urls) == 0 {
		return nil, errors.New("no URL of a rackd: the kernel parameter " + agentapi.ParamAPIURL + " is missing")
	}
	config, err := Pinned(fingerprint)
	if err != nil {
		return nil, fmt.Errorf("%w: is the kernel parameter %s missing?", err, agentapi.ParamAPIFingerprint)
	}
	return &Client{urls: urls, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig: config, TLSHandshakeTimeout: perTry, ResponseHeaderTimeout: perTry, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: false,
	}}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Lookup asks who this machine is. date is the rackd's clock, zero if not told.
func (c *Client) Lookup(ctx context.Context, macs []string, node string) (reply agentapi.LookupReply, date time.Time, err error) {
	q := url.Values{"addresses": {strings.Join(macs, ",")}}
	if node != "" {
		q.Set("node_uuid", node)
	}
	for name, value := range map[string]string{agentapi.QuerySystemUUID: c.SystemUUID, agentapi.QuerySystemSerial: c.SystemSerial} {
		if value != "" {
			q.Set(name, value)
		}
	}
	body, header, err := c.do(ctx, http.MethodGet, agentapi.LookupPath+"?"+q.Encode(), "", nil, nil)
	if err != nil {
		return reply, date, fmt.Errorf("looking up this machine: %w", err)
	}
	if reply, err = parseLookup(body); err != nil {
		return reply, date, fmt.Errorf("looking up this machine: %w", err)
	}
	// A missing or odd date only means that the local clock is used.
	date, _ = http.ParseTime(header.Get("Date"))
	return reply, date, nil
}

func parseLookup(body []byte) (reply agentapi.LookupReply, err error) {
	if err := json.Unmarshal(body, &reply); err != nil {
		return reply, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if reply.Node.UUID == "" || len(reply.Node.UUID) > 255 || strings.ContainsAny(reply.Node.UUID, "/?#%\x00") {
		return reply, fmt.Errorf("the answer names no usable node UUID (%.40q)", reply.Node.UUID)
	}
	return reply, nil
}

// Heartbeat says that the agent lives.
func (c *Client) Heartbeat(ctx context.Context, node string, h agentapi.Heartbeat) error {
	body, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if _, _, err = c.do(ctx, http.MethodPost, agentapi.HeartbeatPath+node, "application/json", body, nil); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// SendLog hands over lines of the agent's log.
func (c *Client) SendLog(ctx context.Context, node, token string, lines []byte) error {
	_, _, err := c.do(ctx, http.MethodPost, agentapi.LogPath+node, "text/plain; charset=utf-8", lines, http.Header{TokenHeader: {token}})
	return err
}

// do tries the URLs in turn, the one that answered last first. An answer of any
// status ends the turn, except 5xx: another rackd may do better.
func (c *Client) do(ctx context.Context, method, path, contentType string, body []byte, header http.Header) ([]byte, http.Header, error) {
	var errs []error
	first := int(c.good.Load())
	for i := range c.urls {
		n := (first + i) % len(c.urls)
		reply, h, err := c.try(ctx, method, c.urls[n]+path, contentType, body, header)
		if err == nil {
			c.good.Store(int64(n))
			return reply, h, nil
		}
		errs = append(errs, err)
		if s, ok := errors.AsType[*StatusError](err); ok && s.Code < 500 {
			break
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil, errors.Join(errs...)
}

func (c *Client) try(ctx context.Context, method, target, contentType string, body []byte, header http.Header) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, perTry)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set(agentapi.APIVersionHeader, agentapi.APIVersion)
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		text := strings.TrimSpace(string(reply))
		if len(text) > 500 {
			text = text[:500] + "…"
		}
		where, _, _ := strings.Cut(target, "?")
		return nil, nil, &StatusError{URL: where, Code: resp.StatusCode, Text: text}
	}
	return reply, resp.Header, nil
}
