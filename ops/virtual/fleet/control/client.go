package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

// maxAnswer bounds an answer: 10,000 machines or records stay below it.
const maxAnswer = 64 << 20

// Client asks a fleet in another process. Safe for concurrent use.
type Client struct {
	// Base is the URL that the fleet's ready line names.
	Base string
	HTTP *http.Client // nil: http.DefaultClient
}

// Machines returns all machines.
func (c *Client) Machines(ctx context.Context) (all []Machine, err error) {
	err = c.do(ctx, http.MethodGet, "/machines", nil, &all)
	return all, err
}

// Machine returns one machine.
func (c *Client) Machine(ctx context.Context, name string) (m Machine, err error) {
	err = c.do(ctx, http.MethodGet, "/machines/"+url.PathEscape(name), nil, &m)
	return m, err
}

// SetFaults sets the faults of one machine; of all when name is empty.
func (c *Client) SetFaults(ctx context.Context, name string, f Faults) error {
	path := "/faults"
	if name != "" {
		path = "/machines/" + url.PathEscape(name) + path
	}
	return c.do(ctx, http.MethodPut, path, f, nil)
}

// Glitch starts a machine anew that nobody asked to.
func (c *Client) Glitch(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "/machines/"+url.PathEscape(name)+"/glitch", nil, nil)
}

// SetRackds says where machines find boot scripts from now on.
func (c *Client) SetRackds(ctx context.Context, urls []string) error {
	return c.do(ctx, http.MethodPut, "/rackds", urls, nil)
}

// After returns a page of the records that follow seq, waiting up to wait for one.
func (c *Client) After(ctx context.Context, seq uint64, wait time.Duration) (p Page, err error) {
	q := url.Values{"after": {strconv.FormatUint(seq, 10)}, "wait": {wait.String()}}
	err = c.do(ctx, http.MethodGet, "/journal?"+q.Encode(), nil, &p)
	return p, err
}

// Journal returns all records that follow seq. Records that the fleet has forgotten
// are an error: nothing can be proved without them.
func (c *Client) Journal(ctx context.Context, seq uint64) (all []journal.Record, err error) {
	for {
		p, err := c.After(ctx, seq, 0)
		if err != nil {
			return nil, err
		}
		if p.Forgotten > seq {
			return nil, fmt.Errorf("the fleet has forgotten the records up to %d; let it keep more", p.Forgotten)
		}
		all = append(all, p.Records...)
		if len(p.Records) == 0 {
			return all, nil
		}
		seq = p.Records[len(p.Records)-1].Seq
	}
}

// Await waits for a record after seq for which match is true.
func (c *Client) Await(ctx context.Context, seq uint64, match func(journal.Record) bool) (journal.Record, error) {
	for {
		p, err := c.After(ctx, seq, 10*time.Second)
		if err != nil {
			return journal.Record{}, err
		}
		for _, r := range p.Records {
			if seq = r.Seq; match(r) {
				return r, nil
			}
		}
	}
}

// Counts returns how often each kind was noted of a machine; of all when it is empty.
func (c *Client) Counts(ctx context.Context, machine string) (counts map[journal.Kind]uint64, err error) {
	err = c.do(ctx, http.MethodGet, "/journal/counts?"+url.Values{"machine": {machine}}.Encode(), nil, &counts)
	return counts, err
}

// Audit returns what the whole journal proves to be wrong.
func (c *Client) Audit(ctx context.Context) (found []audit.Finding, err error) {
	err = c.do(ctx, http.MethodGet, "/audit", nil, &found)
	return found, err
}

func (c *Client) do(ctx context.Context, method, path string, body, answer any) error {
	var in []byte
	if body != nil {
		var err error
		if in, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(in))
	if err != nil {
		return err
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the fleet: %w", err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("ask the fleet: %s %s: %w", method, path, err)
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("ask the fleet: %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(out))
	case answer == nil:
		return nil
	}
	return json.Unmarshal(out, answer)
}
