package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/stack"
)

func TestMain(m *testing.M) {
	if os.Getenv("IRONYARD_E2E") == "" {
		fmt.Println("not run: the tests with other people's clients (set IRONYARD_E2E=1, or run make e2e)")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fleet starts a fleet of fake machines and returns its endpoint.
func fleet(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
			func(s *stack.Stack) { up <- s })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case s := <-up:
		return s.Endpoint
	case <-time.After(20 * time.Second):
		t.Fatal("the fleet was not ready within 20 s")
	}
	return ""
}

// baremetal runs one command and returns what it prints.
func baremetal(t *testing.T, endpoint string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "baremetal", append([]string{"--os-auth-type", "none", "--os-endpoint", endpoint}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("baremetal %s: %v\n%s (Debian's package python3-ironicclient has the command)", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String()
}

// show returns the node as the command prints it in JSON.
func show(t *testing.T, endpoint, node string) map[string]any {
	t.Helper()
	var n map[string]any
	if err := json.Unmarshal([]byte(baremetal(t, endpoint, "node", "show", node, "-f", "json")), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A node's whole life with the command line that operators have.
func TestBaremetalCommand(t *testing.T) {
	e := fleet(t)
	run := func(args ...string) string { t.Helper(); return baremetal(t, e, args...) }
	run("node", "create", "--driver", "fake-hardware", "--name", "one", "--driver-info", "fake_password=hunter2")
	id := strings.TrimSpace(run("node", "show", "one", "-f", "value", "-c", "uuid"))
	run("port", "create", "52:54:00:00:00:01", "--node", id)
	if out := run("port", "list", "-f", "value"); !strings.Contains(out, "52:54:00:00:00:01") {
		t.Errorf("port list: %s", out)
	}
	if info := fmt.Sprint(show(t, e, "one")["driver_info"]); strings.Contains(info, "hunter2") {
		t.Errorf("driver_info shows a password: %s", info)
	}
	run("node", "manage", "one", "--wait", "60")
	run("node", "provide", "one", "--wait", "60")
	run("node", "set", "one", "--instance-info", "image_source=http://example.org/i.raw", "--resource-class", "baremetal")
	run("node", "add", "trait", "one", "CUSTOM_GOLD")
	if out := run("node", "trait", "list", "one", "-f", "value"); !strings.Contains(out, "CUSTOM_GOLD") {
		t.Errorf("trait list: %s", out)
	}
	if out := run("node", "validate", "one", "-f", "value"); !strings.Contains(out, "deploy True") {
		t.Errorf("validate: %s", out)
	}
	run("node", "deploy", "one", "--wait", "60", "--config-drive", `{"meta_data":{"hostname":"one"}}`)
	if n := show(t, e, "one"); n["provision_state"] != "active" || n["last_error"] != nil {
		t.Errorf("after deploy: %v, %v", n["provision_state"], n["last_error"])
	}
	run("node", "power", "off", "one", "--power-timeout", "60")
	waitFor(t, "power off", func() bool { return show(t, e, "one")["power_state"] == "power off" })
	run("node", "boot", "device", "set", "one", "disk", "--persistent")
	if out := run("node", "boot", "device", "show", "one", "-f", "value"); !strings.Contains(out, "disk") {
		t.Errorf("boot device: %s", out)
	}
	run("node", "maintenance", "set", "one", "--reason", "a look inside")
	if n := show(t, e, "one"); n["maintenance"] != true || n["maintenance_reason"] != "a look inside" {
		t.Errorf("maintenance: %v, %v", n["maintenance"], n["maintenance_reason"])
	}
	run("node", "maintenance", "unset", "one")
	run("node", "undeploy", "one", "--wait", "60")
	if out := run("node", "history", "list", "one", "-f", "value"); !strings.Contains(out, "available") {
		t.Errorf("history: %s", out)
	}
	if out := run("conductor", "list", "-f", "value"); !strings.Contains(out, "rackd-dev") {
		t.Errorf("conductor list: %s", out)
	}
	if out := run("driver", "list", "-f", "value"); !strings.Contains(out, "fake-hardware") {
		t.Errorf("driver list: %s", out)
	}
	run("node", "delete", "one")
	if out := run("node", "list", "-f", "value"); strings.TrimSpace(out) != "" {
		t.Errorf("after the deletion there is still: %s", out)
	}
}

// waitFor runs ok, which takes a second or two itself, until it holds.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 15 {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}
