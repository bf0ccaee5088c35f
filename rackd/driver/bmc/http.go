package bmc

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// maxAnswer bounds the body of one answer. The largest resources of real BMCs
// (BIOS attribute registries) are below 2 MiB.
const maxAnswer = 4 << 20

// One call reads no more than callRequests answers, and asks nothing more once they have callBytes together. The largest machines
// show some 2,000 resources of a few KiB. A BMC whose links have no end would take the memory that all nodes share.
const (
	callRequests = 4096
	callBytes    = 64 << 20
)

// readTries is how often a read is asked that is answered 500, readPause the time between.
const (
	readTries = 3
	readPause = time.Second
)

// call is what one call into a driver lends to the requests made for it. Libraries
// keep a context per client, not per request, so the transport puts in the caller's.
type call struct {
	ctx context.Context
	// fence guards writes to the machine; nil while logging in or out.
	fence driver.Fence
	// login: writes are to the session service and concern no machine.
	login bool
	// reads: requests only read, whatever their method, so that one may be sent again.
	reads bool
	// requests and bytes are what the call has cost up to now.
	requests, bytes atomic.Int64
}

// spend counts one more request, or refuses it.
func (c *call) spend() error {
	if c.requests.Add(1) > callRequests {
		return &Failure{Said: fmt.Sprintf("links without an end: %d resources were asked for in one call", callRequests)}
	}
	if read := c.bytes.Load(); read >= callBytes {
		return &Failure{Said: fmt.Sprintf("%d MiB in one call, and links to more", read>>20)}
	}
	return nil
}

// HTTPOptions are what a transport is told. All must be set but TLS, Networks and JSON.
type HTTPOptions struct {
	// Host is the only one that requests go to, as in a URL.
	Host string
	TLS  *tls.Config
	// ConnectTimeout bounds a connection with its TLS handshake, AnswerTimeout the wait for an answer.
	ConnectTimeout, AnswerTimeout time.Duration
	// Networks are those that BMCs are in.
	Networks outbound.BMCs
	// JSON: whatever is read is JSON, or empty. An answer to a read that is neither counts as lost: BMCs that start send pages and halves.
	JSON bool
}

// HTTP sends the requests of one BMC's client: to this BMC only, each write behind the fence, each within its time, and no more
// in one call than a machine has resources. It is an http.RoundTripper. The holder of the BMC's turn says by Begin and
// BeginLogin on whose behalf.
type HTTP struct {
	base    *http.Transport
	host    string
	timeout time.Duration
	json    bool
	current atomic.Pointer[call]

	mu    sync.Mutex
	names map[string]string // of resources, by path, where a BMC names them otherwise
}

