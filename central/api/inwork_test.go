package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// slowRack answers when it is let.
type slowRack struct{ asked, answer chan struct{} }

func (r *slowRack) Ask(context.Context, bus.Member, ask.Request) (json.RawMessage, error) {
	r.asked <- struct{}{}
	<-r.answer
	return json.RawMessage(`{"boot_device":"pxe","persistent":false}`), nil
}

// Requests beyond the bound are turned away at once, and may come back.
func TestRequestsInWorkAreBounded(t *testing.T) {
	b := newBench(t)
	b.addNode()
	cfg, rack := b.server.Config, &slowRack{make(chan struct{}), make(chan struct{})}
	cfg.Ask, cfg.MaxRequests, cfg.routed = rack, 2, nil
	b.server = New(cfg)
	var waiting sync.WaitGroup
	const slow = "/v1/nodes/n1/management/boot_device"
	for range 2 {
		other := *b // for what it keeps of the last request
		waiting.Go(func() {
			if a := other.do("GET", slow, "1.115", ""); a.StatusCode != 200 {
				t.Errorf("a request within the bound: status %d: %s", a.StatusCode, a.body)
			}
		})
	}
	for range 2 {
		<-rack.asked
	}
	before := b.snapshot()
	for _, q := range []struct{ method, path, body string }{{"GET", "/v1/nodes", ""}, {"POST", "/v1/nodes", `{"driver":"fake-hardware"}`}, {"GET", "/nowhere", ""}} {
		a := b.want(503, q.method, q.path, "1.115", q.body)
		if a.Header.Get("Retry-After") != "1" || !strings.Contains(a.fault(t), "please retry") {
			t.Errorf("%s %s: headers %v, body %s", q.method, q.path, a.Header, a.body)
		}
		checkHeaders(t, q.path, a, true)
	}
	if b.snapshot() != before || len(b.strings("SELECT status, method FROM audit WHERE status = 503")) != 0 {
		t.Error("who was turned away has made the database work")
	}
	b.want(200, "GET", "/healthcheck", "", "")
	close(rack.answer)
	waiting.Wait()
	b.want(200, "GET", "/v1/nodes", "1.115", "")
	for limit, bound := range map[int]int64{0: DefaultMaxRequests, -1: 0, 7: 7} {
		if got := newInWork(limit).max; got != bound {
			t.Errorf("a configuration of %d bounds to %d, want %d", limit, got, bound)
		}
	}
}

// Agents that are known take up half of what may be worked on at most. Bodies that trickle in take up none of it, neither
// from agents nor from callers who are known.
func TestAgentsTakeUpHalf(t *testing.T) {
	b, _ := ramdiskBench(t, provision.DeployWait, nil)
	rack := &slowRack{make(chan struct{}), make(chan struct{})}
	cfg := b.server.Config
	cfg.Ask, cfg.MaxRequests, cfg.routed = rack, 4, nil
	b.server = New(cfg)
	b.server.agents.learn(nodeID, "s3cret")
	var waiting sync.WaitGroup
	body, trickle := io.Pipe()
	read := make(chan struct{}, 2)
	for range 2 {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/heartbeat/"+nodeID, tellingReader{body, read})
		r.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
		waiting.Go(func() { b.server.ServeHTTP(httptest.NewRecorder(), r) })
	}
	for range 2 {
		<-read
	}
	const path, beat = "/v1/heartbeat/" + nodeID, `{"callback_url":"http://x","agent_version":"1","agent_token":"s3cret"}`
	for range 2 {
		other := *b // for what it keeps of the last request
		waiting.Go(func() {
			if a := other.do("POST", path, "1.115", beat); a.StatusCode != 202 {
				t.Errorf("a heartbeat within the bound: status %d: %s", a.StatusCode, a.body)
			}
		})
	}
	for range 2 {
		<-rack.asked
	}
	if a := b.want(503, "POST", path, "1.115", beat); a.Header.Get("Retry-After") != "1" {
		t.Errorf("headers %v", a.Header)
	}
	if len(b.strings("SELECT status, method FROM audit WHERE status = 503")) != 0 {
		t.Error("what was turned away is in the audit")
	}
	b.want(200, "GET", "/v1/nodes/n1", "1.115", "")
	close(rack.answer)
	trickle.Close()
	waiting.Wait()
	b.want(400, "POST", path, "1.115", `{"callback_url":"http://x"}`)
}

// tellingReader tells when it is read.
type tellingReader struct {
	io.Reader
	read chan<- struct{}
}

func (r tellingReader) Read(b []byte) (int, error) {
	select {
	case r.read <- struct{}{}:
	default:
	}
	return r.Reader.Read(b)
}

func TestHealthcheck(t *testing.T) {
	b := newBench(t)
	b.server.Auth = wordOf{} // nobody has to say who they are
	if a := b.want(200, "GET", "/healthcheck", "9.9", ""); a.body != "OK" || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%q, headers %v", a.body, a.Header)
	}
	if a := b.do("GET", "/healthcheck", "", "", "Accept", "application/json"); a.body != `{"detailed":false,"reasons":["OK"]}` {
		t.Errorf("as JSON: %s", a.body)
	}
	if a := b.want(200, "HEAD", "/healthcheck", "", ""); a.body != "" {
		t.Errorf("HEAD: %q", a.body)
	}
	b.want(405, "POST", "/healthcheck", "", "{}")
	b.want(401, "GET", "/v1/healthcheck", "1.115", "")
	gone, err := store.Open(t.Context(), "sqlite:"+t.TempDir()+"/gone.db", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	b.server.Store = gone
	if a := b.want(503, "GET", "/healthcheck", "", ""); strings.Contains(a.body, "sqlite") || !strings.Contains(a.body, "database") {
		t.Errorf("without its database: %q", a.body)
	}
}
