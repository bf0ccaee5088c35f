package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// busIn runs a bus in dir until stop. Its streams are made before anything uses it: a
// server that is stopped while it makes one leaves the goroutines of that stream behind.
func busIn(t *testing.T, dir string) (conn *nats.Conn, site *bus.Site, stop func()) {
	t.Helper()
	srv, stopServer := bustest.Server(t, filepath.Join(dir, "bus"))
	conn = bustest.Connect(t, srv)
	site, err := bus.Open(t.Context(), conn, "", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return conn, site, func() { conn.Close(); stopServer() }
}

// start runs central on a bus and a database in dir until stop.
func start(t *testing.T, dir string, key *seal.Key) (info daemon.Info, site *bus.Site, stop func()) {
	t.Helper()
	conn, site, stopBus := busIn(t, dir)
	info, stop = startOn(t, dir, key, conn, stopBus)
	return info, site, stop
}

// startOn runs central on a bus that is there, and a database in dir, until stop, which stops the bus too.
func startOn(t *testing.T, dir string, key *seal.Key, conn *nats.Conn, stopBus func()) (info daemon.Info, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan daemon.Info, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{Database: "sqlite:" + filepath.Join(dir, "central.db"), Listen: "127.0.0.1:0", Key: key,
			Conn: conn, Log: slog.New(slog.DiscardHandler)}, func(i daemon.Info) { ready <- i })
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("central ended: %v", err)
		}
		stopBus()
	}
	t.Cleanup(stop)
	select {
	case info = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("central ended at once: %v", err)
	}
	return info, stop
}

// ask sends a request at microversion 1.82.
func ask(t *testing.T, method, url, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.82")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// rackd is the smallest one there can be: alive, and ending each work well.
type rackd struct {
	t    *testing.T
	site *bus.Site
}

// announce says that the rackd is alive, and renews its lease as one does, until gone or the end of the test.
func (r rackd) announce() (gone func()) {
	r.t.Helper()
	me := bus.Member{Name: "r", Instance: "1", Documents: node.Format, Drivers: map[string]map[string][]string{"fake-hardware": {}}}
	for _, kind := range node.InterfaceKinds {
		me.Drivers["fake-hardware"][kind] = []string{"fake"}
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	renew := func() error {
		_, rev, err := r.site.Announced(ctx, "", me.Name)
		if err == nil {
			_, err = r.site.Announce(ctx, me, rev)
		}
		return err
	}
	if err := renew(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(bus.LeaseTTL / 6)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := renew(); err != nil && ctx.Err() == nil {
				r.t.Logf("renew the lease: %v", err)
			}
		}
	}()
	gone = sync.OnceFunc(func() { cancel(); <-ended })
	r.t.Cleanup(gone)
	return gone
}

// next returns the next open work of a node.
func (r rackd) next(id string) (work.Document, uint64) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	watch, err := r.site.Work.Watch(ctx, bus.NodeKey("", id))
	if err != nil {
		r.t.Fatal(err)
	}
	defer watch.Stop()
	for {
		select {
		case e := <-watch.Updates():
			var d work.Document
			if e != nil && json.Unmarshal(e.Value(), &d) == nil && d.ID != "" && d.Open() {
				return d, e.Revision()
			}
		case <-ctx.Done():
			r.t.Fatalf("no work for node %s came to the site", id)
		}
	}
}

// end ends a work in a state, as a rackd does: document first, then event.
func (r rackd) end(d work.Document, rev uint64, state string, power string) {
	r.t.Helper()
	d.Owner, d.Epoch, d.Seq = "r", d.Epoch+1, 1
	d.Result = &work.Result{OK: true, At: time.Now().UTC()}
	body, _ := json.Marshal(d)
	if _, err := r.site.Work.Update(r.t.Context(), bus.NodeKey("", d.Node), body, rev); err != nil {
		r.t.Fatal(err)
	}
	if power != "" {
		r.publish(fmt.Sprintf(`{"id":"p-%s","kind":"power","node":%q,"rackd":"r","power":%q,"time":%q}`, d.ID, d.Node, power, d.Result.At.Format(time.RFC3339Nano)), d.Node)
	}
	e := work.Event{ID: work.EventID(d.ID, d.Epoch, 1), Kind: work.WorkEnded, Node: d.Node, Rackd: "r", Time: d.Result.At, Work: d.ID, Verb: d.Verb,
		Generation: d.Generation, Epoch: d.Epoch, Seq: 1}
	text, _ := json.Marshal(e)
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		r.t.Fatal(err)
	}
	fields["state"] = state
	text, _ = json.Marshal(fields)
	r.publish(string(text), d.Node)
}

