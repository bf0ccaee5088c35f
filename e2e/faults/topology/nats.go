package topology

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/e2e/faults/process"
)

// Ports of a NATS server.
const (
	clientPort = 4222
	routePort  = 6222
	leafPort   = 7422
)

// Server is a NATS server. One of a site keeps JetStream's files in Store.
type Server struct {
	*process.Process
	Store string // empty: no JetStream
}

// Wipe empties the disk of a server that is down.
func (s *Server) Wipe() error {
	if s.PID() != 0 {
		return fmt.Errorf("%s runs; its disk cannot be wiped", s.Name())
	}
	return os.RemoveAll(s.Store)
}

// Cluster is NATS servers that are one bus.
type Cluster struct {
	Name    string
	Servers []*Server
}

// newCluster writes the configuration of a cluster. domain makes it a site's: with
// JetStream, and leaf links to hub.
func newCluster(p Programs, dir, name, domain string, hosts []*network.Host, hub *Cluster) (*Cluster, error) {
	c := &Cluster{Name: name}
	var routes []string
	for _, h := range hosts {
		routes = append(routes, "nats://"+h.At(routePort))
	}
	for _, h := range hosts {
		store := ""
		// A dead link must be noticed while it still matters; by default a server
		// waits for minutes.
		text := fmt.Sprintf("server_name: %s\nlisten: %q\nmax_payload: 8MB\nping_interval: \"2s\"\nping_max: 2\nwrite_deadline: \"5s\"\n",
			h.Name, h.At(clientPort))
		text += fmt.Sprintf("cluster { name: %s, listen: %q, routes: [%s], connect_retries: 1000000, ping_interval: \"2s\" }\n", name, h.At(routePort), quoted(routes))
		if domain == "" {
			text += fmt.Sprintf("leafnodes { listen: %q }\n", h.At(leafPort))
		} else {
			store = filepath.Join(dir, "store", h.Name)
			text += fmt.Sprintf("jetstream { store_dir: %q, domain: %s, sync_interval: always, max_memory_store: 64MB, max_file_store: 2GB }\n", store, domain)
			// Domains keep the sites' APIs apart, not their subjects: without these rules a
			// site would store what another's rackds write.
			text += fmt.Sprintf("leafnodes { reconnect: \"1s\", remotes: [ { urls: [%s], deny_imports: [%s], deny_exports: [%[2]s] } ] }\n",
				quoted(hub.leafURLs()), quoted([]string{"EVENTS.>", "$KV.>", "$O.>"}))
		}
		config := filepath.Join(dir, h.Name+".conf")
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return nil, err
		}
		c.Servers = append(c.Servers, &Server{Store: store, Process: process.New(process.Spec{Name: h.Name, Host: h, Path: p.NATS,
			Args: []string{"-c", config}, Env: thrifty, Log: filepath.Join(dir, h.Name+".log")})})
	}
	return c, nil
}

func quoted(list []string) string {
	return `"` + strings.Join(list, `", "`) + `"`
}

// URL lists the cluster's servers for clients.
func (c *Cluster) URL() string {
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, "nats://"+s.Host().At(clientPort))
	}
	return strings.Join(urls, ",")
}

// Hosts are the hosts of the cluster's servers.
func (c *Cluster) Hosts() (list []*network.Host) {
	for _, s := range c.Servers {
		list = append(list, s.Host())
	}
	return list
}

func (c *Cluster) leafURLs() (urls []string) {
	for _, s := range c.Servers {
		urls = append(urls, "nats-leaf://"+s.Host().At(leafPort))
	}
	return urls
}

// Connect connects as a client on one of the cluster's hosts; the caller closes it.
func (c *Cluster) Connect(name string) (*nats.Conn, error) {
	return nats.Connect(c.URL(), nats.Name(name), nats.SetCustomDialer(from{c.Servers[0].Host()}), nats.MaxReconnects(-1),
		nats.ReconnectWait(200*time.Millisecond), nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2), nats.RetryOnFailedConnect(true))
}

// from dials from a host.
type from struct{ host *network.Host }

func (f from) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return f.host.DialContext(ctx, network, address)
}

func (c *Cluster) start() error {
	for _, s := range c.Servers {
		if err := s.Start(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) close() {
	for _, s := range c.Servers {
		s.Close()
	}
}
