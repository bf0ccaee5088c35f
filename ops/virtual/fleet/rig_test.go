package fleet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
)

// rig is a control plane in this process, two rackds as processes of their own, and
// simulated machines.
type rig struct {
	t     *testing.T
	dir   string
	fleet *fleet.Fleet
	o     *operator.Operator
	stack *stack.Stack
	image operator.Image
	rackd []*rackd
	nodes map[string]string // machine → node
}

// imageBytes is large enough for no socket to hold it: who serves it is missed.
const imageBytes = 4 << 20

func newRig(ctx context.Context, t *testing.T, c fleet.Config) *rig {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("starts a control plane, two rackds and machines; set IRONYARD_E2E=1")
	}
	if os.Geteuid() != 0 {
		t.Skip("rackd's TFTP server needs root")
	}
	r := &rig{t: t, dir: t.TempDir(), nodes: map[string]string{}}
	r.image = serveImage(t)
	r.central(ctx)
	r.build()
	for n := 1; n <= 2; n++ {
		d := &rackd{rig: r, name: fmt.Sprintf("rackd-%d", n), address: fmt.Sprintf("127.81.0.%d", n)}
		r.rackd = append(r.rackd, d)
		c.Rackds = append(c.Rackds, "http://"+d.address+":8080")
		d.start(ctx)
	}
	var err error
	if r.fleet, err = fleet.New(c); err != nil {
		t.Fatal(err)
	}
	r.background(ctx, "the fleet", func(ctx context.Context, ready func()) error { return r.fleet.Run(ctx, ready) })
	return r
}

// background runs a part of the rig until the test ends and returns once it is ready.
func (r *rig) background(ctx context.Context, what string, run func(ctx context.Context, ready func()) error) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	up, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- run(ctx, func() { close(up) }) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("%s: %v", what, err)
		}
	})
	select {
	case <-up:
	case err := <-done:
		done <- nil
		r.t.Fatalf("%s: %v", what, err)
	}
}

func (r *rig) central(ctx context.Context) {
	r.t.Helper()
	r.background(ctx, "central", func(ctx context.Context, ready func()) error {
		return stack.Run(ctx, stack.Options{Dir: filepath.Join(r.dir, "central"), Listen: "127.0.0.1:0", BusListen: "127.0.0.1:0",
			Log: slog.New(slog.NewTextHandler(r.log("central.log"), nil))}, func(s *stack.Stack) { r.stack = s; ready() })
	})
	var err error
	if r.o, err = operator.New(r.stack.Endpoint); err != nil {
		r.t.Fatal(err)
	}
}

// log opens a log file that is shown when the test fails.
func (r *rig) log(name string) io.Writer {
	dir := os.Getenv("IRONYARD_LOGS")
	if dir == "" {
		dir = r.dir
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { f.Close() })
	return f
}

func serveImage(t *testing.T) operator.Image {
	body := make([]byte, imageBytes)
	die := rand.NewChaCha8([32]byte{1})
	die.Read(body)
	sum := sha256.Sum256(body)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(body))
	}))
	t.Cleanup(s.Close)
	return operator.Image{URL: s.URL + "/image.raw", SHA256: hex.EncodeToString(sum[:]), DiskFormat: "raw"}
}

// program is rackd. builtRackd builds it once: to link it takes seconds of both processors.
var (
	program    string
	builtRackd = sync.OnceValue(func() error {
		if out, err := exec.Command("go", "build", "-o", program, "../../../rackd").CombinedOutput(); err != nil {
			return fmt.Errorf("build rackd: %w\n%s", err, out)
		}
		return nil
	})
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ironyard-fleet-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "rackd")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the program and files that rackds need.
func (r *rig) build() {
	r.t.Helper()
	if err := builtRackd(); err != nil {
		r.t.Fatal(err)
	}
	key, err := r.stack.Key.ForGroup("")
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.dir, "boot"), 0o700); err != nil {
		r.t.Fatal(err)
	}
	for name, text := range map[string]string{"key": key.Text(), "token": r.stack.BusToken, "boot/undionly.kpxe": "x", "boot/kernel": "kernel", "boot/ramdisk": "ramdisk"} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// rackd is a process that the test may kill.
type rackd struct {
	rig           *rig
	name, address string
	cmd           *exec.Cmd
	done          chan struct{}
}

func (d *rackd) start(ctx context.Context, more ...string) {
	r := d.rig
	r.t.Helper()
	file := func(name string) string { return filepath.Join(r.dir, name) }
	d.cmd = exec.Command(program, "--name", d.name, "--bus", "nats://"+r.stack.BusAddress, "--bus-token-file", file("token"), "--key-file", file("key"),
		"--data", file(d.name), "--interface", "lo", "--address", d.address, "--dhcp", "off", "--boot-programs", file("boot"),
		"--kernel", file("boot/kernel"), "--ramdisk", file("boot/ramdisk"), "--observe", d.address+":9411", "--drivers", "redfish",
		"--bmc-networks", "127.0.0.0/8", "--fetch-from", "127.0.0.0/8") // all of it is on this machine
	d.cmd.Args = append(d.cmd.Args, more...)
	log := r.log(d.name + ".log")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d.done = make(chan struct{})
	started := make(chan error)
	// The child dies with the thread that started it, so that thread stays.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			d.cmd.Wait()
		}
		close(d.done)
	}()
	if err := <-started; err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(d.kill)
	for !d.healthy(ctx) {
		select {
		case <-d.done:
			r.t.Fatalf("%s ended at once: %s", d.name, tail(r.dir, d.name))
		case <-ctx.Done():
			r.t.Fatalf("%s is not ready: %s", d.name, tail(r.dir, d.name))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *rackd) healthy(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+":9411/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// kill is the power cut of a rackd.
func (d *rackd) kill() {
	d.cmd.Process.Kill() // a process that has ended cannot be killed, which is as well
	<-d.done
}

func tail(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// each does something with all machines at once and fails the test when it fails
// with one, after it has ended with all.
func (r *rig) each(ctx context.Context, what string, of []*fleet.Member, do func(ctx context.Context, m *fleet.Member, node string) error) {
	r.t.Helper()
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(64)
	for _, m := range of {
		g.Go(func() error {
			if err := do(ctx, m, r.nodes[m.Name]); err != nil {
				r.t.Errorf("%s %s: %v\n%s", what, m.Name, err, r.story(m))
			}
			return nil
		})
	}
	g.Wait() // the errors are told
	if r.t.Failed() {
		r.t.FailNow()
	}
	r.t.Logf("%s: %d machines in %s", what, len(of), time.Since(began).Round(100*time.Millisecond))
}

// story is what the machine's journal says last.
func (r *rig) story(m *fleet.Member) string {
	var lines []string
	for _, record := range r.fleet.Journal.After(0, 0) {
		if record.Machine == m.Name {
			lines = append(lines, fmt.Sprintf("%6d %s %s %s %s", record.Seq, record.Time.Format("15:04:05.000"), record.Kind, record.Command, record.Detail))
		}
	}
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// audited checks the whole journal.
func (r *rig) audited() {
	r.t.Helper()
	for _, f := range audit.Check(r.fleet.Journal.After(0, 0)) {
		r.t.Error(f)
	}
}
