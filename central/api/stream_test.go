package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// streams serves the bench over loopback, with a feed that runs.
func (b *bench) streams(c feed.Config) (url string) {
	b.t.Helper()
	c.Store, c.Log = b.store, b.server.Log
	f := feed.New(c)
	b.server.Feed = f
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	server := httptest.NewUnstartedServer(b.server)
	server.Config.WriteTimeout = time.Nanosecond // bounds other answers than streams, which go on
	server.Start()
	b.t.Cleanup(func() {
		cancel() // which ends the streams
		if err := <-ended; err != nil {
			b.t.Errorf("the feed ended: %v", err)
		}
		server.Close()
	})
	return server.URL
}

// event is one of a stream.
type event struct {
	id, kind, data string
}

// reader reads a stream of server-sent events.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

func openStream(t *testing.T, url string, headers ...string) *reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, lines: bufio.NewScanner(res.Body), close: func() { cancel(); res.Body.Close() }}
	t.Cleanup(r.close)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d", url, res.StatusCode)
	}
	return r
}

// next returns the next event that has data.
func (r *reader) next() event {
	r.t.Helper()
	var e event
	for r.lines.Scan() {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch {
		case name == "id":
			e.id = value
		case name == "event":
			e.kind = value
		case name == "data":
			e.data = value
		case name == "" && e.data != "":
			return e
		}
	}
	r.t.Fatalf("the stream ended: %v", r.lines.Err())
	return e
}

// until reads up to an event of a kind, and returns it.
func (r *reader) until(kind string) event {
	r.t.Helper()
	for {
		if e := r.next(); e.kind == kind {
			return e
		}
	}
}

func nodeOf(t *testing.T, e event) map[string]any {
	t.Helper()
	var body struct{ Node map[string]any }
	if err := json.Unmarshal([]byte(e.data), &body); err != nil {
		t.Fatalf("%v: %s", err, e.data)
	}
	return body.Node
}

// A watch shows what there is, then what changes, each to the filter; who comes back
// reads on.
func TestWatchNodes(t *testing.T) {
	b := newBench(t)
	url := b.streams(feed.Config{})
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"22222222-2222-4333-8444-555555555555","name":"n2","driver":"fake-hardware","resource_class":"big"}`)
	all := openStream(t, url+"/v1/nodes?watch=true&fields=name,provision_state,driver_info")
	big := openStream(t, url+"/v1/nodes?watch&resource_class=big")
	first, second := nodeOf(t, all.next()), nodeOf(t, all.next())
	if first["name"] != "n1" || second["name"] != "n2" || all.next().kind != "synced" {
		t.Errorf("the stream begins with %v, %v", first, second)
	}
	if strings.Contains(big.until("synced").data, `"nodes":0`) {
		t.Error("the filtered stream found nothing")
	}
	b.move("n1", provision.Available, provision.NoState, nil)
	e := all.next()
	if n := nodeOf(t, e); e.kind != "changed" || n["provision_state"] != "available" || strings.Contains(e.data, "sesame") || n["properties"] != nil {
		t.Errorf("after the change: %+v", e)
	}
	// n1 enters the filter, and leaves it.
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/resource_class","value":"big"}]`)
	if e := big.until("added"); nodeOf(t, e)["uuid"] != nodeID {
		t.Errorf("a node that fits now: %+v", e)
	}
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"remove","path":"/resource_class"}]`)
	// What changed before it entered may be told behind that: nodes are shown as they are when a change is read.
	e = big.next()
	for e.kind == "changed" && nodeOf(t, e)["uuid"] == nodeID {
		e = big.next()
	}
	if e.kind != "removed" || e.data != `{"node":{"uuid":"`+nodeID+`"}}` {
		t.Errorf("a node that fits no more: %+v", e)
	}
	last := all.until("changed")
	all.close()
	b.want(204, "DELETE", "/v1/nodes/n1", "1.115", "")
	again := openStream(t, url+"/v1/nodes?watch=true&fields=name", "Last-Event-ID", last.id)
	if e := again.until("removed"); nodeOf(t, e)["uuid"] != nodeID {
		t.Errorf("after coming back: %+v", e)
	}
}

// A single node is watched by name; other nodes' changes do not show.
func TestWatchNode(t *testing.T) {
	b := newBench(t)
	url := b.streams(feed.Config{})
	b.addNode()
	r := openStream(t, url+"/v1/nodes/n1?watch=true&fields=power_state")
	r.until("synced")
	b.want(201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware"}`)
	b.power("power on")
	if e := r.next(); e.kind != "changed" || nodeOf(t, e)["power_state"] != "power on" {
		t.Errorf("after a report of the rack: %+v", e)
	}
	b.want(404, "GET", "/v1/nodes/other?watch=true", "1.115", "")
}

