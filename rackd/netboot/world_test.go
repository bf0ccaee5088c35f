package netboot_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/bootweb"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/netboot/tftp"
)

const (
	mac    = "52:54:00:12:34:56"
	bridge = "br0"
	tap    = "tap0"
)

var (
	self  = netip.MustParseAddr("10.78.0.1")
	self6 = netip.MustParseAddr("fd00:78::1")
)

// inNamespace runs the test once more, in a network namespace of its own with a
// bridge and a tap. It reports whether this is that run.
func inNamespace(t *testing.T) bool {
	if os.Getenv("NETBOOT_TEST_INSIDE") != "" {
		return true
	}
	ns := fmt.Sprintf("netboot-test-%d", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s (run as root, with iproute2)", strings.Join(args, " "), err, out)
		}
	}
	ip("netns", "add", ns)
	t.Cleanup(func() { ip("netns", "del", ns) })
	ip("-n", ns, "link", "set", "lo", "up")
	ip("-n", ns, "link", "add", bridge, "type", "bridge")
	ip("-n", ns, "addr", "add", self.String()+"/24", "dev", bridge)
	ip("-n", ns, "addr", "add", self6.String()+"/64", "dev", bridge, "nodad")
	ip("-n", ns, "link", "set", bridge, "up")
	ip("-n", ns, "tuntap", "add", tap, "mode", "tap")
	ip("-n", ns, "link", "set", tap, "master", bridge, "up")
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", ns, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), "NETBOOT_TEST_INSIDE=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // as it comes: this takes minutes
	if err := cmd.Run(); err != nil {
		t.Errorf("the run in the namespace failed: %v", err)
	}
	return false
}

// world is a rack with one machine, and what it has been seen to do.
type world struct {
	t      *testing.T
	kernel string // path
	asks   func(request []byte)

	mu      sync.Mutex
	machine netboot.Machine
	console bytes.Buffer
	seen    []string
	leases  int
	change  chan struct{} // closed and replaced at each change
	// unheard: the machine's address is not known until it has spoken DHCP after it was told to.
	unheard bool
	waited  int // leases when it was told
	dhcp    *dhcp.Server
	dhcp6   *dhcp.Server6 // in a world of IPv6, in dhcp's place
}

func (w *world) ByMAC(m string) (netboot.Machine, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.machine
	if w.unheard {
		known.Hears = true
		if w.waited == 0 && strings.Contains(w.console.String(), "Ironyard: the boot waits.") {
			w.waited = w.leases
		}
		if w.waited > 0 && w.leases > w.waited {
			known.Addresses = w.knows()
		}
	}
	return known, m == mac
}

func (w *world) ByUUID(string) (netboot.Machine, bool) { return netboot.Machine{}, false }

func (w *world) Seen(_, phase, detail string) {
	w.note(func() { w.seen = append(w.seen, phase+": "+detail) })
}

func (w *world) Leased(mac string, _ netip.Addr, phase, detail string) {
	if phase != "" {
		w.note(func() { w.leases++ })
		w.Seen(mac, phase, detail)
	}
}

// Write takes what the machine prints on its serial line.
func (w *world) Write(b []byte) (int, error) {
	w.note(func() { w.console.Write(b) })
	return len(b), nil
}

func (w *world) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.change)
	w.change = make(chan struct{})
}

// until waits until ok says so of the journal and the console; ok runs under the lock.
func (w *world) until(what string, ok func(seen []string, console string) bool) {
	w.t.Helper()
	limit := time.After(10 * time.Minute)
	for {
		w.mu.Lock()
		done, change := ok(w.seen, w.console.String()), w.change
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-change:
		case <-limit:
			w.mu.Lock()
			defer w.mu.Unlock()
			w.t.Fatalf("%s: not seen.\nJournal:\n%s\nConsole:\n%s", what, strings.Join(w.seen, "\n"), w.console.String())
		}
	}
}

// phases waits until the journal has the phases, in this order, others between them.
func (w *world) phases(want ...string) {
	w.t.Helper()
	w.until(strings.Join(want, ", then "), func(seen []string, _ string) bool {
		left := want
		for _, s := range seen {
			if len(left) > 0 && strings.HasPrefix(s, left[0]) {
				left = left[1:]
			}
		}
		return len(left) == 0
	})
}

// has reports whether the journal has a phase.
func (w *world) has(phase string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.seen, func(s string) bool { return strings.HasPrefix(s, phase) })
}

func (w *world) says(text string) {
	w.t.Helper()
	w.until("console says "+text, func(_ []string, console string) bool { return strings.Contains(console, text) })
}

// newWorld starts DHCP, TFTP and the boot web. The kernel is iPXE once more: any
// program that this firmware can start will do.
func newWorld(t *testing.T, m netboot.Machine, kernel string) *world {
	return worldWith(t, m, kernel, func(*setting) {})
}

// setting is what may differ between worlds.
type setting struct {
	loaders map[string]string                           // boot loaders besides iPXE
	wrap    func(*world, net.PacketConn) net.PacketConn // around the connection of DHCP; nil: nothing
	mode    dhcp.Mode
	uki     string               // the ramdisk as one program; empty: none
	arm64   string               // the same for arm64
	asks    func(request []byte) // is shown each request of TFTP; nil: nothing is
}

