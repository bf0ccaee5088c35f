package ipmi

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
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
