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
	"github.com/ironyard/ironyard/protocol/node"
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
	"github.com/ironyard/ironyard/rackd/strangers"
	"github.com/ironyard/ironyard/rackd/view"
)

// agentNodes is how many nodes wait for their agents.
const agentNodes = 1_000

// BenchmarkAgents prints how many lookups and heartbeats a second a rackd takes from
// agents, whose connections are kept open, with client and rackd in this process; and
// how many by itself, without TLS and sockets. None may be refused. The first heartbeat of
// each agent is measured apart: a checkpoint has the agent before it is answered.
func BenchmarkAgents(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	nodes := drawNodes([]string{"rackd-1"}, agentNodes)
	s := newSite(b, nodes)
	door, at := openDoor(b, s)
	r := &rack{site: s, ledger: follow(b, s), nodes: nodes, busy: nodes}
	r.until(b, time.Minute, "the rackd is in the ring", func() bool { return len(r.members) == 1 })
	r.load(ctx, b)

	overTLS := func() (net.Conn, error) { return tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true}) }
	measure := func(kind string, all []call) {
		b.Run(kind+"/tls", func(b *testing.B) {
			for b.Loop() {
				crowdOver(b, overTLS, window(b), func(c, i int) call { return all[(c*7919+i*104729)%agentNodes] }).report(b, kind)
			}
		})
		b.Run(kind+"/alone", func(b *testing.B) {
			var next atomic.Int64
			began := cpu()
			b.SetParallelism(clients / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := alone(door, all[int(next.Add(1))%agentNodes]); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), kind+"/s")
			b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N), "cpu-us/call")
		})
	}
	measure("lookups", lookups(nodes))
	heartbeats := r.heartbeats(b)
	first(b, door, heartbeats)
	measure("heartbeats", heartbeats)
}

// first measures the first heartbeat of each agent.
func first(b *testing.B, door http.Handler, all []call) {
	b.Helper()
	began, used := time.Now(), cpu()
	var g errgroup.Group
	g.SetLimit(clients)
	for _, c := range all {
		g.Go(func() error { return alone(door, c) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	took, used := time.Since(began), cpu()-used
	b.Run("first-heartbeats", func(b *testing.B) {
		for b.Loop() { // each agent has one
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(len(all))/took.Seconds(), "first-heartbeats/s")
		b.ReportMetric(float64(used.Microseconds())/float64(len(all)), "cpu-us/call")
	})
}

// alone asks without a connection.
func alone(door http.Handler, c call) error {
	w := &answer{header: http.Header{}}
	req, err := http.NewRequest(c.method, c.path, bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	if door.ServeHTTP(w, req); w.status != c.want {
		return fmt.Errorf("%s: HTTP status %d", c.path, w.status)
	}
	return nil
}

func lookups(nodes []string) (all []call) {
	for i := range nodes {
		all = append(all, call{method: http.MethodGet, path: agentapi.LookupPath + "?addresses=" + address(i, 0), want: http.StatusOK})
	}
	return all
}

func (r *rack) heartbeats(b *testing.B) (all []call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, id := range r.nodes {
		body := encode(b, agentapi.Heartbeat{CallbackURL: fmt.Sprintf("https://10.0.%d.%d:9999", i>>8, i&0xff), AgentVersion: "0.1.0",
			AgentToken: r.key.Token(id, r.ledger.works[id].doc.ID, 0), AgentVerifyCA: strings.Repeat("-", 700), BootID: "boot-" + id})
		all = append(all, call{method: http.MethodPost, path: agentapi.HeartbeatPath + id, body: body, want: http.StatusAccepted})
	}
	return all
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
	identities, err := agentdoor.NewIdentities(seal.NewKeyring(group, s.key), group, log)
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var c *conductor.Conductor
	groups := failover.New(s.Site, group, func() { c.RingChanged() }, log)
	m := metrics.New(prometheus.NewRegistry(), metrics.Sources{})
	documents := view.New(s.Site, seal.NewKeyring(group, s.key), groups, m, func(id string) { c.NodeChanged(id) }, log)
	members := lease.New(s.Site, bus.Member{Name: "rackd-1", Group: group, Documents: node.Format, Drivers: hardware.Describe()}, groups, documents.InStep,
		func() { c.RingChanged() }, log)
	c = conductor.New(conductor.Config{Name: "rackd-1", Group: group, Documents: documents, Members: members, Hardware: hardware.Registry,
		Keys: seal.NewKeyring(group, s.key), Metrics: m, Log: log, AutomatedClean: true, TrustFirstLookup: true,
		NewAgent:   func(string, func() []string, func() *work.Agent) driver.Agent { return nil },
		AgentLives: func(context.Context, work.Agent) bool { return false }})
	door := agentdoor.New(&forward.Desk{Local: c, Members: members, Conn: s.Conn, Metrics: m},
		func(error) int { return http.StatusInternalServerError }, strangers.New(strangers.Budget{}, nil, log), log)

	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return groups.Run(ctx) })
	g.Go(func() error { return documents.Run(ctx) })
	g.Go(func() error { return members.Run(ctx) })
	g.Go(func() error { return c.Run(ctx) })
	g.Go(func() error { return door.Serve(ctx, listener, identities) })
	b.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			b.Error(err)
		}
	})
	return door.Handler(), listener.Addr().String()
}