// NewHTTP returns a transport without any connection.
func NewHTTP(o HTTPOptions) *HTTP {
	return &HTTP{
		host:    o.Host,
		timeout: o.ConnectTimeout + o.AnswerTimeout,
		json:    o.JSON,
		base: &http.Transport{
			DialContext:           outbound.Dialer(o.ConnectTimeout, o.Networks.Check).DialContext,
			TLSClientConfig:       o.TLS,
			TLSHandshakeTimeout:   o.ConnectTimeout,
			ResponseHeaderTimeout: o.AnswerTimeout,
			MaxConnsPerHost:       2,
			// Short, because each call reads before it writes: the write then uses a
			// connection that was alive a moment ago.
			IdleConnTimeout:        10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// Begin makes the requests that follow part of a call. f is nil for calls that only read.
func (t *HTTP) Begin(ctx context.Context, f driver.Fence) { t.current.Store(&call{ctx: ctx, fence: f}) }

// BeginLogin lets the requests that follow write to the BMC's session service: they log in or out.
func (t *HTTP) BeginLogin(ctx context.Context) { t.current.Store(&call{ctx: ctx, login: true}) }

// BeginRead says that the requests that follow only read, whatever their method. None of them may be a login: it would be sent twice.
func (t *HTTP) BeginRead(ctx context.Context) { t.current.Store(&call{ctx: ctx, reads: true}) }

// Forget closes the connections.
func (t *HTTP) Forget() { t.base.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper. A read that the BMC fails to answer is
// asked again: BMCs say 500 for a moment when they are busy or have just started.
func (t *HTTP) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.current.Load()
	if c == nil {
		return nil, errors.New("a request outside of any call")
	}
	if req.URL.Host != t.host {
		// A BMC that links elsewhere would send its credentials along.
		return nil, fmt.Errorf("the BMC links to another host, %s", req.URL.Host)
	}
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	other := false // an answer of another resource has come
	for try := 1; ; try++ {
		if err := c.spend(); err != nil {
			return nil, err
		}
		resp, body, err := t.send(c, req, !read && !c.reads)
		if err == nil && t.json && !other && !answers(req, resp, body) && !t.named(req, body) {
			other = true
			t.Forget()
			try--
			continue
		}
		if err == nil && other && !answers(req, resp, body) { // the BMC says it again
			t.name(req, body)
		}
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

// send sends the request once. One of a call that only reads is sent again, on a new connection, if the one that was kept proves to be
// dead: the BMC has closed it, or started again. net/http does that by itself for GET alone, and many protocols read by POST. A login
// never is: a BMC that took the first in keeps its session, or counts a wrong password twice. A digest counts its requests, and is its
// sender's to make again.
func (t *HTTP) send(c *call, req *http.Request, write bool) (*http.Response, []byte, error) {
	resp, body, err := t.sendOnce(c, req, write)
	gone, lost := errors.AsType[*Lost](err)
	if !lost || !gone.Dead || !c.reads || req.Body != nil && req.GetBody == nil ||
		strings.HasPrefix(req.Header.Get("Authorization"), "Digest ") {
		return resp, body, err
	}
	t.Forget() // others that were kept are as old
	if req.GetBody != nil {
		again, err := req.GetBody()
		if err != nil {
			return nil, nil, gone
		}
		req = req.Clone(req.Context())
		req.Body = again
	}
	return t.sendOnce(c, req, write)
}

func (t *HTTP) sendOnce(c *call, req *http.Request, write bool) (_ *http.Response, body []byte, _ error) {
	ctx, cancel := context.WithTimeout(c.ctx, t.timeout)
	defer cancel()
	var sent, kept, answered atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { kept.Store(i.Reused) },
		WroteHeaders:         func() { sent.Store(true) },
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	req = req.Clone(ctx)
	refused := func() error { return nil }
	req.Close = false // gofish asks for a new connection, and a TLS handshake, each time
	if write && !c.login {
		if c.fence == nil {
			return nil, nil, errNoFence
		}
		if err := c.fence.Check(); err != nil {
			return nil, nil, err
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
		body, err = buffer(resp)
		c.bytes.Add(int64(len(body)))
		if err == nil && t.json && req.Method == http.MethodGet && resp.StatusCode == http.StatusOK && len(body) > 0 && !json.Valid(body) {
			err = errNoJSON
		}
	}
	if fenced := refused(); err != nil && fenced != nil {
		return nil, nil, fenced
	}
	if err != nil {
		slow, timed := errors.AsType[net.Error](err)
		ended := ctx.Err() != nil || timed && slow.Timeout()
		return nil, nil, &Lost{Err: err, Unknown: write && !c.login && sent.Load(), Left: sent.Load(),
			Dead: kept.Load() && !answered.Load() && !ended}
	}
	if req.Method == http.MethodGet && isNull(body) {
		return nil, nil, &Failure{Said: fmt.Sprintf("HTTP %d: null, where there is to be a resource", resp.StatusCode)}
	}
	return resp, body, nil
}

// errNoJSON is what a BMC's answer is that starts.
var errNoJSON = errors.New("its answer breaks off, or is no JSON")

// buffer reads the whole body while the request's time runs.
func buffer(resp *http.Response) (body []byte, err error) {
	defer resp.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1)); err != nil {
		return body, err
	}
	if len(body) > maxAnswer {
		return body, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// isNull reports whether a body in JSON is null. Libraries make no resource of it, and use that.
func isNull(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("null"))
}

// SameHost is an http.Client's CheckRedirect: a read follows a redirect on its host, as of servers
// that want a slash at the end, and nothing else.
func SameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 3 || via[0].Method != http.MethodGet || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// StatusFailure sorts an answer by its HTTP status. write says that the request was a write, said what the BMC's error says.
func StatusFailure(status int, write bool, said string, cause error) *Failure {
	f := &Failure{Said: fmt.Sprintf("HTTP %d: %s", status, said), Cause: cause}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Class = Denied
	case write && (status == http.StatusBadGateway || status == http.StatusGatewayTimeout):
		f.Class = Unknown
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests,
		status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		f.Class = Busy
	}
	return f
}
