package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ironyard/ironyard/central/audit"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
)

// BenchmarkNodes is what the API itself takes for nodes of ordinary size, HTTP and
// network left out: for a page of 1,000 in detail, whose figures are for each node, and
// for a single one. "kept": they have been shown before; "anew": they have not. The
// database is SQLite, and part of it.
func BenchmarkNodes(b *testing.B) {
	const nodes = 1000
	s := newBench(b)
	s.server.routed = nil
	s.addNodes(b, nodes)
	for _, what := range []struct {
		name  string
		path  func(i int) string
		nodes int
	}{
		{"page", func(int) string { return "/v1/nodes/detail?limit=1000" }, nodes},
		{"single", func(i int) string { return "/v1/nodes/" + ordinaryUUID(i%nodes) }, 1},
	} {
		for _, keeps := range []bool{true, false} {
			b.Run(what.name+"/"+map[bool]string{true: "kept", false: "anew"}[keeps], func(b *testing.B) {
				if keeps {
					s.get(b, "/v1/nodes/detail?limit=1000")
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				i, size := 0, 0
				for b.Loop() {
					if !keeps {
						s.server.encoded = encodedNodes{now: s.server.Now}
					}
					size = s.get(b, what.path(i))
					i++
				}
				runtime.ReadMemStats(&after)
				per := float64(i * what.nodes)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/per, "ns/node")
				b.ReportMetric(float64(after.Mallocs-before.Mallocs)/per, "allocs/node")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/per, "B/node")
				b.ReportMetric(float64(size)/float64(what.nodes), "answer-B/node")
				b.ReportMetric(0, "ns/op") // of pages of that length
			})
		}
	}
}

// get asks and returns the length of the answer.
func (b *bench) get(t testing.TB, path string) int {
	return b.send(t, http.MethodGet, path, "", http.StatusOK)
}

// send sends a request, checks the answer's status and returns its length. It is safe for
// concurrent use.
func (b *bench) send(t testing.TB, method, path, body string, want int) int {
	r, err := http.NewRequest(method, "http://ironyard.example:6385"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:4711"
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
	w := sink{header: http.Header{}}
	b.server.ServeHTTP(&w, r)
	if w.status != want {
		t.Errorf("%s %s: status %d, want %d", method, path, w.status, want)
		return 0
	}
	if told := w.header.Get("Content-Length"); told != strconv.Itoa(w.size) {
		t.Errorf("%s %s: %d bytes, of which the header says %s", method, path, w.size, told)
	}
	return w.size
}

// addNodes fills the database with ordinary nodes.
func (b *bench) addNodes(t testing.TB, n int) {
	err := b.store.Update(context.Background(), func(ctx context.Context, tx *store.Tx) error {
		for i := range n {
			if err := tx.InsertNode(ctx, ordinaryNode(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sink is a client that forgets.
type sink struct {
	header       http.Header
	status, size int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { s.size += len(p); return len(p), nil }

func ordinaryUUID(i int) string { return fmt.Sprintf("11111111-2222-4333-8444-%012d", i) }

func ordinaryNode(i int) *store.Node {
	n := &store.Node{UUID: ordinaryUUID(i), Name: fmt.Sprintf("node-%06d", i), Driver: "fake-hardware", ResourceClass: "baremetal",
		AcceptedState: provision.Available, Owner: fmt.Sprintf("project-%d", i%40), Description: fmt.Sprintf("a machine of rack %d", i/40),
		DriverInfo: map[string]any{"redfish_address": "https://10.0.0.1", "redfish_username": "operator", "redfish_password": "sealed:v1:" + strings.Repeat("x", 60),
			"redfish_system_id": "/redfish/v1/Systems/1", "deploy_kernel": "http://images.example/kernel", "deploy_ramdisk": "http://images.example/ramdisk"},
		Properties:   map[string]any{"cpus": 64, "memory_mb": 262144, "local_gb": 1800, "cpu_arch": "x86_64", "capabilities": "boot_mode:uefi,profile:compute"},
		InstanceInfo: map[string]any{"image_source": "http://images.example/os.raw", "capabilities": map[string]any{"boot_option": "local"}},
		Extra:        map[string]any{"rack": i / 40, "unit": i % 40, "asset": fmt.Sprintf("A%07d", i)},
		Interfaces:   map[string]string{}, Traits: []string{"CUSTOM_GOLD", "HW_CPU_X86_VMX"}}
	for _, kind := range node.InterfaceKinds {
		n.Interfaces[kind] = "fake"
	}
	return n
}

// BenchmarkWrites is what new nodes and changed ones take, asked for by 16 at once: the API
// and the database, SQLite, with what each transaction notes. HTTP and network are left
// out, and so is what follows: relay, bus and racks.
func BenchmarkWrites(b *testing.B) {
	const clients = 16
	for _, what := range []struct {
		name, method string
		path, body   func(i int64) string
		want         int
	}{
		{"create", "POST", func(int64) string { return "/v1/nodes" }, func(i int64) string {
			return fmt.Sprintf(`{"name":"new-%08d","driver":"fake-hardware","driver_info":{"fake_address":"10.0.0.%d"},`+
				`"properties":{"cpus":64,"memory_mb":262144,"local_gb":1800,"cpu_arch":"x86_64"},"extra":{"rack":"r%d"}}`, i, i%250, i%16)
		}, http.StatusCreated},
		{"patch", "PATCH", func(i int64) string { return "/v1/nodes/" + ordinaryUUID(int(i*7919%1000)) }, func(i int64) string {
			return fmt.Sprintf(`[{"op":"add","path":"/extra/round","value":"%d"}]`, i)
		}, http.StatusOK},
	} {
		b.Run(what.name, func(b *testing.B) {
			s := newBench(b)
			s.server.routed = nil
			s.server.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
			s.server.Audit = audit.New(audit.Config{Store: s.store, Log: s.server.Log})
			s.addNodes(b, 1000)
			var last atomic.Int64
			var used, now syscall.Rusage
			syscall.Getrusage(syscall.RUSAGE_SELF, &used)
			b.ReportAllocs()
			b.SetParallelism(clients / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := last.Add(1)
					s.send(b, what.method, what.path(i), what.body(i), what.want)
				}
			})
			syscall.Getrusage(syscall.RUSAGE_SELF, &now)
			spent := now.Utime.Nano() + now.Stime.Nano() - used.Utime.Nano() - used.Stime.Nano()
			b.ReportMetric(float64(spent)/1000/float64(b.N), "cpu-us/op")
		})
	}
}