// worldWith is newWorld with other settings.
func worldWith(t *testing.T, m netboot.Machine, kernel string, change func(*setting)) *world {
	set := setting{mode: dhcp.Serve}
	change(&set)
	w, files := bareWorld(t, m, kernel, set)
	at := ipxescript.Server{HTTP: "http://" + self.String() + ":8080", TFTP: "tftp://" + self.String()}
	d, err := dhcp.New(dhcp.Config{Mode: set.mode, ServerIP: self, From: self, To: netip.MustParseAddr("10.78.0.20"), Mask: net.CIDRMask(24, 32),
		HTTP: at.HTTP, TFTP: at.TFTP, LeaseFile: filepath.Join(filepath.Dir(w.kernel), "leases"), Directory: w, Journal: w, Log: quiet, Loaders: len(set.loaders) > 0, Serves: files.Has})
	if err != nil {
		t.Fatal(err)
	}
	w.dhcp = d
	on67, err := server4.NewIPv4UDPConn(bridge, &net.UDPAddr{IP: net.IPv4zero, Port: 67})
	if err != nil {
		t.Fatal(err)
	}
	var asks net.PacketConn = on67
	if set.wrap != nil {
		asks = set.wrap(w, on67)
	}
	beside := []func(context.Context) error{func(ctx context.Context) error { return d.Serve(ctx, asks) }}
	if set.mode == dhcp.Proxy {
		on4011, err := net.ListenPacket("udp4", fmt.Sprintf("%s:%d", self, dhcp.BootPort))
		if err != nil {
			t.Fatal(err)
		}
		beside = append(beside, func(ctx context.Context) error { return d.ServeBoot(ctx, on4011) })
	}
	w.serve(files, self, at, d.MACOf, beside...)
	return w
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// bareWorld is a world without servers.
func bareWorld(t *testing.T, m netboot.Machine, kernel string, set setting) (*world, *bootfiles.Files) {
	dir := t.TempDir()
	w := &world{t: t, machine: m, asks: set.asks, kernel: filepath.Join(dir, "kernel"), change: make(chan struct{})}
	body, err := os.ReadFile(kernel)
	if err != nil {
		t.Fatalf("%v (Debian's package ipxe has it)", err)
	}
	for path, content := range map[string][]byte{w.kernel: body, filepath.Join(dir, "ramdisk"): []byte("ramdisk")} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := bootfiles.New("/usr/lib/ipxe", bootfiles.Paths{Kernel: w.kernel, Ramdisk: filepath.Join(dir, "ramdisk"), Loaders: set.loaders, UKI: set.uki, UKIARM64: set.arm64})
	if err != nil {
		t.Fatal(err)
	}
	return w, files
}

// serve serves files and scripts at an address, beside what else runs there.
func (w *world) serve(files *bootfiles.Files, address netip.Addr, server ipxescript.Server, macOf func(net.IP) (string, bool), beside ...func(context.Context) error) {
	t := w.t
	t.Helper()
	on69, err := net.ListenPacket("udp", net.JoinHostPort(address.String(), "69"))
	if err != nil {
		t.Fatal(err)
	}
	on80, err := net.Listen("tcp", net.JoinHostPort(address.String(), "8080"))
	if err != nil {
		t.Fatal(err)
	}
	asked := func(netboot.Machine) ipxescript.Ramdisk {
		return ipxescript.Ramdisk{Server: server, Kernel: bootfiles.Kernel, Initramfs: bootfiles.Ramdisk, Params: []string{"console=ttyS0", "panic=60"}}
	}
	scripts := &bootscript.Scripts{Directory: w, Journal: w, Ramdisk: asked, Log: quiet}
	web := &http.Server{Handler: bootweb.Handler(bootweb.Config{Journal: w, Files: files, Scripts: scripts, Log: quiet})}
	loader := &tftp.Server{Files: files, Journal: w, MACOf: macOf, Log: quiet, Scripts: scripts}
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	for _, run := range beside {
		g.Go(func() error { return run(ctx) })
	}
	if w.asks != nil {
		on69 = asked69{on69.(*net.UDPConn), w.asks}
	}
	g.Go(func() error { return loader.Serve(ctx, on69) })
	g.Go(func() error { web.Serve(on80); return nil })
	t.Cleanup(func() {
		cancel()
		web.Close()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// asked69 shows requests of TFTP before they are answered.
type asked69 struct {
	*net.UDPConn
	see func(request []byte)
}

func (a asked69) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := a.UDPConn.ReadFrom(b)
	if err == nil {
		a.see(b[:n])
	}
	return n, from, err
}

// boot starts a machine in QEMU; it ends with the test.
func (w *world) boot(args ...string) {
	w.bootBy("qemu-system-x86_64", "qemu-system-x86", append([]string{"-nodefaults", "-no-user-config", "-accel", "tcg,thread=multi", "-machine", "q35,graphics=off", "-cpu", "max", "-m", "512",
		"-display", "none", "-serial", "stdio", "-device", "virtio-rng-pci", "-netdev", "tap,id=n,ifname=" + tap + ",script=no,downscript=no"}, args...)...)
}

// bootBy starts a machine in a QEMU, which a Debian package has.
func (w *world) bootBy(qemu, pkg string, args ...string) {
	cmd := exec.Command(qemu, args...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		w.t.Fatalf("%v (Debian's package %s has it)", err, pkg)
	}
	w.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}
