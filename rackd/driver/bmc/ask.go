package bmc

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/ironyard/ironyard/rackd/driver"
)

// Request is one request of a protocol in which the HTTP method does not tell reads from writes: XML over POST, or orders
// by GET.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Answer is what came back, with its whole body.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Read sends a request that only reads. It is sent once more if a connection that was kept proves to be dead. Without an answer, the
// error is a *Lost that is not Unknown.
func (t *HTTP) Read(ctx context.Context, r Request) (Answer, error) {
	return t.exchange(&call{ctx: ctx, reads: true}, r, false)
}

// Ask sends a request that changes no machine and yet leaves something at the BMC, as a login does. It is sent once. Without an answer,
// the error is a *Lost that is not Unknown.
func (t *HTTP) Ask(ctx context.Context, r Request) (Answer, error) {
	return t.exchange(&call{ctx: ctx}, r, false)
}

// Order sends a request that changes the machine, once, behind the fence. Without an answer, the error is a *Lost; it is
// Unknown if the request left.
func (t *HTTP) Order(ctx context.Context, f driver.Fence, r Request) (Answer, error) {
	if r.Method == http.MethodGet {
		// net/http repeats a GET by itself when a connection that it kept turns out to be dead. It does not on a new one.
		t.Forget()
	}
	return t.exchange(&call{ctx: ctx, fence: f}, r, true)
}

func (t *HTTP) exchange(c *call, r Request, write bool) (Answer, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(c.ctx, r.Method, r.URL, body)
	if err != nil {
		return Answer{}, err
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	resp, _, err := t.send(c, req, write)
	if err != nil {
		return Answer{}, err
	}
	whole, err := io.ReadAll(resp.Body) // it is in memory
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: whole}, err
}
