package ipmi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/periodic"
	"github.com/ironyard/ironyard/rackd/powersync"
)

const serveEnv = "IRONYARD_SERVE_BMCS"

// TestServeBMCs is the process of the BMCs that BenchmarkPowerBesideIPMItool reads: what they cost is not what is measured.
func TestServeBMCs(t *testing.T) {
	var size int
	if text := os.Getenv(serveEnv); text == "" {
		t.Skip("the benchmark of power runs it in a process of its own")
	} else if err := json.Unmarshal([]byte(text), &size); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(fleet(t, size))
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.Write(append(text, '\n'))
	bufio.NewReader(os.Stdin).ReadByte() // until the benchmark ends
}

// served starts so many BMCs in a process of their own.
func served(b *testing.B, size string) (nodes []*node.Document) {
	b.Helper()
	c := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestServeBMCs$")
	c.Env = append(os.Environ(), serveEnv+"="+size)
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
	line, err := bufio.NewReader(said).ReadBytes('\n')
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(line, &nodes); err != nil {
		b.Fatal(err)
	}
	return nodes
}

// processor is what this process, or its children that have ended, have taken.
func processor(b *testing.B, who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPowerBesideIPMItool reads the power of 1,000 BMCs, each in another process, as power sync does: first with a login each,
// then in the sessions that are kept. ipmitool, which Ironic runs for each read, reads some of the same BMCs, as many at once.
// ratio is how many times as many reads a second the driver does as ipmitool.
func BenchmarkPowerBesideIPMItool(b *testing.B) {
	if _, err := exec.LookPath("ipmitool"); err != nil {
		b.Fatal(err)
	}
	const byTool = 100
	nodes := served(b, "1000")
	atOnce := 4 * runtime.NumCPU()
	secret := filepath.Join(b.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("s3cret-pass"), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		d := New(Options{MaxBMCs: len(nodes), Networks: loopback})
		files := sockets(b)
		rounds := map[string]float64{}
		for _, round := range []string{"login", "session"} {
			began, cpu := time.Now(), processor(b, syscall.RUSAGE_SELF)
			readAll(b, d, nodes, atOnce)
			rounds[round] = float64(len(nodes)) / time.Since(began).Seconds()
			b.ReportMetric(rounds[round], round+"-reads/s")
			b.ReportMetric(float64((processor(b, syscall.RUSAGE_SELF)-cpu).Microseconds())/float64(len(nodes)), round+"-cpu-us/read")
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MiB")
		b.ReportMetric(float64(sockets(b)-files), "sockets")
		began, cpu := time.Now(), processor(b, syscall.RUSAGE_CHILDREN)
		toolReadsAll(b, nodes[:byTool], secret, atOnce)
		tool := byTool / time.Since(began).Seconds()
		b.ReportMetric(tool, "ipmitool-reads/s")
		b.ReportMetric(float64((processor(b, syscall.RUSAGE_CHILDREN)-cpu).Microseconds())/byTool, "ipmitool-cpu-us/read")
		b.ReportMetric(rounds["login"]/tool, "login-ratio")
		b.ReportMetric(rounds["session"]/tool, "session-ratio")
		if err := d.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// toolReadsAll has ipmitool read the power of all nodes, so many at once.
func toolReadsAll(b *testing.B, nodes []*node.Document, secret string, atOnce int) {
	var all sync.WaitGroup
	next := make(chan *node.Document)
	for range atOnce {
		all.Go(func() {
			for n := range next {
				c := exec.CommandContext(b.Context(), "ipmitool", "-I", "lanplus", "-C", "3", "-H", n.DriverString(fieldAddress), "-p", n.DriverString(fieldPort),
					"-U", "admin", "-f", secret, "power", "status")
				if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "Chassis Power is o") {
					b.Errorf("ipmitool: %v: %s", err, out)
				}
			}
		})
	}
	for _, n := range nodes {
		next <- n
	}
	close(next)
	all.Wait()
}

// rackOf is the nodes of BMCs in another process, as power sync sees them.
type rackOf struct {
	nodes map[string]*node.Document
	hw    *driver.Hardware

	mu    sync.Mutex
	seen  map[string]bool
	wrong int
}

func (r *rackOf) Nodes() []string { return slices.Collect(maps.Keys(r.nodes)) }

func (r *rackOf) Idle(id string) (*node.Document, *driver.Hardware, error) {
	return r.nodes[id], r.hw, nil
}

func (r *rackOf) SawPower(_ context.Context, n *node.Document, _ driver.PowerState, _ time.Time, _ bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[n.UUID] = true
	return nil
}

func (r *rackOf) SawHardware(context.Context, *node.Document, *driver.Hardware) error { return nil }

func (r *rackOf) Report(context.Context, work.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong++
	return nil
}

func (*rackOf) TaskRan(string, string) {}
func (*rackOf) PowerRead(string)       {}

func (r *rackOf) count() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.seen) }

// BenchmarkPowerSyncPass has power sync, with all its defaults and one processor, read 10,000 BMCs that are in another process, as
// after a takeover: all are due at once. What it takes of time is its pacing; cpu-s is what it takes of the processor.
func BenchmarkPowerSyncPass(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, size := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
			nodes := served(b, strconv.Itoa(size))
			for b.Loop() {
				d := New(Options{Networks: loopback})
				rest := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: d}},
					"management": {{Name: "m", Impl: d}}, "boot": {{Name: "b", Impl: rest.Boot()}}, "deploy": {{Name: "d", Impl: rest.Deploy()}}}})
				if err != nil {
					b.Fatal(err)
				}
				r := &rackOf{nodes: map[string]*node.Document{}, seen: map[string]bool{}}
				for _, n := range nodes {
					n.Driver = "t"
					r.nodes[n.UUID] = n
				}
				if r.hw, err = reg.Resolve(nodes[0]); err != nil {
					b.Fatal(err)
				}
				log := slog.New(slog.DiscardHandler)
				tasks := periodic.New(r, r, log)
				powersync.Add(powersync.Config{Name: "r1", Nodes: r, Tasks: tasks, Metrics: r, Log: log})
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan error, 1)
				files := sockets(b)
				began, cpu := time.Now(), processor(b, syscall.RUSAGE_SELF)
				go func() { done <- tasks.Run(ctx) }()
				time.Sleep(1100 * time.Millisecond) // it knows the nodes
				for id := range r.nodes {
					tasks.Hasten(powersync.Name, id, 0)
				}
				for r.count() < size && time.Since(began) < 5*time.Minute {
					time.Sleep(20 * time.Millisecond)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s/pass")
				b.ReportMetric((processor(b, syscall.RUSAGE_SELF) - cpu).Seconds(), "cpu-s/pass")
				b.ReportMetric(float64(sockets(b)-files), "sockets")
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MiB")
				cancel()
				if err := <-done; err != nil || r.count() < size || r.wrong > 0 {
					b.Errorf("%v; %d of %d were read, %d faults", err, r.count(), size, r.wrong)
				}
				if err := d.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// readByPyghmi reads the power of BMCs by pyghmi, a library for IPMI in Python, each with a login. It prints reads a second and seconds of
// the processor for a read. pyghmi carries all sessions in one thread.
const readByPyghmi = `
import json, sys, time
from pyghmi.ipmi import command
ask = json.load(sys.stdin)
began, cpu = time.time(), time.process_time()
for host, port in ask:
    c = command.Command(bmc=host, userid="admin", password="s3cret-pass", port=int(port))
    assert c.get_power()["powerstate"] in ("on", "off")
    c.ipmi_session.logout()
print(json.dumps([len(ask) / (time.time() - began), (time.process_time() - cpu) / len(ask)]))
`

// BenchmarkPowerBesidePyghmi reads the power of 100 BMCs in another process one after the other, each with a login, and has pyghmi do the
// same.
func BenchmarkPowerBesidePyghmi(b *testing.B) {
	nodes := served(b, "100")
	var ask [][2]string
	for _, n := range nodes {
		ask = append(ask, [2]string{n.DriverString(fieldAddress), n.DriverString(fieldPort)})
	}
	asked, err := json.Marshal(ask)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		d := New(Options{Networks: loopback})
		began := time.Now()
		readAll(b, d, nodes, 1)
		ours := float64(len(nodes)) / time.Since(began).Seconds()
		if err := d.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		p := exec.CommandContext(b.Context(), "/usr/bin/python3", "-c", readByPyghmi)
		p.Stdin = strings.NewReader(string(asked))
		var why strings.Builder
		p.Stderr = &why
		out, err := p.Output()
		if err != nil {
			b.Fatalf("pyghmi: %v: %.2000s", err, why.String())
		}
		var figures [2]float64
		if err := json.Unmarshal(out, &figures); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(ours, "login-reads/s")
		b.ReportMetric(figures[0], "pyghmi-reads/s")
		b.ReportMetric(figures[1]*1e6, "pyghmi-cpu-us/read")
		b.ReportMetric(ours/figures[0], "login-ratio")
	}
	b.ReportMetric(0, "ns/op")
}
