package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/drivers"
	"github.com/ironyard/ironyard/rackd/outbound"
	"github.com/ironyard/ironyard/rackd/periodic"
	"github.com/ironyard/ironyard/rackd/powersync"
)

const serveEnv = "IRONYARD_SERVE_FLEET"

// lightFleet is machines with a BMC and power alone.
func lightFleet(size int) fleet.Config {
	c := fleet.Default
	c.Machines, c.Network, c.Light = size, netip.MustParsePrefix("127.85.0.0/16"), true
	c.BMCPort, c.AgentPort = 8644, 9800 // other fleets may run on this machine
	return c
}

// TestServeFleet is the process of the BMCs that BenchmarkRedfishPowerSyncPass reads: what they cost is not what is measured.
func TestServeFleet(t *testing.T) {
	size, err := strconv.Atoi(os.Getenv(serveEnv))
	if err != nil {
		t.Skip("the benchmark of power runs it in a process of its own")
	}
	f, err := fleet.New(lightFleet(size))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the benchmark ends
		cancel()
	}()
	if err := f.Run(ctx, func() { fmt.Println("serves") }); err != nil {
		t.Fatal(err)
	}
}

// servedFleet starts so many BMCs in a process of their own, and returns their nodes.
func servedFleet(b *testing.B, size int) (nodes []*node.Document) {
	b.Helper()
	f, err := fleet.New(lightFleet(size)) // the same machines, for their names; it serves nothing
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range f.Members {
		e := f.Enrolment(m)
		nodes = append(nodes, &node.Document{UUID: m.UUID, Name: m.Name, Driver: e.Driver, DriverInfo: e.DriverInfo})
	}
	c := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestServeFleet$", "-test.timeout=0")
	c.Env = append(os.Environ(), serveEnv+"="+strconv.Itoa(size))
	var why bytes.Buffer
	c.Stderr = &why
	stop, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	said, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stop.Close(); c.Wait() })
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "serves\n" {
		b.Fatalf("the BMCs' process says %q, %v: %.2000s", line, err, why.String())
	}
	return nodes
}

// passed is the nodes of a fleet as power sync sees them. It counts what is reported of them.
type passed struct {
	set   *drivers.Set
	nodes map[string]*node.Document
	asked chan struct{} // each time the list of nodes is asked for
	all   chan struct{} // closed when each was read

	mu    sync.Mutex
	seen  map[string]bool
	wrong []string
}

func newPassed(set *drivers.Set, nodes []*node.Document) *passed {
	p := &passed{set: set, nodes: map[string]*node.Document{}, asked: make(chan struct{}, 1), all: make(chan struct{}), seen: map[string]bool{}}
	for _, n := range nodes {
		p.nodes[n.UUID] = n
	}
	return p
}

func (p *passed) Nodes() []string {
	select {
	case p.asked <- struct{}{}:
	default:
	}
	return slices.Collect(maps.Keys(p.nodes))
}

func (p *passed) Idle(id string) (*node.Document, *driver.Hardware, error) {
	hw, err := p.set.Resolve(p.nodes[id])
	return p.nodes[id], hw, err
}

func (p *passed) SawPower(_ context.Context, n *node.Document, s driver.PowerState, _ time.Time, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s != driver.PowerOff {
		p.wrong = append(p.wrong, n.Name+": "+string(s))
	}
	if p.seen[n.UUID] = true; len(p.seen) == len(p.nodes) {
		select {
		case <-p.all:
		default:
			close(p.all)
		}
	}
	return nil
}

func (*passed) SawHardware(context.Context, *node.Document, *driver.Hardware) error { return nil }

func (p *passed) Report(_ context.Context, e work.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, e.Error)
	return nil
}

func (*passed) TaskRan(string, string) {}

func (p *passed) PowerRead(result string) {
	if result != "ok" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wrong = append(p.wrong, result)
	}
}

// spent is the processor time that this process has taken.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakMemory is the most resident memory that this process has had, in MiB.
func peakMemory(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseFloat(kib, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n / 1024
}

// openSockets counts the sockets of this process.
func openSockets(b *testing.B) (count int) {
	b.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		b.Fatal(err)
	}
	for _, at := range list {
		if to, err := os.Readlink(at); err == nil && strings.HasPrefix(to, "socket:") {
			count++
		}
	}
	return count
}

// passBySushy has sushy, the library that Ironic has for Redfish, read the power of the same BMCs. Each has a session, and there are as
// many threads as power sync has workers. It prints seconds, seconds of the processor, MiB at the peak of its memory, and sockets.
const passBySushy = `
import glob, json, os, sys, time, warnings
for name in "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE": # which win over verify=False
    os.environ.pop(name, None)
from concurrent.futures import ThreadPoolExecutor
import sushy
from sushy import auth
warnings.simplefilter("ignore")
ask = json.load(sys.stdin)
kept = []
def read(address):
    c = sushy.Sushy(address, auth=auth.SessionOrBasicAuth(ask["user"], ask["password"]), verify=False)
    kept.append(c)
    return c.get_system().power_state
def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""
began, cpu = time.time(), time.process_time()
with ThreadPoolExecutor(ask["threads"]) as pool:
    states = list(pool.map(read, ask["addresses"]))
took, cpu = time.time() - began, time.process_time() - cpu
assert all(s in (sushy.PowerState.OFF, "off") for s in states), states
sockets = sum(link(p).startswith("socket:") for p in glob.glob("/proc/self/fd/*"))
peak = [int(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("VmHWM")][0]
print(json.dumps([took, cpu, peak, sockets]))
`

