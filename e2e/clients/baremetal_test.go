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

	central "github.com/ironyard/ironyard/central/daemon"
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

// fleet starts a fleet of fake machines that serves everybody and returns its endpoint.
func fleet(t *testing.T) string { t.Helper(); return guardedFleet(t, central.Access{}) }

// guardedFleet is one that asks who comes.
func guardedFleet(t *testing.T, access central.Access) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	dir := t.TempDir() // before the clean-up below, so that it goes after the fleet
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: dir, Drivers: []string{"redfish"}, Access: access, Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
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
	case err := <-done:
		done <- nil
		t.Fatalf("the fleet did not start: %v", err)
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

// TestBaremetalCommand runs the program itself; TestEveryCommand runs the rest in one process.
func TestBaremetalCommand(t *testing.T) {
	e := fleet(t)
	baremetal(t, e, "node", "create", "--driver", "fake-hardware", "--name", "one")
	baremetal(t, e, "node", "manage", "one", "--wait", "60")
	var n map[string]any
	if err := json.Unmarshal([]byte(baremetal(t, e, "node", "show", "one", "-f", "json")), &n); err != nil {
		t.Fatal(err)
	}
	if n["provision_state"] != "manageable" || n["last_error"] != nil {
		t.Errorf("after manage: %v, %v", n["provision_state"], n["last_error"])
	}
}
