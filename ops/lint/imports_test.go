package lint

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// importList has a line for each package: what it imports of the project. A new arrow is a new word of that file, so that
// a reader of the change sees it.
const importList = "imports.txt"

// forbidden are arrows that no package may have, each with its reason. A pattern that ends in / means all below it.
var forbidden = []struct{ from, to, reason string }{
	{"protocol/", "central/", "programs of other versions, and of others, speak the protocol"},
	{"protocol/", "rackd/", "programs of other versions, and of others, speak the protocol"},
	{"protocol/", "agent/", "programs of other versions, and of others, speak the protocol"},
	{"central/", "rackd/", "central knows a rackd by its documents alone, so that either is upgraded by itself"},
	{"central/", "agent/", "central never speaks to an agent: racks do"},
	{"rackd/", "central/", "a rackd knows central by its documents alone, so that either is upgraded by itself"},
	{"rackd/", "agent/", "a rackd knows an agent by its API alone: it may be ironic-python-agent"},
	{"agent/", "rackd/", "an agent knows a rackd by its API alone"},
	{"agent/", "central/", "an agent never speaks to central"},
	{"rackd/conductor", "rackd/driver/", "the conductor sees the contract of drivers, never a driver"},
	{"rackd/conductor", "rackd/drivers", "the conductor sees the contract of drivers, never a driver"},
	{"rackd/answer", "rackd/driver/", "the answers to central see the contract of drivers, never a driver"},
	{"rackd/answer", "rackd/drivers", "the answers to central see the contract of drivers, never a driver"},
	{"rackd/answer", "rackd/conductor", "what answers at once knows no flow: the conductor tells it what it asks"},
	{"rackd/conductor/flow", "rackd/conductor/runner", "flows are lists of steps, and know nothing of what runs them"},
	{"rackd/driver", "rackd/conductor", "a driver serves any caller that holds a fence"},
	{"rackd/driver/", "rackd/view", "a driver is told all that it needs with its task"},
	{"rackd/driver/", "rackd/lease", "a driver asks its fence, not the lease"},
	{"rackd/netboot", "rackd/conductor", "netboot asks an interface of its own, and is tested without flows"},
	{"central/store", "central/api", "the store keeps rows and knows no request"},
	{"central/store", "central/dispatch", "the store keeps rows and decides nothing"},
	{"central/dispatch", "central/api", "what is accepted does not depend on how it was asked"},
	{"central/relay", "central/api", "the relay takes orders from the database alone"},
	{"central/ingest", "central/api", "events come from racks, not from requests"},
	{"ops/virtual/", "central/", "the virtual rack is a rack: it knows no control plane"},
	{"", "e2e/", "end-to-end tests are no library"},
}

// excepted are arrows that a rule forbids and that are there, each with its reason.
var excepted = map[string]string{
	"ops/virtual/wan -> central/daemon":         "it is a fleet in one process: its central is cut off its sites",
	"ops/virtual/wan -> central/sites":          "the sites of that central",
	"ops/virtual/wan -> central/sites/sitetest": "links that break, as central's own tests have them",
}

func TestImportsOfEachPackage(t *testing.T) {
	var lines []string
	used := map[string]bool{}
	for _, p := range packages(t) {
		from, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		var arrows []string
		for _, imp := range p.Imports {
			if to, ours := strings.CutPrefix(imp, module); ours {
				arrows = append(arrows, to)
			}
		}
		slices.Sort(arrows)
		lines = append(lines, strings.TrimSpace(from+": "+strings.Join(arrows, " ")))
		for _, to := range arrows {
			for _, rule := range forbidden {
				if !fits(from, rule.from) || !fits(to, rule.to) || strings.HasPrefix(from, "e2e/") {
					continue
				}
				arrow := from + " -> " + to
				if used[arrow] = true; excepted[arrow] == "" {
					t.Errorf("%s: %s", arrow, rule.reason)
				}
			}
		}
	}
	for arrow := range excepted {
		if !used[arrow] {
			t.Errorf("%s is excepted, and is not there", arrow)
		}
	}
	text := strings.Join(lines, "\n") + "\n"
	if os.Getenv("UPDATE_IMPORTS") != "" {
		if err := os.WriteFile(importList, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	had, err := os.ReadFile(importList)
	if err != nil {
		t.Fatal(err)
	}
	if string(had) != text {
		before, after := strings.Split(string(had), "\n"), strings.Split(text, "\n")
		for _, line := range after {
			if !slices.Contains(before, line) {
				t.Errorf("imports are now %q", line)
			}
		}
		t.Errorf("%s says otherwise. If the arrows are meant: UPDATE_IMPORTS=1 go test -run TestImportsOfEachPackage ./ops/lint", importList)
	}
}

// fits reports whether a package is the pattern, or below it.
func fits(p, pattern string) bool {
	if strings.HasSuffix(pattern, "/") || pattern == "" {
		return strings.HasPrefix(p, pattern)
	}
	return p == pattern || strings.HasPrefix(p, pattern+"/")
}