// power reports a power state as ingest does.
func (b *bench) power(state string) {
	b.t.Helper()
	err := b.store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		seen, err := tx.Observed(ctx, []string{nodeID})
		if err != nil {
			return err
		}
		seen[nodeID].PowerState = state
		return tx.SaveObserved(ctx, []*store.Node{seen[nodeID]})
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// Without text/event-stream each line is a JSON object.
func TestWatchInLines(t *testing.T) {
	b := newBench(t)
	url := b.streams(feed.Config{})
	b.addNode()
	r := openStream(t, url+"/v1/nodes?watch=true&fields=name", "Accept", "*/*")
	for _, want := range []string{"existing", "synced"} {
		if !r.lines.Scan() {
			t.Fatal("the stream ended")
		}
		var line struct {
			ID   *int64
			Type string
		}
		if err := json.Unmarshal(r.lines.Bytes(), &line); err != nil || line.ID == nil || line.Type != want {
			t.Errorf("line %s, error %v, want %s", r.lines.Text(), err, want)
		}
	}
	out := &stream{}
	out.alive(7)
	if got := string(out.buf); got != "{\"id\":7,\"type\":\"bookmark\"}\n" {
		t.Errorf("a sign of life is %q", got)
	}
}

// Notifications are Ironic's, in order, with what held at the time.
func TestNotifications(t *testing.T) {
	b := newBench(t)
	url := b.streams(feed.Config{})
	r := openStream(t, url+"/v1/notifications")
	failures := openStream(t, url+"/v1/notifications?level=error")
	provisioning := openStream(t, url+"/v1/notifications?event_type=baremetal.node.provision&node="+nodeID)
	b.addNode()
	b.want(201, "POST", "/v1/ports", "1.115", `{"uuid":"aaaaaaaa-2222-4333-8444-555555555555","node_uuid":"`+nodeID+`","address":"AA:BB:CC:DD:EE:01"}`)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/maintenance","value":false}]`)
	b.want(202, "PUT", "/v1/nodes/n1/maintenance", "1.115", `{"reason":"fans"}`)
	b.want(202, "DELETE", "/v1/nodes/n1/maintenance", "1.115", "")
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	b.move("n1", provision.Enroll, provision.NoState, nil) // the verification has failed
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(202, "PUT", "/v1/nodes/n1/states/power", "1.115", `{"target":"power on"}`)
	b.move("n1", provision.CleanFail, provision.Manageable, nil)
	b.want(204, "DELETE", "/v1/ports/aaaaaaaa-2222-4333-8444-555555555555", "1.115", "")
	var last event
	ids := map[string]bool{}
	for _, want := range []string{"node.create.start", "node.create.end", "port.create.start", "port.create.end", "node.update.start", "node.update.end",
		"node.maintenance_set.start", "node.maintenance_set.end", "node.maintenance_set.start", "node.maintenance_set.end",
		"node.provision_set.start", "node.provision_set.error", "node.provision_set.start", "node.provision_set.end", "node.power_set.start", "node.provision_set.error", "port.delete.start", "port.delete.end"} {
		e := r.next()
		var m message
		if err := json.Unmarshal([]byte(e.data), &m); err != nil || e.kind != "baremetal."+want || m.Type != e.kind || m.Payload.Data["uuid"] == nil {
			t.Fatalf("%+v, error %v, want %s", e, err, want)
		}
		if strings.Contains(e.data, "sesame") {
			t.Errorf("a secret is in %s", e.data)
		}
		if ids[m.ID] {
			t.Errorf("message id %s is there twice", m.ID)
		}
		ids[m.ID] = true
		switch want {
		case "node.provision_set.start":
			d := m.Payload.Data
			if d["previous_provision_state"] != "enroll" || d["provision_state"] != "verifying" || d["target_provision_state"] != "manageable" || d["name"] != "n1" {
				t.Errorf("the payload says %v", d)
			}
			last = e
		case "node.power_set.start":
			if m.Payload.Data["to_power"] != "power on" || m.Payload.Name != "NodeSetPowerStatePayload" {
				t.Errorf("the payload says %v", m.Payload)
			}
		}
	}
	if e := failures.next(); e.kind != "baremetal.node.provision_set.error" || !strings.Contains(e.data, `"priority":"ERROR"`) {
		t.Errorf("errors only: %+v", e)
	}
	if e := provisioning.next(); e.kind != "baremetal.node.provision_set.start" {
		t.Errorf("filtered: %+v", e)
	}
	if e := openStream(t, url+"/v1/notifications", "Last-Event-ID", last.id).next(); e.kind != "baremetal.node.provision_set.end" {
		t.Errorf("after coming back: %+v", e)
	}
	// In the middle of a change with two phases.
	if e := openStream(t, url+"/v1/notifications?last_event_id=1").next(); e.kind != "baremetal.node.create.end" {
		t.Errorf("after the first: %+v", e)
	}
}

func TestStreamRefusals(t *testing.T) {
	b := newBench(t)
	b.want(503, "GET", "/v1/notifications", "", "")
	url := b.streams(feed.Config{Followers: 1})
	for path, status := range map[string]int{
		"/v1/notifications?level=loud": 400, "/v1/notifications?foo=1": 400, "/v1/notifications?node=nobody": 404,
		"/v1/notifications?last_event_id=x": 400, "/v1/notifications?last_event_id=99999": 410,
		"/v1/nodes?watch=perhaps": 400, "/v1/nodes?watch=true&limit=1": 400, "/v1/nodes?watch=true&foo=1": 400, "/v1/nodes?watch=false": 200,
	} {
		b.want(status, "GET", path, "1.115", "")
	}
	openStream(t, url+"/v1/notifications")
	b.want(503, "GET", "/v1/nodes?watch=true", "1.115", "")
}

// A reader that does not read is cut when what it was sent is not taken in time; one
// that has nothing to read hears that the stream lives. Time is the test's.
func TestWriteDeadline(t *testing.T) {
	w := &stuck{}
	out := &stream{w: w, flush: http.NewResponseController(w), events: true}
	out.event(1, "x", []byte("{}"))
	before := time.Now()
	if err := out.send(); err == nil {
		t.Error("writing to a reader that does not read worked")
	}
	if w.deadline.Before(before.Add(writeWithin)) || w.deadline.After(time.Now().Add(writeWithin)) {
		t.Errorf("deadline %v", w.deadline)
	}
}

// stuck is a connection that nobody reads.
type stuck struct {
	http.ResponseWriter
	deadline time.Time
}

func (s *stuck) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }
func (s *stuck) Write([]byte) (int, error)          { return 0, context.DeadlineExceeded }
func (s *stuck) Flush()                             {}
