package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

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
	err := s.store.Update(context.Background(), func(ctx context.Context, tx *store.Tx) error {
		for i := range nodes {
			if err := tx.InsertNode(ctx, ordinaryNode(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
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
	r, err := http.NewRequest("GET", "http://ironyard.example:6385"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
	w := sink{header: http.Header{}}
	b.server.ServeHTTP(&w, r)
	if w.status != http.StatusOK {
		t.Fatalf("GET %s: status %d\n%s", path, w.status, b.log.String())
	}
	if told := w.header.Get("Content-Length"); told != strconv.Itoa(w.size) {
		t.Fatalf("GET %s: %d bytes, of which the header says %s", path, w.size, told)
	}
	return w.size
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
