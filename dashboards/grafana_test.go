package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// board is what the tests read of a Grafana dashboard.
type board struct {
	UID, Title string
	Panels     []struct {
		ID                 int
		Title, Description string
		Targets            []struct{ Expr, LegendFormat string }
	}
}

func boards(t *testing.T) map[string]board {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]board{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		list[f] = b
	}
	if len(list) < 4 {
		t.Fatalf("only %d dashboards", len(list))
	}
	return list
}

var (
	histogram = regexp.MustCompile(`_(bucket|sum|count)$`)
	named     = regexp.MustCompile(`Alert: (\w+)`)
)

// The test holds panels to metrics that the programs have. A panel of another metric would stay empty without a reason.
func TestPanelsAreOfMetricsThatThereAre(t *testing.T) {
	there, alerts := documented(t), ""
	for _, f := range []string{"rules/central.yml", "rules/rackd.yml", "rules/group-keys.yml"} {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		alerts += string(text)
	}
	uids := map[string]string{}
	for f, b := range boards(t) {
		if b.UID == "" || b.Title == "" || uids[b.UID] != "" || len(b.Panels) < 4 {
			t.Errorf("%s: uid %q, title %q, %d panels", f, b.UID, b.Title, len(b.Panels))
		}
		uids[b.UID] = f
		for _, p := range b.Panels {
			if p.Title == "" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %d has no title or no query", f, p.ID)
			}
			for _, alert := range named.FindAllStringSubmatch(p.Description, -1) {
				if !strings.Contains(alerts, "- alert: "+alert[1]+"\n") {
					t.Errorf("%s: %s names the alert %s, which is not there", f, p.Title, alert[1])
				}
			}
			for _, q := range p.Targets {
				names := metric.FindAllString(q.Expr, -1)
				if len(names) == 0 || q.LegendFormat == "" {
					t.Errorf("%s: %s asks for %q as %q", f, p.Title, q.Expr, q.LegendFormat)
				}
				for _, name := range names {
					labels, known := there[histogram.ReplaceAllString(name, "")]
					if !known {
						t.Errorf("%s: %s is of %s, which no program has", f, p.Title, name)
					}
					for _, by := range grouped.FindAllStringSubmatch(q.Expr, -1) {
						for label := range strings.SplitSeq(by[1], ",") {
							if label = strings.TrimSpace(label); label != "le" && !strings.Contains(labels, label) {
								t.Errorf("%s: %s groups by %s, and %s has %s", f, p.Title, label, name, labels)
							}
						}
					}
				}
			}
		}
	}
}

// A Prometheus scrapes a fleet that deploys: each query of each panel has data.
func TestPanelsHaveData(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("not run: it needs bin/ironyard and a Prometheus; make e2e")
	}
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	api, rackd, at := address(t), address(t), address(t)
	dir := t.TempDir()
	run(t, "../bin/ironyard", "dev", "--listen", api, "--observe", rackd, "--data", filepath.Join(dir, "dev"))
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n- {job_name: central, static_configs: [{targets: [%q]}]}\n- {job_name: rackd, static_configs: [{targets: [%q]}]}\n", api, rackd)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, prometheus, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", at)

	call := func(method, path, body string) string {
		t.Helper()
		var answer string
		within(t, method+" "+path, func() bool {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+api+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-OpenStack-Ironic-API-Version", "1.90")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return false // it is starting
			}
			defer resp.Body.Close()
			all, err := io.ReadAll(resp.Body)
			answer = string(all)
			return err == nil && resp.StatusCode < 300
		})
		return answer
	}
	call("POST", "/v1/nodes", `{"driver":"fake-hardware","name":"one","instance_info":{"image_source":"http://192.0.2.1/i","image_checksum":"`+strings.Repeat("0", 64)+`"}}`)
	for _, step := range []struct{ target, state string }{{"manage", "manageable"}, {"provide", "available"}, {"active", "active"}, {"deleted", "available"}} {
		call("PUT", "/v1/nodes/one/states/provision", `{"target":"`+step.target+`"}`)
		within(t, "the node is "+step.state, func() bool {
			return strings.Contains(call("GET", "/v1/nodes/one?fields=provision_state", ""), `"provision_state":"`+step.state+`"`)
		})
	}
	for f, b := range boards(t) {
		for _, p := range b.Panels {
			for _, q := range p.Targets {
				expr, last := strings.ReplaceAll(q.Expr, "$instance", ".*"), ""
				within(t, fmt.Sprintf("%s: %s: %s has data", f, p.Title, expr), func() bool {
					resp, err := http.PostForm("http://"+at+"/api/v1/query", url.Values{"query": {expr}})
					if err != nil {
						return false
					}
					defer resp.Body.Close()
					all, err := io.ReadAll(resp.Body)
					last = string(all)
					if err == nil && resp.StatusCode == http.StatusBadRequest {
						t.Fatalf("%s: %s: %s", f, p.Title, last)
					}
					return err == nil && resp.StatusCode == http.StatusOK && !bytes.Contains(all, []byte(`"result":[]`))
				})
			}
		}
	}
}

// address returns a free address of this machine.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run runs a program until the test ends.
func run(t *testing.T, program string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // the end of the test's context ended it
		if t.Failed() {
			t.Logf("%s:\n%s", program, said.String())
		}
	})
}

// within waits until a condition holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("not so in time: " + what)
		}
	}
}
