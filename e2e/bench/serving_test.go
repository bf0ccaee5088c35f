package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
)

const (
	kernelSize  = 8 << 20
	ramdiskSize = 24 << 20
	// fleetSize is how many machines ask for kernel and ramdisk at once.
	fleetSize = 200
	// rounds is how often each server is asked, in turn.
	rounds = 9
	// rackdAt and peerAt are addresses of the loopback interface, so that both servers of TFTP have its port.
	rackdAt, peerAt = "127.0.0.9", "127.0.0.10"
)

// source serves boot files: a rackd, or a peer.
type source struct {
	http string // base URL of the files
	tftp string // the same
	pids func() []int
}

// BenchmarkServing prints how fast a rackd serves kernel and ramdisk, by HTTP beside nginx and by TFTP beside dnsmasq, with their defaults
// and on the same loopback: one client, sixteen, and 200 machines at once. The servers are asked in turn. ratio is rackd's rate as a part
// of the peer's, of the median rounds; cpu-ratio is its processor time as a part of the peer's.
func BenchmarkServing(b *testing.B) {
	for _, name := range []string{"nginx", "dnsmasq", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			b.Fatal("needs nginx, dnsmasq and curl: make packages-bench installs them")
		}
	}
	files := map[string]int{bootfiles.Kernel: kernelSize, bootfiles.Ramdisk: ramdiskSize}
	dir := b.TempDir()
	for name, size := range files {
		content := make([]byte, size)
		rand.NewChaCha8([32]byte{9}).Read(content)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	ours := servingRackd(b, dir)
	web, tftp := servingNginx(b, dir), servingDnsmasq(b, dir)

	all := []string{bootfiles.Kernel, bootfiles.Ramdisk}
	for _, c := range []struct {
		name    string
		clients int
		peer    source
		load    func(ctx context.Context, s source, client int) error
		bytes   int
	}{
		{"http/one", 1, web, byHTTP(repeat(all, 64)...), 64 * (kernelSize + ramdiskSize)},
		{"http/sixteen", 16, web, byHTTP(repeat(all, 4)...), 16 * 4 * (kernelSize + ramdiskSize)},
		{"http/machines", fleetSize, web, byHTTP(all...), fleetSize * (kernelSize + ramdiskSize)},
		{"tftp/one", 1, tftp, byTFTP(all...), kernelSize + ramdiskSize},
		{"tftp/sixteen", 16, tftp, byTFTP(bootfiles.Kernel), 16 * kernelSize},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.peer.compare(b, ours, c.clients, c.bytes, c.load)
			}
		})
	}
}

func repeat(list []string, times int) (all []string) {
	for range times {
		all = append(all, list...)
	}
	return all
}

// compare asks both in turn and prints what that shows.
func (s source) compare(b *testing.B, ours source, clients, size int, load func(context.Context, source, int) error) {
	b.Helper()
	var rates, processor [2][]float64
	for round := range rounds + 1 {
		for i, from := range []source{ours, s} {
			used, began := ticks(from.pids()), time.Now()
			g, ctx := errgroup.WithContext(b.Context())
			for c := range clients {
				g.Go(func() error { return load(ctx, from, c) })
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			if round == 0 {
				continue // files are in memory from here on
			}
			rates[i] = append(rates[i], float64(size)/1e6/time.Since(began).Seconds())
			processor[i] = append(processor[i], float64((ticks(from.pids())-used).Milliseconds())/(float64(size)/1e9))
		}
	}
	median := func(list []float64) float64 { slices.Sort(list); return list[len(list)/2] }
	b.ReportMetric(median(rates[0]), "MB/s")
	b.ReportMetric(median(rates[1]), "peer-MB/s")
	b.ReportMetric(median(rates[0])/median(rates[1]), "ratio")
	b.ReportMetric(median(processor[0]), "cpu-ms/GB")
	b.ReportMetric(median(processor[1]), "peer-cpu-ms/GB")
	b.ReportMetric(0, "ns/op") // says nothing
}

// byHTTP loads files one after the other, each client from an address and over a connection of its own.
func byHTTP(files ...string) func(context.Context, source, int) error {
	return func(ctx context.Context, s source, client int) error {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: clientAddress(client)}}
		tr := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}
		defer tr.CloseIdleConnections()
		buf := make([]byte, 1<<20)
		for _, name := range files {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http+name, nil)
			if err != nil {
				return err
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				return err
			}
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buf)
			if err = errors.Join(err, resp.Body.Close()); err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK || n != resp.ContentLength || n < kernelSize {
				return fmt.Errorf("%s: HTTP status %d, %d bytes", req.URL, resp.StatusCode, n)
			}
		}
		return nil
	}
}

