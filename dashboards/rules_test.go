// Package dashboards holds Grafana dashboards and Prometheus rules; it has no code but their tests, and imports nothing of
// the project.
package dashboards

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

var (
	metric  = regexp.MustCompile(`\bironyard_[a-z0-9_]+`)
	grouped = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// documented are the labels of each metric that the programs register, from the generated pages.
func documented(t *testing.T) map[string]string {
	list := map[string]string{}
	for _, program := range []string{"central", "rackd"} {
		page, err := os.ReadFile("../docs/metrics-" + program + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(page)) {
			if cells := strings.Split(line, " | "); len(cells) == 3 && strings.HasPrefix(line, "| ironyard_") {
				list[strings.TrimPrefix(cells[0], "| ")] = cells[1]
			}
		}
	}
	if len(list) < 20 {
		t.Fatalf("only %d metrics are documented", len(list))
	}
	return list
}

// Prometheus's own tool takes the rules, and their tests pass.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("not run: promtool is not installed")
	}
	for _, args := range [][]string{{"check", "rules"}, {"test", "rules"}} {
		files, err := filepath.Glob("rules/*.yml")
		if err != nil {
			t.Fatal(err)
		}
		tests := args[0] == "test"
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, ".test.yml") != tests })
		if len(files) < 3 {
			t.Errorf("only %v", files)
		}
		if out, err := exec.CommandContext(t.Context(), promtool, append(args, files...)...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// An alert that names a metric or a label that is not there never fires, and no operator misses it.
func TestRulesAreOfMetricsThatThereAre(t *testing.T) {
	there := documented(t)
	files, err := filepath.Glob("rules/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".test.yml") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r rules
		d := yaml.NewDecoder(strings.NewReader(string(text)))
		d.KnownFields(true)
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		tested, err := os.ReadFile(strings.TrimSuffix(file, ".yml") + ".test.yml")
		if err != nil {
			t.Errorf("%s has no tests: %v", file, err)
		}
		for _, g := range r.Groups {
			for _, rule := range g.Rules {
				count++
				names := metric.FindAllString(rule.Expr, -1)
				if rule.Alert == "" || rule.For == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || len(names) == 0 {
					t.Errorf("%s: rule %q lacks a name, a time, a severity, a summary or a metric", file, rule.Alert)
				}
				if !strings.Contains(string(tested), "alertname: "+rule.Alert) {
					t.Errorf("%s: no test of %s", file, rule.Alert)
				}
				if _, err := os.Stat("../" + rule.Annotations["runbook"]); err != nil || rule.Annotations["runbook"] == "" {
					t.Errorf("%s: %s names no page to read: %v", file, rule.Alert, err)
				}
				for _, name := range names {
					labels, known := there[name]
					if !known {
						t.Errorf("%s: %s is of %s, which no program has", file, rule.Alert, name)
					}
					for _, by := range grouped.FindAllStringSubmatch(rule.Expr, -1) {
						for label := range strings.SplitSeq(by[1], ",") {
							if label = strings.TrimSpace(label); label != "instance" && !strings.Contains(labels, label) { // every series has the instance that was scraped
								t.Errorf("%s: %s groups by %s, and %s has %s", file, rule.Alert, label, name, labels)
							}
						}
					}
				}
			}
		}
	}
	if count == 0 {
		t.Error("there are no rules")
	}
}
