package ipmi

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
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

// rackOf is the nodes of BMCs in another process, as power sync sees them.
type rackOf struct {
	nodes map[string]*node.Document
	hw    *driver.Hardware
	asked chan struct{} // each time the list of nodes is asked for
	all   chan struct{} // closed when each was read

	mu    sync.Mutex
	seen  map[string]bool
	wrong int
}

func (r *rackOf) Nodes() []string {
	select {
	case r.asked <- struct{}{}:
	default:
	}
	return slices.Collect(maps.Keys(r.nodes))
}

func (r *rackOf) Idle(id string) (*node.Document, *driver.Hardware, error) {
	return r.nodes[id], r.hw, nil
}

func (r *rackOf) SawPower(_ context.Context, n *node.Document, _ driver.PowerState, _ time.Time, _ bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := len(r.seen)
	if r.seen[n.UUID] = true; known < len(r.seen) && len(r.seen) == len(r.nodes) {
		close(r.all)
	}
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

// processor is what this process has taken.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most resident memory that a process has had, in MiB. It is 0 where the process has ended.
func peak(process string) float64 {
	text, _ := os.ReadFile("/proc/" + process + "/status")
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseFloat(kib, 64)
	return n / 1024
}

// fresh gives back what memory is free, and has the peak of this process begin again.
func fresh(b *testing.B) {
	b.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPowerSyncPass has power sync, with all its defaults and one processor, read 1,000 and 10,000 BMCs, as after a takeover: all are
// due at once. The BMCs are in another process. Its time is its pacing; cpu-us/read is what it takes of the processor.
// Then pyghmi reads the same BMCs, for two minutes at most, and ipmitool 1,000 of them: pyghmi-nodes and ipmitool-nodes say how many.
// A peer's read that fails is counted and not taken for a read; a wrong state is an error.
// Last, the driver alone reads as many as ipmitool, as many at once and without pacing: with a login each, then in the sessions it keeps.
// A ratio is how many times as many reads a second are made, a cpu-ratio how many times the peer's processor time for a read is ours.
// Each peak-MiB is the peak of one whole process.
func BenchmarkPowerSyncPass(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, size := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
			nodes := served(b, strconv.Itoa(size))
			for b.Loop() {
				ours := syncPass(b, nodes)
				p := pyghmiPass(b, nodes)
				p.report(b, "pyghmi-", ours)
				some := nodes[:min(size, mostByTool)]
				t := ipmitoolPass(b, some)
				t.report(b, "ipmitool-", ours)
				unpaced(b, some, t)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// taken is what reads have cost.
type taken struct {
	reads              int
	seconds, processor float64
	peak               float64 // MiB
	sockets            int
}

func (p taken) rate() float64 { return float64(p.reads) / p.seconds }

// report reports what a peer has taken, beside ours.
func (p taken) report(b *testing.B, name string, ours taken) {
	b.Helper()
	each, own := p.processor/float64(p.reads), ours.processor/float64(ours.reads)
	b.ReportMetric(float64(p.reads), name+"nodes")
	b.ReportMetric(p.seconds, name+"s")
	b.ReportMetric(p.rate(), name+"reads/s")
	b.ReportMetric(each*1e6, name+"cpu-us/read")
	b.ReportMetric(p.peak, name+"peak-MiB")
	b.ReportMetric(float64(p.sockets), name+"sockets")
	b.ReportMetric(ours.rate()/p.rate(), name+"ratio")
	b.ReportMetric(each/own, name+"cpu-ratio")
}

// syncPass has power sync read all nodes once.
func syncPass(b *testing.B, nodes []*node.Document) taken {
	b.Helper()
	d := New(Options{Networks: loopback})
	rest := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: d}},
		"management": {{Name: "m", Impl: d}}, "boot": {{Name: "b", Impl: rest.Boot()}}, "deploy": {{Name: "d", Impl: rest.Deploy()}}}})
	if err != nil {
		b.Fatal(err)
	}
	r := &rackOf{nodes: map[string]*node.Document{}, seen: map[string]bool{}, asked: make(chan struct{}, 1), all: make(chan struct{})}
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
	fresh(b)
	files := sockets(b)
	began, cpu := time.Now(), processor(b)
	go func() { done <- tasks.Run(ctx) }()
	<-r.asked // Hasten waits until the list has been taken up
	for id := range r.nodes {
		tasks.Hasten(powersync.Name, id, 0)
	}
	select {
	case <-r.all:
	case <-time.After(5 * time.Minute):
		b.Error("the pass has no end")
	}
	t := taken{reads: len(nodes), seconds: time.Since(began).Seconds(), processor: (processor(b) - cpu).Seconds(),
		peak: peak("self"), sockets: sockets(b) - files}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	cancel()
	if err := <-done; err != nil || len(r.seen) < len(nodes) || r.wrong > 0 {
		b.Errorf("%v; %d of %d were read, %d faults", err, len(r.seen), len(nodes), r.wrong)
	}
	if err := d.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(t.seconds, "s/pass")
	b.ReportMetric(t.rate(), "reads/s")
	b.ReportMetric(t.processor*1e6/float64(t.reads), "cpu-us/read")
	b.ReportMetric(t.peak, "peak-MiB")
	b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MiB")
	b.ReportMetric(float64(t.sockets), "sockets")
	return t
}

// unpaced has the driver alone read nodes as ipmitool has: with a login each, then in the sessions that are kept.
func unpaced(b *testing.B, nodes []*node.Document, tool taken) {
	b.Helper()
	d := New(Options{MaxBMCs: len(nodes), Networks: loopback})
	for _, round := range []string{"login", "session"} {
		began, cpu := time.Now(), processor(b)
		readAll(b, d, nodes, toolsAtOnce())
		rate := float64(len(nodes)) / time.Since(began).Seconds()
		b.ReportMetric(rate, round+"-reads/s")
		b.ReportMetric(float64((processor(b)-cpu).Microseconds())/float64(len(nodes)), round+"-cpu-us/read")
		b.ReportMetric(rate/tool.rate(), round+"-ratio")
	}
	if err := d.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
