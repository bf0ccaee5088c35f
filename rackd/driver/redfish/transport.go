package redfish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// maxAnswer bounds the body of one answer. The largest resources of real BMCs
// (BIOS attribute registries) are below 2 MiB.
const maxAnswer = 4 << 20

// readTries is how often a read is asked that is answered 500, readPause the time between.
const (
	readTries = 3
	readPause = time.Second
)

// call is what one call into the driver lends to the requests made for it.
// gofish keeps a context per client, not per request, so the transport puts in
// the caller's.
type call struct {
	ctx context.Context
	// fence guards writes to the machine; nil while logging in or out.
	fence driver.Fence
	// login: writes are to the session service and concern no machine.
	login bool
}

// transport sends the requests of one BMC's client. The current call is set by
// whoever holds the BMC's turn.
type transport struct {
	base    *http.Transport
	host    string
	timeout time.Duration
	current atomic.Pointer[call]
}

func newTransport(a account, host string, o Options) (*transport, error) {
	config, err := a.tls(o.CAFolder)
	if err != nil {
		return nil, err
	}
	return &transport{
		host:    host,
		timeout: o.ConnectTimeout + o.ReadTimeout,
		base: &http.Transport{
			DialContext:           outbound.Dialer(o.ConnectTimeout, o.Networks.Check).DialContext,
			TLSClientConfig:       config,
			TLSHandshakeTimeout:   o.ConnectTimeout,
			ResponseHeaderTimeout: o.ReadTimeout,
			MaxConnsPerHost:       2,
			// Short, because each call reads before it writes: the write then uses a
			// connection that was alive a moment ago.
			IdleConnTimeout:        10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}, nil
}

// RoundTrip implements http.RoundTripper. A read that the BMC fails to answer is
// asked again: BMCs say 500 for a moment when they are busy or have just started.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.current.Load()
	if c == nil {
		return nil, errors.New("a request outside of any call")
	}
	if req.URL.Host != t.host {
		// A BMC that links elsewhere would send its credentials along.
		return nil, fmt.Errorf("the BMC links to another host, %s", req.URL.Host)
	}
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	for try := 1; ; try++ {
		resp, err := t.send(c, req, !read)
		if err != nil || !read || resp.StatusCode != http.StatusInternalServerError || try == readTries {
			return resp, err
		}
		pause := time.NewTimer(readPause)
		select {
		case <-pause.C:
		case <-c.ctx.Done():
			pause.Stop()
			return resp, nil // the BMC's own words say more than ours
		}
	}
}

// send sends the request once.
func (t *transport) send(c *call, req *http.Request, write bool) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(c.ctx, t.timeout)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	req = req.Clone(ctx)
	refused := func() error { return nil }
	req.Close = false // gofish asks for a new connection, and a TLS handshake, each time
	if write && !c.login {
		if c.fence == nil {
			return nil, errors.New("a write without a fence")
		}
		if err := c.fence.Check(); err != nil {
			return nil, err
		}
		req, refused = driver.Guard(req, c.fence)
		// For the BMC's records, and for whatever stands before the BMC.
		req.Header.Set(work.EpochHeader, strconv.FormatUint(c.fence.Epoch(), 10))
		if id := c.fence.Work(); id != "" {
			req.Header.Set(work.IDHeader, id)
		}
	}
	resp, err := t.base.RoundTrip(req)
	if err == nil {
		err = buffer(resp)
	}
	if fenced := refused(); err != nil && fenced != nil {
		return nil, fenced
	}
	if err != nil {
		return nil, &lost{err: err, unknown: write && !c.login && sent.Load()}
	}
	return resp, nil
}

// buffer reads the whole body while the request's time runs.
func buffer(resp *http.Response) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// lost is a request without an answer.
type lost struct {
	err error
	// unknown: it was a write to the machine, and it left.
	unknown bool
}

func (l *lost) Error() string { return l.err.Error() }
func (l *lost) Unwrap() error { return l.err }

// sameHost lets a read follow a redirect on its host, as servers do that want a
// trailing slash, and nothing else.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 3 || via[0].Method != http.MethodGet || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}
