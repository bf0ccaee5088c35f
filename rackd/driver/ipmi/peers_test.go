package ipmi

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
)

// mostByTool is how many BMCs ipmitool reads: 10,000 would take minutes, and it costs the same for each.
const mostByTool = 1_000

// toolsAtOnce is how many processes of ipmitool run at once.
func toolsAtOnce() int { return 4 * runtime.NumCPU() }

// ipmitoolPass has ipmitool, which Ironic runs for each read, read all nodes: a process and a login for each.
// Memory is that of one process, and sockets are one process's times those that run at once.
func ipmitoolPass(b *testing.B, nodes []*node.Document) taken {
	b.Helper()
	secret := filepath.Join(b.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("s3cret-pass"), 0o600); err != nil {
		b.Fatal(err)
	}
	var t taken
	t.peak, t.sockets = watched(b, ipmitool(b, nodes[0], secret))
	t.sockets *= toolsAtOnce()
	var cpu, failed atomic.Int64
	var all sync.WaitGroup
	next := make(chan int)
	began := time.Now()
	for range toolsAtOnce() {
		all.Go(func() {
			for i := range next {
				c := ipmitool(b, nodes[i], secret)
				want := "Chassis Power is off"
				if i%2 == 0 {
					want = "Chassis Power is on"
				}
				if out, err := c.CombinedOutput(); err != nil {
					failed.Add(1)
				} else if !strings.Contains(string(out), want) {
					b.Errorf("ipmitool on node %d: %s; want %q", i, out, want)
				}
				cpu.Add(int64(c.ProcessState.UserTime() + c.ProcessState.SystemTime()))
			}
		})
	}
	for i := range nodes {
		next <- i
	}
	close(next)
	all.Wait()
	if t.reads = len(nodes) - int(failed.Load()); t.reads == 0 {
		b.Fatal("ipmitool has read no node")
	}
	b.ReportMetric(float64(failed.Load()), "ipmitool-failed")
	t.seconds, t.processor = time.Since(began).Seconds(), time.Duration(cpu.Load()).Seconds()
	return t
}

func ipmitool(b *testing.B, n *node.Document, secret string) *exec.Cmd {
	return exec.CommandContext(b.Context(), "ipmitool", "-I", "lanplus", "-C", "3", "-H", n.DriverString(fieldAddress), "-p", n.DriverString(fieldPort),
		"-U", "admin", "-f", secret, "power", "status")
}

// watched runs a program, and returns the peak of its memory and the most sockets that it had at once. It looks all the while: what the
// kernel tells of an ended process has the memory of the one that started it in it.
func watched(b *testing.B, c *exec.Cmd) (most float64, sockets int) {
	b.Helper()
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	process := strconv.Itoa(c.Process.Pid)
	for {
		now := peak(process)
		if now == 0 {
			break
		}
		most = max(most, now)
		count := 0
		list, _ := filepath.Glob("/proc/" + process + "/fd/*")
		for _, at := range list {
			if to, err := os.Readlink(at); err == nil && strings.HasPrefix(to, "socket:") {
				count++
			}
		}
		sockets = max(sockets, count)
	}
	if err := c.Wait(); err != nil || most == 0 || sockets == 0 {
		b.Fatalf("%s: %v; it was seen with %.1f MiB and %d sockets", c.Path, err, most, sockets)
	}
	return most, sockets
}

// readByPyghmi reads the power of BMCs by pyghmi, a library for IPMI in Python, as Ironic's driver of before did: in green threads of
// eventlet, as many as Ironic's power sync has workers by default, and the sessions are kept. After the given seconds no read begins.
// It prints reads, seconds, seconds of the processor, MiB at the peak, sockets, and what failed.
const readByPyghmi = `
import eventlet
eventlet.monkey_patch()
import glob, json, os, sys, time
from pyghmi.ipmi import command
ask = json.load(sys.stdin)
kept, failed, wrong = [], [], []
def read(i, host, port):
    try:
        c = command.Command(bmc=host, userid="admin", password="s3cret-pass", port=int(port))
        state = c.get_power()["powerstate"]
    except Exception as e:
        failed.append("%s:%s: %r" % (host, port, e))
        return
    kept.append(c)
    if state != ("off" if i % 2 else "on"):
        wrong.append("%s:%s: %s" % (host, port, state))
pool = eventlet.GreenPool(ask["workers"])
began, cpu = time.time(), time.process_time()
for i, (host, port) in enumerate(ask["bmcs"]):
    if time.time() - began > ask["seconds"]:
        break
    pool.spawn_n(read, i, host, port)
pool.waitall()
took, cpu = time.time() - began, time.process_time() - cpu
def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""
sockets = sum(link(p).startswith("socket:") for p in glob.glob("/proc/self/fd/*"))
peak = [int(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("VmHWM")][0]
print(json.dumps({"reads": len(kept), "seconds": took, "cpu": cpu, "peak": peak, "sockets": sockets, "failed": failed, "wrong": wrong}))
sys.stdout.flush()
os._exit(0) # its threads have no end
`

const (
	// pyghmiSeconds bounds pyghmi's pass: the more sessions it keeps, the slower it is.
	pyghmiSeconds = 120
	// pyghmiWorkers is Ironic's default of sync_power_state_workers. With 32 pyghmi makes fewer reads a second.
	pyghmiWorkers = 8
)

// pyghmiPass has one process of pyghmi read the nodes, or as many as it can in its time. Each session is kept.
func pyghmiPass(b *testing.B, nodes []*node.Document) taken {
	b.Helper()
	var bmcs [][2]string
	for _, n := range nodes {
		bmcs = append(bmcs, [2]string{n.DriverString(fieldAddress), n.DriverString(fieldPort)})
	}
	asked, err := json.Marshal(map[string]any{"bmcs": bmcs, "seconds": pyghmiSeconds, "workers": pyghmiWorkers})
	if err != nil {
		b.Fatal(err)
	}
	p := exec.CommandContext(b.Context(), "/usr/bin/python3", "-c", readByPyghmi)
	var why strings.Builder
	p.Stdin, p.Stderr = strings.NewReader(string(asked)), &why
	out, err := p.Output()
	if err != nil {
		b.Fatalf("pyghmi: %v: %.2000s", err, why.String())
	}
	var said struct {
		Reads, Sockets     int
		Seconds, CPU, Peak float64
		Failed, Wrong      []string
	}
	if err := json.Unmarshal(out, &said); err != nil {
		b.Fatalf("pyghmi: %v: %.2000q", err, out)
	}
	if said.Reads == 0 || len(said.Wrong) > 0 {
		b.Fatalf("pyghmi has read %d of %d nodes; wrong: %.1000q; failed: %.1000q", said.Reads, len(nodes), said.Wrong, said.Failed)
	}
	b.ReportMetric(float64(len(said.Failed)), "pyghmi-failed")
	return taken{reads: said.Reads, seconds: said.Seconds, processor: said.CPU, peak: said.Peak, sockets: said.Sockets}
}
