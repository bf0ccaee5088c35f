package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// version is the API version that operators speak: one in which every verb that they
// use is known.
const version = "1.110"

// answerWithin is how long an operator waits for an answer.
const answerWithin = 15 * time.Second

// Request is one request and what came of it.
type Request struct {
	Number   uint64    `json:"number"`
	Node     string    `json:"node"` // UUID
	What     string    `json:"what"` // such as "active", "power on", "maintenance on", "delete"
	Seen     string    `json:"seen,omitempty"`
	Sent     time.Time `json:"sent"`
	Answered time.Time `json:"answered,omitzero"`
	Endpoint string    `json:"endpoint"`
	Status   int       `json:"status,omitempty"` // 0: no answer came
	ID       string    `json:"id,omitempty"`     // the request's, as central named it
	Fault    string    `json:"fault,omitempty"`
}

// Accepted reports whether the answer was a 2xx.
func (r *Request) Accepted() bool { return r.Status/100 == 2 }

// Unknown reports whether no answer came: the request may or may not have been accepted.
func (r *Request) Unknown() bool { return r.Status == 0 }

// Client sends requests to any of several replicas of central, as a load balancer
// would. Safe for concurrent use.
type Client struct {
	endpoints []string
	web       *http.Client
	next      atomic.Uint64

	mu   sync.Mutex
	log  io.Writer
	sent []*Request
}

// NewClient returns a client; log, if not nil, is given each request as a line of JSON.
func NewClient(endpoints []string, web *http.Client, log io.Writer) *Client {
	return &Client{endpoints: endpoints, web: web, log: log}
}

// Requests returns all requests so far in the order in which they were sent.
func (c *Client) Requests() []*Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Request(nil), c.sent...)
}

// Send sends a request about a node once and notes it. A replica that refuses the
// connection has not taken it, so the next is tried.
func (c *Client) Send(ctx context.Context, node, seen, what, method, path string, body any) *Request {
	r, _ := c.send(ctx, node, seen, what, method, path, body)
	return r
}

func (c *Client) send(ctx context.Context, node, seen, what, method, path string, body any) (*Request, []byte) {
	r := &Request{Node: node, Seen: seen, What: what, Sent: time.Now()}
	c.mu.Lock()
	c.sent = append(c.sent, r)
	r.Number = uint64(len(c.sent))
	c.mu.Unlock()
	// An operator does not hang up because the test ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	var status int
	var answer []byte
	var err error
	var head http.Header
	for range c.endpoints {
		r.Endpoint = c.endpoint()
		status, head, answer, err = c.do(ctx, r.Endpoint, method, path, body)
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EHOSTUNREACH) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Answered = time.Now()
	if err != nil {
		r.Fault = err.Error()
	} else {
		r.Status, r.ID = status, head.Get("Openstack-Request-Id")
		if !r.Accepted() {
			r.Fault = fault(answer)
		}
	}
	if c.log != nil {
		json.NewEncoder(c.log).Encode(r) // a record for people; the test goes by memory
	}
	return r, answer
}

func (c *Client) endpoint() string {
	return c.endpoints[c.next.Add(1)%uint64(len(c.endpoints))]
}

func (c *Client) do(ctx context.Context, endpoint, method, path string, body any) (int, http.Header, []byte, error) {
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, nil, nil, err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, endpoint+path, in)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", version)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.web.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, answer, err
}

// ErrNotFound: there is no such thing, as far as central knows.
var ErrNotFound = errors.New("central does not know it")

// Read reads path into the JSON value into, asking one replica after the other until
// one answers or ctx ends.
func (c *Client) Read(ctx context.Context, path string, into any) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, answerWithin)
		status, _, answer, err := c.do(attempt, c.endpoint(), "GET", path, nil)
		cancel()
		switch {
		case err == nil && status == http.StatusOK:
			return json.Unmarshal(answer, into)
		case err == nil && status == http.StatusNotFound:
			return fmt.Errorf("%s: %w", path, ErrNotFound)
		case err == nil:
			err = fmt.Errorf("%d: %s", status, fault(answer))
		}
		t := time.NewTimer(200 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("read %s: %w: %w", path, context.Cause(ctx), err)
		case <-t.C:
		}
	}
}

// fault takes the text out of an error of Ironic's API.
func fault(answer []byte) string {
	var outer struct {
		Message json.RawMessage `json:"error_message"`
	}
	var inner struct {
		Fault string `json:"faultstring"`
	}
	var text string
	if json.Unmarshal(answer, &outer) == nil {
		if json.Unmarshal(outer.Message, &text) == nil {
			outer.Message = []byte(text)
		}
		if json.Unmarshal(outer.Message, &inner) == nil && inner.Fault != "" {
			return inner.Fault
		}
	}
	return string(answer)
}
