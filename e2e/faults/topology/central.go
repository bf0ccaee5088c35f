package topology

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/e2e/faults/process"
)

const apiPort = 6385

// Central is one replica of central.
type Central struct {
	*process.Process
	Endpoint string // of its API
	web      http.Client
}

func (t *Topology) newCentral(core *network.Switch) error {
	hosts, err := t.hostsOf(core, "central", 0, 21)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		args := []string{"serve", "--database", t.Database.url + "?pool_max_conns=6", "--listen", h.At(apiPort), "--insecure-no-auth", "--keep-history", "0", "--keep-works", "0", "--key-file", t.keyFile(),
			"--bus", t.Hub.URL(), "--replicas", fmt.Sprint(replicas)}
		for _, s := range t.cfg.Sites {
			var groups []string
			for _, g := range s.Groups {
				groups = append(groups, g.Name)
			}
			args = append(args, "--site", s.Name+"="+strings.Join(groups, ","))
			for _, g := range s.Groups {
				if len(g.Failover) > 0 {
					args = append(args, "--failover", g.Name+"="+strings.Join(g.Failover, ","))
				}
			}
		}
		args = append(args, t.cfg.CentralArgs...)
		t.Central = append(t.Central, &Central{Endpoint: "http://" + h.At(apiPort), web: client(t.Operator), Process: process.New(process.Spec{
			Name: h.Name, Host: h, Path: t.cfg.Programs.Central, Args: args, Env: thrifty, Log: filepath.Join(t.Dir, h.Name+".log")})})
	}
	return nil
}

// Ready asks the replica's /readyz.
func (c *Central) Ready(ctx context.Context) error {
	return get(ctx, &c.web, c.Endpoint+"/readyz", nil)
}

// Conductors returns which rackds the replica knows, and whether they are alive.
func (c *Central) Conductors(ctx context.Context) (map[string]bool, error) {
	var list struct {
		Conductors []struct {
			Hostname string
			Alive    bool
		}
	}
	if err := get(ctx, &c.web, c.Endpoint+"/v1/conductors", &list); err != nil {
		return nil, err
	}
	alive := map[string]bool{}
	for _, m := range list.Conductors {
		alive[m.Hostname] = m.Alive
	}
	return alive, nil
}

// get reads a page that must answer 200, into the JSON value into unless it is nil.
func get(ctx context.Context, web *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.95")
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, resp.Status, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}
