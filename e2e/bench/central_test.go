package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// window is how long each figure of BenchmarkAPI is measured.
func window(b *testing.B) time.Duration {
	return time.Duration(numbers(b, "IRONYARD_BENCH_SECONDS", "3")[0]) * time.Second
}

// BenchmarkAPI prints what 16 clients get of central over HTTP, with so many nodes in
// the database: whole pages, single nodes, new nodes and changed ones (patches of what only
// central sees, and of what the node's rack is told), each of them on the disk before it is
// answered. Central, its relay, the bus and a rackd are in this process; PostgreSQL, which
// syncs its log, is on the same machine. Set IRONYARD_BENCH_NODES to a list of sizes for
// less, and IRONYARD_BENCH_SECONDS to how long each figure is measured.
func BenchmarkAPI(b *testing.B) {
	for _, engine := range engines() {
		for _, size := range sizes(b) {
			b.Run(fmt.Sprintf("%s/nodes=%d", engine, size), func(b *testing.B) {
				benchmarkAPI(b, engine, size)
			})
		}
	}
}

// engines are the databases, those that IRONYARD_BENCH_ENGINES lists.
func engines() []string {
	return strings.Split(cmp.Or(os.Getenv("IRONYARD_BENCH_ENGINES"), "sqlite,postgresql"), ",")
}

func sizes(b *testing.B) []int { return numbers(b, "IRONYARD_BENCH_NODES", "1000,10000,100000") }

// numbers is a list from the environment.
func numbers(b *testing.B, name, preset string) (list []int) {
	for text := range strings.SplitSeq(cmp.Or(os.Getenv(name), preset), ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		list = append(list, n)
	}
	return list
}

func benchmarkAPI(b *testing.B, engine string, size int) {
	database := databaseURL(b, engine)
	s := runFleet(b, database)
	ids := enrol(b, s, size)
	settle(b, database)
	at := strings.TrimPrefix(s.Endpoint, "http://")
	figures := map[string]outcome{}
	run := func(what string, next func(client, i int) call) {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				o := crowd(b, at, window(b), next)
				figures[what] = o
				o.report(b, what)
			}
		})
	}
	pick := func(client, i int) string { return ids[(client*7919+i*104729)%len(ids)] }
	run("pages", func(int, int) call {
		return call{method: "GET", path: "/v1/nodes/detail?limit=1000", want: http.StatusOK}
	})
	run("shows", func(c, i int) call {
		return call{method: "GET", path: "/v1/nodes/" + pick(c, i), want: http.StatusOK}
	})
	run("patches", func(c, i int) call { return patch(pick(c, i), "extra", c, i) })
	run("rack-patches", func(c, i int) call { return patch(pick(c, i), "properties", c, i) })
	run("creates", func(c, i int) call {
		return call{method: "POST", path: "/v1/nodes", want: http.StatusCreated, body: fmt.Appendf(nil, `{"name":"new-%s","driver":"fake-hardware",`+
			`"driver_info":{"fake_address":"10.0.0.%d"},"properties":{"cpus":64,"memory_mb":262144,"local_gb":1800,"cpu_arch":"x86_64"},"extra":{"rack":"r%d"}}`,
			uuid.NewString(), i%250, c)}
	})
	keep(b, engine, size, figures)
}

// patch changes an object of a node. Of its properties the node's rack is told, of extra
// it is not.
func patch(node, object string, c, i int) call {
	return call{method: http.MethodPatch, path: "/v1/nodes/" + node, want: http.StatusOK,
		body: fmt.Appendf(nil, `[{"op":"add","path":"/%s/round","value":"%d-%d"}]`, object, c, i)}
}