// byTFTP loads files one after the other with the largest blocks that fit into a packet of Ethernet.
func byTFTP(files ...string) func(context.Context, source, int) error {
	return func(ctx context.Context, s source, client int) error {
		for _, name := range files {
			cmd := exec.CommandContext(ctx, "curl", "-sS", "--interface", clientAddress(client).String(), "--tftp-blksize", "1468",
				"-o", "/dev/null", "-w", "%{size_download}", s.tftp+name)
			out, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("%s: %w", cmd, err)
			}
			if n, _ := strconv.Atoi(string(out)); n < kernelSize {
				return fmt.Errorf("%s: %s bytes", cmd, out)
			}
		}
		return nil
	}
}

// clientAddress is that of a client: servers bound what one address is given.
func clientAddress(client int) net.IP { return net.IPv4(127, 0, 1, byte(client+1)) }

// ticks is what processes have used of the processors.
func ticks(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		for _, t := range f[11:13] { // user and system time, in hundredths of a second
			n, _ := strconv.ParseInt(string(t), 10, 64)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

// servingRackd is a real rackd that serves the files, without machines.
func servingRackd(b *testing.B, dir string) source {
	b.Helper()
	port := freePort(b, rackdAt)
	r := newRackd(b, newSite(b, nil), "rackd-1", "--interface", "lo", "--address", rackdAt, "--prefix", "8", "--dhcp", "off",
		"--no-router-advertisements", "--http-port", port, "--agent-port", freePort(b, rackdAt),
		"--kernel", filepath.Join(dir, bootfiles.Kernel), "--ramdisk", filepath.Join(dir, bootfiles.Ramdisk))
	r.ready(b)
	return source{http: "http://" + net.JoinHostPort(rackdAt, port) + "/files/", tftp: "tftp://" + rackdAt + "/",
		pids: func() []int { return []int{r.cmd.Process.Pid} }}
}

// servingNginx is nginx as Debian configures it, but for what it serves and where its own files are.
func servingNginx(b *testing.B, dir string) source {
	b.Helper()
	own, port := b.TempDir(), freePort(b, peerAt)
	config := fmt.Sprintf(`user root; worker_processes auto; pid %[1]s/pid; error_log %[1]s/error.log; daemon off;
events { worker_connections 768; }
http { sendfile on; tcp_nopush on; access_log %[1]s/access.log; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f;
uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s; server { listen %[2]s:%[3]s; root %[4]s; } }
`, own, peerAt, port, dir)
	file := filepath.Join(own, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := peer(b, filepath.Join(own, "log"), "nginx", "-c", file, "-p", own)
	waitTCP(b, net.JoinHostPort(peerAt, port), filepath.Join(own, "log"))
	return source{http: "http://" + net.JoinHostPort(peerAt, port) + "/", pids: func() []int { return append(children(cmd.Process.Pid), cmd.Process.Pid) }}
}

// servingDnsmasq is dnsmasq with TFTP alone.
func servingDnsmasq(b *testing.B, dir string) source {
	b.Helper()
	own := b.TempDir()
	cmd := peer(b, filepath.Join(own, "log"), "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--enable-tftp", "--tftp-root="+dir,
		"--bind-interfaces", "--listen-address="+peerAt, "--user=root", "--pid-file="+filepath.Join(own, "pid"))
	s := source{tftp: "tftp://" + peerAt + "/", pids: func() []int { return append(children(cmd.Process.Pid), cmd.Process.Pid) }}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := byTFTP(bootfiles.Kernel)(b.Context(), s, 0)
		if err == nil {
			return s
		}
		if time.Now().After(end) {
			b.Fatalf("dnsmasq serves nothing: %v\n%s", err, tail(filepath.Join(own, "log")))
		}
	}
}

// peer starts a foreign server, which ends with the benchmark.
func peer(b *testing.B, log string, name string, args ...string) *exec.Cmd {
	b.Helper()
	f, err := os.Create(log)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
	return cmd
}

// children are the processes that another has started.
func children(pid int) (list []int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	if err != nil {
		return nil
	}
	for _, f := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(f); err == nil {
			list = append(list, child)
		}
	}
	return list
}

func freePort(b *testing.B, at string) string {
	b.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func waitTCP(b *testing.B, at, log string) {
	b.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			b.Fatalf("no server at %s: %v\n%s", at, err, tail(log))
		}
	}
}
