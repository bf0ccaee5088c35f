package libvirt

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// daemon is a libvirtd of a user without rights, with the machine "test" of its test driver.
type daemon struct {
	dir, socket string
	said        bytes.Buffer
}

// newDaemon starts a libvirtd until the test ends. One connection stays open: with the last one the machine would be forgotten.
func newDaemon(t *testing.T, files map[string]string, args ...string) *daemon {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs libvirtd and virsh (Debian's libvirt-daemon and libvirt-clients); set IRONYARD_E2E=1")
	}
	dir, err := os.MkdirTemp("", "libvirt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &daemon{dir: dir, socket: filepath.Join(dir, "libvirt", "libvirt-sock")}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	cmd := exec.Command("/usr/sbin/libvirtd", append([]string{"-p", filepath.Join(dir, "pid")}, args...)...)
	cmd.Env = []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "XDG_CACHE_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = &d.said, &d.said
	if os.Getuid() == 0 { // as root it would look after the whole machine
		who, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(who.Uid)
		gid, _ := strconv.Atoi(who.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("unix", d.socket)
		if err == nil {
			held := golibvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))
			if err = held.ConnectToURI(golibvirt.TestDefault); err == nil {
				t.Cleanup(func() { _ = held.Disconnect() })
				return d
			}
		}
		if time.Now().After(end) {
			t.Fatalf("libvirtd does not answer: %v\n%s", err, d.said.String())
		}
	}
}

// virsh is libvirt's own client.
func (d *daemon) virsh(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("virsh", append([]string{"-q", "-c", "test+unix:///default?socket=" + d.socket}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+d.dir, "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("virsh %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// off brings the machine to where each check begins.
func (d *daemon) off(t *testing.T) {
	t.Helper()
	if d.virsh(t, "domstate", "test") != "shut off" {
		d.virsh(t, "destroy", "test")
	}
	text, err := BootFrom(d.virsh(t, "dumpxml", "--inactive", "--security-info", "test"), "hd")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.xml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.virsh(t, "define", file)
}

// writing are the calls of libvirt's RPC that change a machine: create, define XML, destroy, reboot, shutdown.
var writing = []uint32{9, 11, 12, 27, 33}

// relay stands between the driver and libvirtd. It knows the calls, and loses answers.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	lose     bool
	hang     bool
	last     bool // it hangs once a write was answered
	calls    int
	serial   map[uint32]bool // of calls whose answer is lost
	during   func()
	conns    []net.Conn
}

// cut ends what there is, and nothing listens any more.
func (r *relay) cut() {
	r.listener.Close()
	r.set(func() {
		for _, c := range r.conns {
			c.Close()
		}
	})
}

func newRelay(t *testing.T, d *daemon) *relay {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, serial: map[uint32]bool{}}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", d.socket)
			if err != nil {
				near.Close()
				continue
			}
			r.set(func() { r.conns = append(r.conns, near, far) })
			served.Go(func() { r.pass(near, far, r.call); near.Close(); far.Close() })
			served.Go(func() { r.pass(far, near, r.answer); near.Close(); far.Close() })
		}
	})
	t.Cleanup(func() { listener.Close(); served.Wait() })
	return r
}

// pass hands packets on that look says yes to. A packet is its length, program, version, procedure, type, serial number, status.
func (r *relay) pass(from, to net.Conn, look func(procedure, serial uint32) bool) {
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint32(head)-4)
		if _, err := io.ReadFull(from, rest); err != nil {
			return
		}
		if look(binary.BigEndian.Uint32(rest[8:]), binary.BigEndian.Uint32(rest[16:])) {
			if _, err := to.Write(append(head, rest...)); err != nil {
				return
			}
		}
	}
}

func (r *relay) call(procedure, serial uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(writing, procedure) {
		r.calls++
		r.serial[serial] = r.lose
		r.lose = false
	} else if do := r.during; do != nil && procedure != 1 && procedure != 66 { // not while it connects
		r.during = nil
		do()
	}
	return !r.hang
}

func (r *relay) answer(_, serial uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost, wrote := r.serial[serial]
	delete(r.serial, serial)
	r.hang = r.hang || r.last && wrote
	return !lost
}

func (r *relay) set(do func()) { r.mu.Lock(); defer r.mu.Unlock(); do() }

// The driver keeps the contract with a real libvirtd, and virsh sees what it did.
func TestConformanceWithLibvirtd(t *testing.T) {
	d := newDaemon(t, nil)
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		d.off(t)
		r, dr := newRelay(t, d), newDriver(t, Options{Networks: loopback, Pace: 1000, CallTimeout: 3 * time.Second, Log: drivertest.Logger(t)})
		n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
			fieldURI: "test:///default?socket=" + r.listener.Addr().String(), fieldDomain: "test"}}
		return &drivertest.Machine{Power: dr, Management: dr, Node: n, Lasting: true,
			Without: map[string]string{"Second": "libvirt's test driver has one machine", "Forget": "libvirtd keeps what is defined: no start changes it", "Spoil": "its relay passes calls on, loses and hangs", "Port": "libvirt is reached by a local socket here, without a port",
				"Deny": "a local socket asks for no credentials: TLS and SSH do, in transports_test.go"},
			Writes: func() (calls int) { r.set(func() { calls = r.calls }); return calls },
			Lose:   func() { r.set(func() { r.lose = true }) },
			Hang:   func() { r.set(func() { r.hang = true }) },
			Silence: func() {
				r.listener.Close()
			},
			WhileRead: func(do func()) { r.set(func() { r.during = do }) }}
	})
	d.off(t)
	dr := newDriver(t, Options{Networks: loopback})
	uuid := d.virsh(t, "domuuid", "test")
	for _, domain := range []string{"test", uuid} {
		n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldURI: "test:///default?socket=" + d.socket, fieldDomain: domain}}
		for _, p := range []struct {
			target driver.PowerState
			want   string
		}{{driver.PowerOn, "running"}, {driver.PowerOff, "shut off"}, {driver.Rebooting, "running"}} {
			if err := dr.SetPower(t.Context(), &drivertest.Fence{}, n, p.target); err != nil {
				t.Fatal(err)
			}
			if is := d.virsh(t, "domstate", "test"); is != p.want {
				t.Errorf("%s, after %q: virsh says %q, want %q", domain, p.target, is, p.want)
			}
		}
		for _, b := range []struct {
			device driver.BootDevice
			want   string
		}{{driver.BootPXE, "network"}, {"cdrom", "cdrom"}, {driver.BootDisk, "hd"}} {
			if err := dr.SetBootDevice(t.Context(), &drivertest.Fence{}, n, b.device, true); err != nil {
				t.Fatal(err)
			}
			if text := d.virsh(t, "dumpxml", "--inactive", "test"); !strings.Contains(text, "<boot dev='"+b.want+"'/>") || strings.Count(text, "<boot ") != 1 {
				t.Errorf("after %s virsh shows\n%s", b.device, text)
			}
		}
		d.virsh(t, "destroy", "test")
		if is, err := dr.PowerState(t.Context(), n); is != driver.PowerOff || err != nil {
			t.Errorf("after virsh destroy: %q, %v", is, err)
		}
	}
	missing := &node.Document{UUID: "b3d1", DriverInfo: map[string]any{fieldURI: "test:///default?socket=" + d.socket, fieldDomain: "nonesuch"}}
	if _, err := dr.PowerState(t.Context(), missing); err == nil || !strings.Contains(err.Error(), "check libvirt_domain") {
		t.Errorf("a machine that is not there: %v", err)
	}
}
