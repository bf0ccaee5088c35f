package ipmi

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/transport/udp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// fleet starts BMCs, half of whose machines are on, and returns their nodes. All have one port, each an address of its own: Linux has
// 127.0.0.0/8 for that.
func fleet(t testing.TB, size int) (nodes []*node.Document) {
	t.Helper()
	for i := range size {
		b := bmc.New(bmc.DeviceInfo{IPMIVersion: 0x02}, [16]byte{1}, board{mock.New(), &chassis{on: i%2 == 0}})
		added, err := b.Users.Add(2, "admin")
		if err != nil {
			t.Fatal(err)
		}
		added.Enabled = true
		added.SetPassword([]byte("s3cret-pass"))
		added.ChannelAccess = map[uint8]bmc.UserChannelAccess{1: {MaxPrivilege: bmc.PrivilegeLevelAdministrator, Enabled: true}}
		if err := b.Users.Update(2, func(live *bmc.User) error { *live = *added; return nil }); err != nil {
			t.Fatal(err)
		}
		host := fmt.Sprintf("127.7.%d.%d", i/250, i%250+1)
		conn, err := udp.Listen(host + ":0")
		if err != nil {
			t.Fatal(err)
		}
		s := server.NewServer(b, conn)
		served := make(chan error, 1)
		go func() { served <- s.Serve(t.Context()) }()
		t.Cleanup(func() { s.Close(); <-served })
		port := conn.LocalAddr().String()[len(host)+1:]
		nodes = append(nodes, &node.Document{UUID: "node-" + strconv.Itoa(i), DriverInfo: map[string]any{fieldAddress: host, fieldPort: port, fieldUser: "admin", fieldPassword: "s3cret-pass"}})
	}
	return nodes
}

// readAll reads the power of all nodes, so many at once.
func readAll(t testing.TB, d *Driver, nodes []*node.Document, atOnce int) {
	var all sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		all.Go(func() {
			for i := range next {
				want := driver.PowerOff
				if i%2 == 0 {
					want = driver.PowerOn
				}
				if state, err := d.PowerState(t.Context(), nodes[i]); err != nil || state != want {
					t.Errorf("node %d: %q, %v; want %q", i, state, err, want)
				}
			}
		})
	}
	for i := range nodes {
		next <- i
	}
	close(next)
	all.Wait()
}

// sockets counts this process's open files.
func sockets(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// begun counts the goroutines once all that were started have begun theirs: the number stays for a while.
func begun(t *testing.T) int {
	t.Helper()
	for last, deadline := -1, time.Now().Add(20*time.Second); ; {
		n := runtime.NumGoroutine()
		if n == last {
			return n
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, and still more begin", n)
		}
		last = n
		time.Sleep(300 * time.Millisecond)
	}
}

// settles waits until the process has no more open files and goroutines than before.
func settles(t *testing.T, what string, files, goroutines int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		f, g := sockets(t), runtime.NumGoroutine()
		if f <= files && g <= goroutines {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d open files and %d goroutines, want %d and %d", what, f, g, files, goroutines)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Reading a thousand BMCs again and again leaves no socket behind, however few of them the pool may hold.
func TestThousandBMCs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a thousand BMCs")
	}
	nodes := fleet(t, 1000)
	files, goroutines := sockets(t), begun(t)
	const most = 100
	d := New(Options{MaxBMCs: most, Networks: loopback, Idle: 2 * time.Second})
	for range 3 {
		readAll(t, d, nodes, 20)
		// The BMCs that the pool sends away log out beside the reads.
		settles(t, "after a round", files+most+20, goroutines+100)
	}
	settles(t, "when nothing was asked for a while", files, goroutines+1)
	readAll(t, d, nodes[:200], 20)
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	settles(t, "after Close", files, goroutines)
}

// BenchmarkPowerOf10000 reads the power of 10,000 nodes with as many logins: no more than 50 sessions are kept, so that each read logs in,
// and another session is logged out for it. 500 BMCs are read 20 times. They are in this process, and part of what is measured.
func BenchmarkPowerOf10000(b *testing.B) {
	for _, processors := range []int{1, runtime.NumCPU()} {
		b.Run(fmt.Sprintf("processors=%d", processors), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			nodes := fleet(b, 500)
			for b.Loop() {
				d := New(Options{MaxBMCs: 50, Networks: loopback})
				for range 20 {
					readAll(b, d, nodes, 50)
				}
				if err := d.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/10000-reads")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkPowerInSession reads the power in sessions that are open already.
func BenchmarkPowerInSession(b *testing.B) {
	nodes := fleet(b, 100)
	d := New(Options{Networks: loopback, Pace: 10_000})
	readAll(b, d, nodes, 20)
	for i := 0; b.Loop(); i++ {
		if _, err := d.PowerState(b.Context(), nodes[i%len(nodes)]); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