func (r rackd) publish(text, id string) {
	r.t.Helper()
	if _, err := r.site.JS.Publish(r.t.Context(), bus.EventSubject("", id), []byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

// until asks for a node until its answer contains every part.
func until(t *testing.T, url string, parts ...string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		_, text := ask(t, "GET", url, "")
		missing := false
		for _, p := range parts {
			missing = missing || !strings.Contains(text, p)
		}
		if !missing {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s never answers %q: %s", url, parts, text)
		}
	}
}

// A request goes to the site and its result comes back; a restart goes on, with a
// request that came in the last moment and one that ended meanwhile.
func TestRequestsCrossTheBusAndSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	info, site, stop := start(t, dir, key)
	rack := rackd{t, site}
	gone := rack.announce()
	wait, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := info.Roster.WaitFor(wait, func(m []bus.Member) bool { return len(m) == 1 }); err != nil {
		t.Fatal(err)
	}
	status, text := ask(t, "POST", info.Endpoint+"/v1/nodes", `{"driver":"fake-hardware","name":"n","driver_info":{"fake_password":"hunter2"}}`)
	if status != http.StatusCreated {
		t.Fatalf("create: %d %s", status, text)
	}
	var created struct{ UUID string }
	if err := json.Unmarshal([]byte(text), &created); err != nil {
		t.Fatal(err)
	}
	url := info.Endpoint + "/v1/nodes/n"
	if status, text := ask(t, "PUT", url+"/states/provision", `{"target":"manage"}`); status != http.StatusAccepted {
		t.Fatalf("manage: %d %s", status, text)
	}
	d, rev := rack.next(created.UUID)
	until(t, url, `"provision_state":"verifying"`, `"reservation":"r"`)
	rack.end(d, rev, "manageable", "power off")
	until(t, url, `"provision_state":"manageable"`, `"power_state":"power off"`, `"reservation":null`)

	until(t, info.ObserveEndpoint+"/metrics", "ironyard_central_events_applied_total") // counted after the commit
	for path, part := range map[string]string{"/readyz": `site "": ok`, "/healthz": "database: ok"} {
		if status, text := ask(t, "GET", info.ObserveEndpoint+path, ""); status != http.StatusOK || !strings.Contains(text, part) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text := ask(t, "PUT", url+"/states/provision", `{"target":"provide"}`); status != http.StatusAccepted {
		t.Fatalf("provide: %d %s", status, text)
	}
	d, rev = rack.next(created.UUID)
	gone()
	stop()

	info, site, stop = start(t, dir, key)
	rack = rackd{t, site}
	gone = rack.announce()
	again, rev2 := rack.next(created.UUID)
	if again.ID != d.ID || rev2 != rev {
		t.Errorf("work %s at %d before the restart, %s at %d after it", d.ID, rev, again.ID, rev2)
	}
	rack.end(again, rev2, "available", "")
	until(t, info.Endpoint+"/v1/nodes/n", `"provision_state":"available"`)
	gone()
	stop()

	data, err := os.ReadFile(filepath.Join(dir, "central.db"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("hunter2")) {
		t.Error("the database holds an open secret")
	}
}

// The first request that the API answers is taken, whatever it is: central knows by then how its sites are and which rackds live.
func TestFirstRequestIsTaken(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conn, site, stopBus := busIn(t, dir)
	gone := rackd{t, site}.announce()
	for i := range 5 {
		info, stop := startOn(t, filepath.Join(dir, "bus"), key, conn, func() {})
		if status, text := ask(t, "POST", info.Endpoint+"/v1/nodes", fmt.Sprintf(`{"driver":"fake-hardware","name":"n%d"}`, i)); status != http.StatusCreated {
			t.Errorf("start %d: the first request: %d %s", i, status, text)
		}
		stop()
	}
	gone()
	stopBus()
}

func TestConfigIsChecked(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	good := daemon.Config{Database: "sqlite:" + filepath.Join(t.TempDir(), "x.db"), Listen: "127.0.0.1:0", Key: key, BusURL: "nats://127.0.0.1:1"}
	for name, spoil := range map[string]func(*daemon.Config){
		"database":   func(c *daemon.Config) { c.Database = "" },
		"grace":      func(c *daemon.Config) { c.OrphanGrace = -1 },
		"oracle":     func(c *daemon.Config) { c.Database = "oracle://u:hunter2@h/x" },
		"secret key": func(c *daemon.Config) { c.Key = nil },
		"bus":        func(c *daemon.Config) { c.BusURL = "" },
		"URL 1":      func(c *daemon.Config) { c.BusURL = "nats://u:hunter2%@h:4222" },
		"without authentication": func(c *daemon.Config) {
			c.Listen = "0.0.0.0:0"
		},
		"--tls-cert":              func(c *daemon.Config) { c.TLSCert = "x" },
		`host "a.b:80"`:           func(c *daemon.Config) { c.Hosts = []string{"a.b:80"} },
		`host ""`:                 func(c *daemon.Config) { c.Hosts = []string{""} },
		`--cors-origin "*"`:       func(c *daemon.Config) { c.CORSOrigins = []string{"*"} },
		`--cors-origin "ui.lab"`:  func(c *daemon.Config) { c.CORSOrigins = []string{"ui.lab"} },
		`endpoint "api.lab:6385"`: func(c *daemon.Config) { c.PublicEndpoint = "api.lab:6385" },
		`endpoint "https://"`:     func(c *daemon.Config) { c.PublicEndpoint = "https://" },
		`step "send_raw"`:         func(c *daemon.Config) { c.DisallowedSteps = []string{"send_raw"} },
		`step "vendors.send_raw"`: func(c *daemon.Config) { c.DisallowedSteps = []string{"vendors.send_raw"} },
		"--replicas 7":            func(c *daemon.Config) { c.Sites = []sites.Site{{Settings: bus.Settings{Replicas: 7}}} },
		"deploy -1":               func(c *daemon.Config) { c.Nodes.Limits.Deploys = -1 },
		"--discovery-limit":       func(c *daemon.Config) { c.Discovery = api.Discovery{Driver: "redfish", Most: -1} },
		"--no-ramdisk-endpoints":  func(c *daemon.Config) { c.Discovery, c.NoRamdiskEndpoints = api.Discovery{Driver: "redfish"}, true },
	} {
		cfg := good
		spoil(&cfg)
		err := daemon.Run(t.Context(), cfg, nil)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// With its bus away central serves and says so; requests wait in the outbox.
func TestBusIsAway(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan daemon.Info, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{Database: "sqlite:" + filepath.Join(t.TempDir(), "x.db"), Listen: "127.0.0.1:0", Observe: "127.0.0.1:0",
			Key: key, BusURL: "nats://127.0.0.1:1", Log: slog.New(slog.DiscardHandler)}, func(i daemon.Info) { ready <- i })
	}()
	info := <-ready
	if status, text := ask(t, "GET", info.ObserveEndpoint+"/readyz", ""); status != http.StatusOK || !strings.Contains(text, "bus: away") {
		t.Errorf("readyz: %d %s", status, text)
	}
	if status, _ := ask(t, "GET", info.Endpoint+"/v1/nodes", ""); status != http.StatusOK {
		t.Errorf("list: %d", status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Notifications are on the bus when that is asked for, and streams end with central.
func TestNotificationsOnTheBus(t *testing.T) {
	dir := t.TempDir()
	conn, _, stopBus := busIn(t, dir)
	defer stopBus()
	heard, err := conn.SubscribeSync(bus.NotificationSubject("baremetal.chassis.>"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan daemon.Info, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{Database: "sqlite:" + filepath.Join(dir, "x.db"), Listen: "127.0.0.1:0", Key: key,
			Conn: conn, NotificationLevel: "info", Log: slog.New(slog.DiscardHandler)}, func(i daemon.Info) { ready <- i })
	}()
	info := <-ready
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(info.Endpoint + "/v1/notifications")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("stream: %v, error %v", res, err)
	}
	defer res.Body.Close()
	if status, text := ask(t, "POST", info.Endpoint+"/v1/chassis", `{"description":"row 7"}`); status != http.StatusCreated {
		t.Fatalf("create: %d %s", status, text)
	}
	for _, want := range []string{"NOTIFY.baremetal.chassis.create.start", "NOTIFY.baremetal.chassis.create.end"} {
		m, err := heard.NextMsg(10 * time.Second)
		if err != nil || m.Subject != want || !strings.Contains(string(m.Data), `"event_type":"`+strings.TrimPrefix(want, "NOTIFY.")+`"`) {
			t.Fatalf("%v, error %v, want %s", m, err, want)
		}
	}
	lines := bufio.NewScanner(res.Body)
	for told := false; !told; told = strings.Contains(lines.Text(), `"type":"baremetal.chassis.create.end"`) {
		if !lines.Scan() {
			t.Fatalf("the stream ended without the news: %v", lines.Err())
		}
	}
	cancel()
	if rest, err := io.ReadAll(res.Body); err != nil {
		t.Errorf("after central's end the stream held %s, error %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
