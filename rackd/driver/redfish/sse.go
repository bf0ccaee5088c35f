package redfish

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/outbound"
)

const (
	// mostEvent bounds one event of a stream, in bytes.
	mostEvent = 256 << 10
	// streamLife is how long a stream is read. A connection that is dead without saying so is not noticed otherwise.
	streamLife = time.Hour
)

// Events implements driver.EventSource by server-sent events (DSP0266, section 13.5). The stream uses the session of the other calls, and
// ends with it.
func (d *Driver) Events(ctx context.Context, n *node.Document) (driver.EventStream, error) {
	var uri, token string
	var from account
	err := d.pool.with(ctx, nil, n, "look for a stream of events", func(s *session, a account, c *gofish.APIClient) error {
		events, err := eventsOf(c)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(events.ServerSentEventURI, "/") {
			return fmt.Errorf("it has no stream of events: %w", driver.ErrUnsupported)
		}
		uri, from = events.ServerSentEventURI, a
		if s.token {
			open, err := c.GetSession()
			if err != nil {
				return err
			}
			token = open.Token
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	st, err := d.stream(ctx, from, uri, token)
	return st, explain(n, from, "open the stream of events", false, err)
}

// stream opens the stream at a path of the BMC. Its connection is its own, so that other calls go on beside it.
func (d *Driver) stream(ctx context.Context, a account, path, token string) (*eventStream, error) {
	o := d.pool.opts
	config, err := a.trust(o).TLS()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, streamLife)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.endpoint+path, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	switch {
	case token != "":
		req.Header.Set("X-Auth-Token", token)
	case a.user != "":
		req.SetBasicAuth(a.user, a.password)
	}
	transport := &http.Transport{DialContext: outbound.Dialer(o.ConnectTimeout, o.Networks.Check).DialContext, TLSClientConfig: config,
		TLSHandshakeTimeout: o.ConnectTimeout, ResponseHeaderTimeout: o.ReadTimeout, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	resp, err := (&http.Client{Transport: transport, CheckRedirect: bmc.SameHost}).Do(req)
	if err != nil {
		cancel()
		return nil, &bmc.Lost{Err: err}
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
		resp.Body.Close()
		cancel()
		return nil, fmt.Errorf("it answers %d with %.40q where its stream of events should be: %w", resp.StatusCode, kind, driver.ErrUnsupported)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4096), mostEvent)
	return &eventStream{body: resp.Body, lines: lines, end: cancel}, nil
}

// eventStream is a stream of server-sent events.
type eventStream struct {
	body  io.ReadCloser
	lines *bufio.Scanner
	end   context.CancelFunc
}

// Next implements driver.EventStream. Reports of metrics, which some BMCs stream all the time, are passed over.
func (s *eventStream) Next() ([]driver.BMCEvent, error) {
	var data []byte
	for s.lines.Scan() {
		line := s.lines.Bytes()
		if rest, is := bytes.CutPrefix(line, []byte("data:")); is {
			if len(data)+len(rest) > mostEvent {
				return nil, errors.New("an event of the BMC has no end")
			}
			data = append(data, rest...)
			continue
		}
		if len(line) > 0 || len(data) == 0 {
			continue // a comment, or another field
		}
		var e struct{ Events []json.RawMessage }
		if json.Unmarshal(data, &e) == nil && len(e.Events) > 0 {
			return eventsIn(data), nil
		}
		data = nil
	}
	if err := s.lines.Err(); err != nil {
		return nil, fmt.Errorf("the stream of events ends: %w", err)
	}
	return nil, io.EOF
}

// Close implements driver.EventStream.
func (s *eventStream) Close() error {
	s.end()
	return s.body.Close()
}