// mostBySushy is how many of the BMCs sushy reads: it takes minutes for more.
const mostBySushy = 1_000

// passWorkers is how many machines power sync reads at once (rackd/powersync).
const passWorkers = 32

// BenchmarkRedfishPowerSyncPass has power sync, with all its defaults and one processor, read the power of BMCs by Redfish over TLS, as
// after a takeover: all are due at once, and each needs a login. The BMCs are in another process. Then sushy reads up to 1,000 of them:
// sushy-nodes says how many. Each peak-MiB is the peak of one whole process, the benchmark's with the documents of the nodes in it.
// ratio is how many times as many reads a second power sync makes, cpu-ratio how many times sushy's processor time for a read is its.
func BenchmarkRedfishPowerSyncPass(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, size := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
			nodes := servedFleet(b, size)
			for b.Loop() {
				rate, cpu := redfishPass(b, nodes)
				some := nodes[:min(size, mostBySushy)]
				figures := sushyPass(b, some)
				reads := float64(len(some))
				b.ReportMetric(reads, "sushy-nodes")
				b.ReportMetric(figures[0], "sushy-s")
				b.ReportMetric(reads/figures[0], "sushy-reads/s")
				b.ReportMetric(figures[1]/reads*1e3, "sushy-cpu-ms/read")
				b.ReportMetric(figures[2], "sushy-peak-MiB")
				b.ReportMetric(figures[3], "sushy-sockets")
				b.ReportMetric(rate*figures[0]/reads, "ratio")
				b.ReportMetric(figures[1]/reads/cpu, "cpu-ratio")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// redfishPass reads all nodes once. It returns reads a second, and seconds of the processor for a read.
func redfishPass(b *testing.B, nodes []*node.Document) (rate, cpu float64) {
	log := slog.New(slog.DiscardHandler)
	set, err := drivers.Open(drivers.Options{Enabled: []string{"redfish"}, BMCs: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Log: log})
	if err != nil {
		b.Fatal(err)
	}
	p := newPassed(set, nodes)
	tasks := periodic.New(p, p, log)
	powersync.Add(powersync.Config{Name: "r1", Nodes: p, Tasks: tasks, Metrics: p, Log: log})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak of memory begins again
		b.Fatal(err)
	}
	before := openSockets(b)
	go func() { done <- tasks.Run(ctx) }()
	<-p.asked // Hasten waits until the list has been taken up
	began, used := time.Now(), spent(b)
	for id := range p.nodes {
		tasks.Hasten(powersync.Name, id, 0)
	}
	select {
	case <-p.all:
	case <-time.After(5 * time.Minute):
		b.Error("the pass has no end")
	}
	took, processor := time.Since(began).Seconds(), (spent(b) - used).Seconds()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(took, "s/pass")
	b.ReportMetric(float64(len(nodes))/took, "reads/s")
	b.ReportMetric(processor/float64(len(nodes))*1e3, "cpu-ms/read")
	b.ReportMetric(peakMemory(b), "peak-MiB")
	b.ReportMetric(float64(openSockets(b)-before), "sockets")
	b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MiB")
	cancel()
	if err := <-done; err != nil || len(p.seen) < len(nodes) || len(p.wrong) > 0 {
		b.Errorf("%v; %d of %d were read, faults: %.2000q", err, len(p.seen), len(nodes), p.wrong)
	}
	if err := set.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	return float64(len(nodes)) / took, processor / float64(len(nodes))
}

// sushyPass reads nodes with sushy, and returns what it prints.
func sushyPass(b *testing.B, nodes []*node.Document) (figures [4]float64) {
	c := lightFleet(len(nodes))
	var addresses []any
	for _, n := range nodes {
		addresses = append(addresses, n.DriverInfo["redfish_address"])
	}
	asked, err := json.Marshal(map[string]any{"user": c.User, "password": c.Password, "threads": passWorkers, "addresses": addresses})
	if err != nil {
		b.Fatal(err)
	}
	p := exec.CommandContext(b.Context(), "/usr/bin/python3", "-c", passBySushy)
	var why strings.Builder
	p.Stdin, p.Stderr = bytes.NewReader(asked), &why
	out, err := p.Output()
	if err != nil {
		b.Fatalf("sushy: %v: %.2000s", err, why.String())
	}
	if err := json.Unmarshal(out, &figures); err != nil {
		b.Fatal(err)
	}
	return figures
}
