package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/agentdoor"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/drivers"
	"github.com/ironyard/ironyard/rackd/failover"
	"github.com/ironyard/ironyard/rackd/forward"
	"github.com/ironyard/ironyard/rackd/lease"
	"github.com/ironyard/ironyard/rackd/metrics"
	"github.com/ironyard/ironyard/rackd/view"
)

// agentNodes is how many nodes wait for their agents.
const agentNodes = 1_000

// BenchmarkAgents prints how many lookups and heartbeats a second a rackd takes from
// agents, whose connections are kept open, with client and rackd in this process; and
// how many by itself, without TLS and sockets.
func BenchmarkAgents(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	nodes := drawNodes([]string{"rackd-1"}, agentNodes)
	s := newSite(b, nodes)
	door, at := openDoor(b, s)
	r := &rack{site: s, ledger: follow(b, s), nodes: nodes, busy: nodes}
	r.until(b, time.Minute, "the rackd is in the ring", func() bool { return len(r.members) == 1 })
	r.load(ctx, b)

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	overTLS := func(req *http.Request, want int) error {
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != want {
			return fmt.Errorf("%s: HTTP status %d", req.URL.Path, resp.StatusCode)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	alone := func(req *http.Request, want int) error {
		w := &answer{header: http.Header{}}
		if door.ServeHTTP(w, req); w.status != want {
			return fmt.Errorf("%s: HTTP status %d", req.URL.Path, w.status)
		}
		return nil
	}
	calls := map[string]func(i int) (*http.Request, int){
		"lookups":    func(i int) (*http.Request, int) { return lookup(b, at, i), http.StatusOK },
		"heartbeats": func(i int) (*http.Request, int) { return r.heartbeat(b, at, i), http.StatusAccepted },
	}
	for _, what := range []string{"lookups", "heartbeats"} { // a heartbeat follows a lookup
		for _, way := range []struct {
			name string
			do   func(*http.Request, int) error
		}{{"tls", overTLS}, {"alone", alone}} {
			b.Run(what+"/"+way.name, func(b *testing.B) {
				var next atomic.Int64
				b.SetParallelism(8)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := way.do(calls[what](int(next.Add(1)) % agentNodes)); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), what+"/s")
			})
		}
	}
}

func lookup(b *testing.B, at string, i int) *http.Request {
	req, err := http.NewRequest(http.MethodGet, "https://"+at+agentapi.LookupPath+"?addresses="+address(i, 0), nil)
	if err != nil {
		b.Fatal(err)
	}
	return req
}

func (r *rack) heartbeat(b *testing.B, at string, i int) *http.Request {
	id := r.nodes[i]
	r.mu.Lock()
	token := r.key.Token(id, r.ledger.works[id].doc.ID)
	r.mu.Unlock()
	body := encode(b, agentapi.Heartbeat{CallbackURL: fmt.Sprintf("https://10.0.%d.%d:9999", i>>8, i&0xff), AgentVersion: "0.1.0", AgentToken: token,
		AgentVerifyCA: strings.Repeat("-", 700), BootID: "boot-" + id})
	req, err := http.NewRequest(http.MethodPost, "https://"+at+agentapi.HeartbeatPath+id, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	return req
}

// answer keeps the status of an answer.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(p []byte) (int, error) { return len(p), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

// openDoor runs, in this process, what a rackd answers agents with, and returns its
// handler and where it listens.
func openDoor(b *testing.B, s *site) (http.Handler, string) {
	b.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	hardware, err := drivers.Open(drivers.Options{Enabled: []string{driverName}, Log: log})
	if err != nil {
		b.Fatal(err)
	}
	identity, err := agentdoor.NewIdentity(s.key)
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var c *conductor.Conductor
	groups := failover.New(s.Site, group, func() { c.RingChanged() }, log)
	documents := view.New(s.Site, groups, func(id string) { c.NodeChanged(id) }, log)
	members := lease.New(s.Site, bus.Member{Name: "rackd-1", Group: group, Drivers: hardware.Describe()}, groups, documents.InStep,
		func() { c.RingChanged() }, log)
	m := metrics.New(prometheus.NewRegistry(), metrics.Sources{})
	c = conductor.New(conductor.Config{Name: "rackd-1", Group: group, Documents: documents, Members: members, Hardware: hardware.Registry,
		Keys: seal.NewKeyring(group, s.key), Metrics: m, Log: log, AutomatedClean: true,
		NewAgent: func(string, string, func() *work.Agent) driver.Agent { return nil }})
	door := agentdoor.New(&forward.Desk{Local: c, Members: members, Conn: s.Conn, Metrics: m},
		func(error) int { return http.StatusInternalServerError }, log)

	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return groups.Run(ctx) })
	g.Go(func() error { return documents.Run(ctx) })
	g.Go(func() error { return members.Run(ctx) })
	g.Go(func() error { return c.Run(ctx) })
	g.Go(func() error { return door.Serve(ctx, listener, identity) })
	b.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			b.Error(err)
		}
	})
	return door.Handler(), listener.Addr().String()
}