// keep adds figures to the JSON lines of the file that IRONYARD_BENCH_JSON names.
func keep(b *testing.B, engine string, size int, figures map[string]outcome) {
	path := os.Getenv("IRONYARD_BENCH_JSON")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for what, o := range figures {
		err := json.NewEncoder(f).Encode(map[string]any{"engine": engine, "nodes": size, "measure": what, "per_second": o.perSecond(),
			"p50_ms": o.p50.Seconds() * 1000, "p99_ms": o.p99.Seconds() * 1000, "cpu_us": float64(o.cpu.Microseconds()) / float64(o.calls), "megabytes": float64(o.bytes) / 1e6})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// cluster is one PostgreSQL for all benchmarks of this binary, nil when none asked for it.
var cluster *storetest.Postgres

var durable = sync.OnceValues(func() (_ *storetest.Postgres, err error) {
	cluster, err = storetest.StartDurablePostgres(context.Background())
	return cluster, err
})

// databaseURL makes a new database of the engine; empty: SQLite in the fleet's folder.
func databaseURL(b *testing.B, engine string) string {
	if engine == "sqlite" {
		return ""
	}
	p, err := durable()
	if err != nil {
		b.Fatal(err)
	}
	return p.Database(b)
}

// settle has PostgreSQL do at once what it does by itself a minute after many rows were
// added: it looks at them, and marks them as committed, which who reads them first would do
// otherwise. It is not told to write them to its files: the next to write to a page logs all
// of it after that, which is the price of minutes in these seconds.
func settle(b *testing.B, database string) {
	b.Helper()
	if database == "" {
		return
	}
	c, err := pgx.Connect(b.Context(), database)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(b.Context()))
	if _, err := c.Exec(b.Context(), "VACUUM (ANALYZE)"); err != nil {
		b.Fatalf("VACUUM: %v", err)
	}
}

// runFleet runs central with its bus and a rackd of fake machines until b ends. Without a
// database it is SQLite's, in a folder of its own.
func runFleet(b *testing.B, database string) *stack.Stack {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	data := b.TempDir() // it goes after the fleet has stopped
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: data, Database: database,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, func(s *stack.Stack) { up <- s })
	}()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	select {
	case s := <-up:
		return s
	case err := <-done:
		done <- nil
		b.Fatalf("the fleet did not start: %v", err)
	}
	return nil
}

// enrol fills the database with nodes of ordinary size.
func enrol(b *testing.B, s *stack.Stack, n int) (ids []string) {
	b.Helper()
	const part = 500
	for len(ids) < n {
		err := s.Store.Update(b.Context(), func(ctx context.Context, tx *store.Tx) error {
			for i := range min(part, n-len(ids)) {
				n := ordinaryNode(len(ids) + i)
				n.DriverInfo = s.Key.SealFields(seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, n.DriverInfo)
				if err := tx.InsertNode(ctx, n); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		for range min(part, n-len(ids)) {
			ids = append(ids, nodeUUID(len(ids)))
		}
	}
	return ids
}

func nodeUUID(i int) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(strconv.Itoa(i))).String() }

func ordinaryNode(i int) *store.Node {
	n := &store.Node{UUID: nodeUUID(i), Name: fmt.Sprintf("node-%06d", i), Driver: "fake-hardware", ResourceClass: "baremetal",
		AcceptedState: provision.Available, Owner: fmt.Sprintf("project-%d", i%40), Shard: fmt.Sprintf("shard-%d", i%16),
		Description: "a machine of rack " + strconv.Itoa(i/40), Interfaces: map[string]string{},
		DriverInfo: map[string]any{"redfish_address": fmt.Sprintf("https://10.%d.%d.%d", i>>16, i>>8&255, i&255), "redfish_username": "operator",
			"redfish_password":  strings.Repeat("x", 12),
			"redfish_system_id": "/redfish/v1/Systems/1", "deploy_kernel": "http://images.example/kernel", "deploy_ramdisk": "http://images.example/ramdisk"},
		Properties:   map[string]any{"cpus": 64, "memory_mb": 262144, "local_gb": 1800, "cpu_arch": "x86_64", "capabilities": "boot_mode:uefi,profile:compute"},
		InstanceInfo: map[string]any{"image_source": "http://images.example/os.raw", "capabilities": map[string]any{"boot_option": "local"}},
		Extra:        map[string]any{"rack": i / 40, "unit": i % 40, "asset": fmt.Sprintf("A%07d", i)},
		Traits:       []string{"CUSTOM_GOLD", "HW_CPU_X86_VMX"}}
	for _, kind := range []string{"bios", "boot", "console", "deploy", "firmware", "inspect", "management", "network", "power", "raid", "rescue", "storage", "vendor"} {
		n.Interfaces[kind] = "fake"
	}
	return n
}
