package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

var update = flag.Bool("update", false, "write the golden files anew")

// varying is what differs from run to run.
var varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

func golden(t *testing.T, name, body string) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(body), "", "  "); err != nil {
		t.Fatalf("%s: %v: %s", name, err, body)
	}
	got := varying.ReplaceAllString(pretty.String(), "VARIES") + "\n"
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs from its golden file (-update writes it anew):\n%s", name, got)
	}
}

// TestGoldenAtIntroduction holds each resource right before the version that brought it,
// or what is peculiar to it, and from then on.
func TestGoldenAtIntroduction(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"name":"p1"`)
	for path, versions := range map[string][]string{
		"/v1/nodes/" + nodeID:              {"1.4", "1.5"},
		"/v1/ports/" + portID:              {"1.18", "1.19"},
		"/v1/drivers/fake-hardware":        {"1.29", "1.30"},
		"/v1/conductors":                   {"1.48", "1.49"},
		"/v1/nodes/" + nodeID + "/traits":  {"1.36", "1.37"},
		"/v1/nodes/" + nodeID + "/vifs":    {"1.27", "1.28"},
		"/v1/nodes/" + nodeID + "/history": {"1.77", "1.78"},
	} {
		for _, version := range versions {
			name := strings.NewReplacer(nodeID, "N", portID, "P", "/", "-").Replace(strings.Trim(path, "/"))
			golden(t, name+"@"+version, b.do("GET", path, version, "").body)
		}
	}
}

// TestGolden holds each resource at versions between which its form differs.
func TestGolden(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/ports", "1.115", `{"uuid":"aaaaaaaa-2222-4333-8444-555555555555","node_uuid":"`+nodeID+`","address":"AA:BB:CC:DD:EE:01","name":"p1"}`)
	b.move(nodeID, provision.Available, provision.NoState, nil)
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	b.move(nodeID, provision.Available, provision.NoState, nil)
	paths := []string{"/", "/v1", "/v1/nodes", "/v1/nodes/detail", "/v1/nodes/" + nodeID, "/v1/nodes/" + nodeID + "/states",
		"/v1/ports", "/v1/ports/aaaaaaaa-2222-4333-8444-555555555555", "/v1/drivers", "/v1/drivers/fake-hardware", "/v1/drivers/redfish/properties",
		"/v1/conductors", "/v1/conductors/rack-2", "/v1/nodes/" + nodeID + "/history", "/v1/nodes/" + nodeID + "/validate",
		"/v1/nodes/" + nodeID + "/management/boot_device", "/v1/nodes/" + nodeID + "/management/boot_device/supported",
		"/v1/nodes/" + nodeID + "/traits", "/v1/nodes/" + nodeID + "/inventory"}
	for _, version := range []string{"", "1.31", "1.89", "1.115"} {
		for _, path := range paths {
			a := b.do("GET", path, version, "")
			name := strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")
			name = strings.NewReplacer(nodeID, "N", "aaaaaaaa-2222-4333-8444-555555555555", "P").Replace(name)
			if name == "" {
				name = "root"
			}
			if version == "" {
				version = "1.1"
			}
			body := a.body
			if a.StatusCode != 200 && !json.Valid([]byte(body)) {
				t.Fatalf("%s: %d %q", path, a.StatusCode, body)
			}
			golden(t, name+"@"+version, body)
		}
	}
}
