package topology

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/e2e/faults/process"
)

// SiteConfig describes a site.
type SiteConfig struct {
	Name   string // its JetStream domain too
	Groups []GroupConfig
}

// GroupConfig describes a conductor group of a site.
type GroupConfig struct {
	Name     string
	Rackds   int
	Failover []string
	Machines int // nodes that the group's rackds serve
}

// Site is a site's bus, rackds and link.
type Site struct {
	Name   string
	Bus    *Cluster
	Rackds []*Rackd
	// Machines are the site's machines.
	Machines *Machines
	// WAN joins the site to the hub.
	WAN *network.Cable
	// Switch is where the site's hosts meet.
	Switch *network.Switch

	machineGroups []string // by machine number
}

// Rackd is one conductor.
type Rackd struct {
	*process.Process
	Group string
	web   http.Client
}

const observePort = 9411

func (t *Topology) newSite(core *network.Switch, number int, cfg SiteConfig) (*Site, error) {
	at, err := t.newSwitch(cfg.Name)
	if err != nil {
		return nil, err
	}
	s := &Site{Name: cfg.Name, Switch: at}
	if s.WAN, err = network.Connect(fmt.Sprintf("wan%d", number), core, at, t.cfg.Seed+uint64(number)); err != nil {
		return s, err
	}
	hosts, err := t.hostsOf(at, cfg.Name+"n", number, 11)
	if err != nil {
		return s, err
	}
	if s.Bus, err = newCluster(t.cfg.Programs, t.Dir, cfg.Name, cfg.Name, hosts, t.Hub); err != nil {
		return s, err
	}
	for _, g := range cfg.Groups {
		key, err := t.groupKeyFile(g)
		if err != nil {
			return s, err
		}
		for i := range g.Rackds {
			name := fmt.Sprintf("%s-%d", g.Name, i+1)
			h, err := t.host(at, name, number, 21+len(s.Rackds))
			if err != nil {
				return s, err
			}
			args := append([]string{"--name", name, "--group", g.Name, "--bus", s.Bus.URL(), "--key-file", key, "--data", filepath.Join(t.Dir, "data", name),
				"--observe", h.At(observePort)}, append(t.rackArgs(h), t.cfg.RackdArgs...)...)
			s.Rackds = append(s.Rackds, &Rackd{Group: g.Name, web: client(h), Process: process.New(process.Spec{Name: name, Host: h,
				Path: t.cfg.Programs.Rackd, Args: args, Env: thrifty, Log: filepath.Join(t.Dir, name+".log")})})
		}
		s.machineGroups = append(s.machineGroups, slices.Repeat([]string{g.Name}, g.Machines)...)
	}
	return s, t.newMachines(s, number, t.cfg.FleetArgs)
}

// groupKeyFile writes what a group's rackds need to open secrets: their own group's
// key and those of the groups that they serve when its own rackds are gone.
func (t *Topology) groupKeyFile(g GroupConfig) (string, error) {
	own, err := t.Key.ForGroup(g.Name)
	if err != nil {
		return "", err
	}
	lines := []string{own.Text()}
	for _, s := range t.cfg.Sites {
		for _, other := range s.Groups {
			for _, f := range other.Failover {
				if f != g.Name {
					continue
				}
				key, err := t.Key.ForGroup(other.Name)
				if err != nil {
					return "", err
				}
				lines = append(lines, other.Name+" "+key.Text())
			}
		}
	}
	file := filepath.Join(t.Dir, g.Name+".key")
	return file, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// client is an HTTP client on a host. Its requests end with their context.
func client(h *network.Host) http.Client {
	return http.Client{Timeout: getTimeout, Transport: &http.Transport{DialContext: h.DialContext, DisableKeepAlives: true}}
}

// Healthy asks the rackd's /healthz.
func (r *Rackd) Healthy(ctx context.Context) error {
	return get(ctx, &r.web, "http://"+r.Host().At(observePort)+"/healthz", nil)
}

// Metric reads one series of the rackd's /metrics, 0 where it is not there yet.
func (r *Rackd) Metric(ctx context.Context, series string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Host().At(observePort)+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := r.web.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, lines.Err()
}

func (s *Site) close() {
	for _, r := range s.Rackds {
		r.Close()
	}
	if s.Machines != nil {
		s.Machines.Close()
	}
	if s.Bus != nil {
		s.Bus.close()
	}
	if s.WAN != nil {
		s.WAN.Close()
	}
}
