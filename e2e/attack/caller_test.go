package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/network"
)

// caller sends requests from a host. Without bearer it has no account.
type caller struct {
	base   string
	bearer string
	web    *http.Client
}

// answerWithin bounds one request.
const answerWithin = 20 * time.Second

func newCaller(h *network.Host, base string) *caller {
	return &caller{base: base, web: &http.Client{Timeout: answerWithin, Transport: &http.Transport{DialContext: h.DialContext, DisableKeepAlives: true,
		// Attackers do not care whom they talk to.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
}

// as is the same caller with an account.
func (c *caller) as(bearer string) *caller { return &caller{c.base, bearer, c.web} }

// at is the same caller at another server.
func (c *caller) at(base string) *caller { return &caller{base, "", c.web} }

// do sends a request; a body that is no []byte goes as JSON.
func (c *caller) do(ctx context.Context, method, path string, body any) (int, string, error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		in = bytes.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return 0, "", err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, in)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.95")
	req.Header.Set("Content-Type", "application/json")
	if c.bearer != "" {
		req.Header.Set("X-Auth-Token", c.bearer)
	}
	resp, err := c.web.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(out), err
}

func (c *caller) get(ctx context.Context, path string, into any) error {
	return c.ask(ctx, "GET", path, nil, into)
}

// ask sends a request that must succeed.
func (c *caller) ask(ctx context.Context, method, path string, body, into any) error {
	status, out, err := c.do(ctx, method, path, body)
	switch {
	case err != nil:
		return err
	case status/100 != 2:
		return fmt.Errorf("%s %s: %d %s", method, path, status, out)
	case into == nil:
		return nil
	}
	return json.Unmarshal([]byte(out), into)
}

// persist is ask that tries again while a node is locked or its rack has not heard of it.
func (c *caller) persist(ctx context.Context, method, path string, body, into any) error {
	var last error
	err := until(ctx, 20*time.Second, func(ctx context.Context) error {
		last = c.ask(ctx, method, path, body, into)
		if last != nil && !strings.Contains(last.Error(), ": 409 ") && !strings.Contains(last.Error(), ": 503 ") {
			return nil
		}
		return last
	})
	if err != nil {
		return err
	}
	return last
}

// node is what attacks read of a node.
type node struct {
	UUID         string
	Name         string
	State        string         `json:"provision_state"`
	Target       string         `json:"target_provision_state"`
	Power        string         `json:"power_state"`
	LastError    string         `json:"last_error"`
	Reservation  string         `json:"reservation"`
	Instance     string         `json:"instance_uuid"`
	InstanceInfo map[string]any `json:"instance_info"`
	Maintenance  bool           `json:"maintenance"`
	Fault        string         `json:"fault"`
	Properties   map[string]any `json:"properties"`
	Internal     map[string]any `json:"driver_internal_info"`
	DriverInfo   map[string]any `json:"driver_info"`
}

func (c *caller) node(ctx context.Context, id string) (n node, err error) {
	err = c.get(ctx, "/v1/nodes/"+id, &n)
	return n, err
}

// awaits waits until a node is in a state.
func (c *caller) awaits(ctx context.Context, id, state string, limit time.Duration) error {
	return until(ctx, limit, func(ctx context.Context) error {
		n, err := c.node(ctx, id)
		if err == nil && (n.State != state || n.Reservation != "") {
			err = fmt.Errorf("node %s is %q bound for %q, not %q; last error %q", id, n.State, n.Target, state, n.LastError)
		}
		return err
	})
}

// set adds a field of a node.
func (c *caller) set(ctx context.Context, id, path string, value any) error {
	return c.persist(ctx, "PATCH", "/v1/nodes/"+id, []map[string]any{{"op": "add", "path": path, "value": value}}, nil)
}

// provision asks for a verb.
func (c *caller) provision(ctx context.Context, id, verb string, more map[string]any) error {
	body := map[string]any{"target": verb}
	for k, v := range more {
		body[k] = v
	}
	return c.persist(ctx, "PUT", "/v1/nodes/"+id+"/states/provision", body, nil)
}
