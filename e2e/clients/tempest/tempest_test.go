package tempest

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/ironyard/ironyard/central/auth"
	central "github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/e2e/clients/debian"
	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/stack"
)

func TestMain(m *testing.M) {
	if os.Getenv("IRONYARD_TEMPEST") == "" {
		fmt.Println("not run: OpenStack's black-box suite (set IRONYARD_TEMPEST=1, or run make tempest)")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

//go:embed tempest.conf
var configuration string

// outdated are tests of the plugin's version 2.5.0 that newer versions have changed, as Ironic
// has changed: it lets volumes of an enrolled node go, whatever its power, and shows a port
// group's properties to requests of 1.26 and newer only.
var outdated = regexp.MustCompile(`\.(test_delete_volume_connector_error|test_delete_volume_target_error|TestPortGroups\.test_update_portgroup_add)$`)

// verdict is how a test or the set-up of its class ended, as tempest prints it.
var verdict = regexp.MustCompile(`^\{\d+\} (?:(\w+) \()?(ironic_tempest_plugin[\w.]+)\)? .*\.\.\. (ok|FAILED|SKIPPED.*)$`)

// TestIronicTempestPlugin runs all of the plugin's tests of the API.
func TestIronicTempestPlugin(t *testing.T) {
	s := debian.New(t)
	address := freeAddress(t)
	keystone := startKeystone(t, s, "http://"+address)
	startFleet(t, address, keystone)

	var conf bytes.Buffer
	if err := template.Must(template.New("").Parse(configuration)).Execute(&conf, map[string]string{"Dir": s.Dir, "Keystone": keystone}); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Command(t, "tempest", "init", "ws").CombinedOutput(); err != nil {
		t.Fatalf("tempest init: %v\n%s (Debian's package tempest has the program)", err, out)
	}
	s.Put(t, "ws/etc/tempest.conf", conf.Bytes())
	run := s.Command(t, "sh", "-c", `cd ws && exec tempest run --concurrency 2 --regex "$0"`, `ironic_tempest_plugin\.tests\.api\.`)
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	run.Stderr = run.Stdout
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	read(t, out)
	if err := run.Wait(); err != nil {
		t.Logf("tempest run: %v", err) // it fails for the outdated ones, too
	}
}

// read turns what tempest prints into verdicts of t.
func read(t *testing.T, out io.Reader) {
	passed, failed, rest := 0, 0, &bytes.Buffer{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		m := verdict.FindStringSubmatch(lines.Text())
		switch {
		case m == nil:
			fmt.Fprintln(rest, lines.Text())
		case m[3] == "ok":
			passed++
		case strings.HasPrefix(m[3], "SKIPPED"):
			t.Logf("%s %s: %s", m[1], m[2], m[3])
		case outdated.MatchString(m[2]):
			t.Logf("%s: outdated", m[2])
		default:
			failed++
			t.Errorf("%s %s failed", m[1], m[2])
		}
	}
	t.Logf("%d tests passed, %d failed", passed, failed)
	if failed > 0 || passed == 0 || lines.Err() != nil {
		t.Errorf("what tempest told (%v):\n%s", lines.Err(), rest)
	}
}

// freeAddress returns one on loopback on which nobody listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startFleet runs central at address, with callers whom Keystone knows, and fake machines.
func startFleet(t *testing.T, address, keystone string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	up, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: address, Data: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Access: central.Access{Strategies: []string{"keystone"}, ServiceProject: "service",
				Keystone: auth.KeystoneConfig{URL: keystone, Username: "ironic", Password: "secret", Project: "service"}}},
			func(*stack.Stack) { close(up) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-up:
	case <-time.After(time.Minute):
		t.Fatal("the fleet was not ready within a minute")
	}
}
