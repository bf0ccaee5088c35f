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
	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// daemon is a libvirtd of a user without rights, with the machine "test" of its test driver.
type daemon struct {
	dir, socket string
	said        bytes.Buffer
	held        *golibvirt.Libvirt
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
				d.held = held
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

// machine defines a machine like "test" until the test ends, which is off and boots from its disk, and returns its name.
func (d *daemon) machine(t *testing.T) (name string) {
	t.Helper()
	test, err := d.held.DomainLookupByName("test")
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.held.DomainGetXMLDesc(test, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.NewString()
	name = "web-" + id
	text = machineID.ReplaceAllString(strings.Replace(text, "<name>test</name>", "<name>"+name+"</name>", 1), "<uuid>"+id+"</uuid>")
	d.define(t, text, "hd")
	t.Cleanup(func() {
		m, err := d.held.DomainLookupByName(name)
		if err == nil {
			_ = d.held.DomainDestroy(m) // it may be off
			err = d.held.DomainUndefine(m)
		}
		if err != nil {
			t.Errorf("removing %s: %v", name, err)
		}
	})
	return name
}

// define gives a machine one boot device, in libvirt's words.
func (d *daemon) define(t *testing.T, text, device string) {
	t.Helper()
	text, err := BootFrom(text, device)
	if err == nil {
		_, err = d.held.DomainDefineXML(text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writing are the calls of libvirt's RPC that change a machine: create, define XML, destroy, reboot, shutdown.
var writing = []uint32{9, 11, 12, 27, 33}

// relay stands between the driver and libvirtd. It knows the calls, and loses answers.
type relay struct {
	listener net.Listener
	spoiler  drivertest.Spoiler // before each call
	mu       sync.Mutex
	lose     bool
	hang     bool
	last     bool // it hangs once a write was answered
	calls    int
	serial   map[uint32]bool   // of calls whose answer is lost
	spoilt   drivertest.Mishap // what becomes of the next answer
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
			served.Go(func() { r.pass(near, far, r.call, r.up); near.Close(); far.Close() })
			served.Go(func() { r.pass(far, near, r.answer, r.down); near.Close(); far.Close() })
		}
	})
	t.Cleanup(func() { listener.Close(); served.Wait() })
	return r
}

// pass has packets sent on that look says yes to. A packet is its length, program, version, procedure, type, serial number, status.
func (r *relay) pass(from, to net.Conn, look func(procedure, serial uint32) bool, send func(to net.Conn, packet []byte) bool) {
	for {
		packet := make([]byte, 4)
		if _, err := io.ReadFull(from, packet); err != nil {
			return
		}
		packet = append(packet, make([]byte, binary.BigEndian.Uint32(packet)-4)...)
		if _, err := io.ReadFull(from, packet[4:]); err != nil {
			return
		}
		procedure, serial := binary.BigEndian.Uint32(packet[12:]), binary.BigEndian.Uint32(packet[20:])
		if look(procedure, serial) && !send(to, packet) {
			return
		}
	}
}

// up hands a call on, unless it is dropped.
func (r *relay) up(to net.Conn, packet []byte) bool {
	how := r.spoiler.Next()
	if how == drivertest.Dropped {
		return false
	}
	r.set(func() {
		r.spoilt = how
		if slices.Contains(writing, binary.BigEndian.Uint32(packet[12:])) {
			r.calls++
		}
	})
	_, err := to.Write(packet)
	return err == nil
}

// down hands an answer on as it has to come.
func (r *relay) down(to net.Conn, packet []byte) bool {
	var how drivertest.Mishap
	r.set(func() { how, r.spoilt = r.spoilt, drivertest.Sound })
	return r.spoiler.Send(how, to, packet)
}

func (r *relay) call(procedure, serial uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(writing, procedure) {
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
		name := d.machine(t)
		r, dr := newRelay(t, d), newDriver(t, Options{Networks: loopback, Pace: 1000, CallTimeout: 3 * time.Second, Log: drivertest.Logger(t)})
		r.spoiler.Restart = func() {
			r.set(func() {
				for _, c := range r.conns {
					c.Close()
				}
			})
		}
		nodeOf := func(id, label, name string) *node.Document {
			return &node.Document{UUID: id, Name: label, DriverInfo: map[string]any{fieldURI: "test:///default?socket=" + r.listener.Addr().String(), fieldDomain: name}}
		}
		return &drivertest.Machine{Power: dr, Management: dr, Node: nodeOf("b3d1", "web1", name), Lasting: true,
			Without: map[string]string{"Port": "libvirt is reached by a local socket here, without a port", "Sessions": "a session is a connection, which ends with the driver's",
				"Deny": "a local socket asks for no credentials: TLS and SSH do, in transports_test.go"},
			Writes:  func() (calls int) { r.set(func() { calls = r.calls }); return calls },
			Lose:    func() { r.set(func() { r.lose = true }) },
			Hang:    func() { r.set(func() { r.hang = true }) },
			Spoil:   r.spoiler.Spoil,
			Asked:   r.spoiler.Asked,
			Restart: r.spoiler.Forget,
			Second:  func() *node.Document { return nodeOf("b3d2", "web2", d.machine(t)) },
			Forget: func() { // another client of this libvirt defines it otherwise
				m, err := d.held.DomainLookupByName(name)
				if err != nil {
					t.Fatal(err)
				}
				text, err := d.held.DomainGetXMLDesc(m, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
				if err != nil {
					t.Fatal(err)
				}
				d.define(t, text, "hd")
			},
			Silence: func() {
				r.listener.Close()
			},
			WhileRead: func(do func()) { r.set(func() { r.during = do }) }}
	})
	dr := newDriver(t, Options{Networks: loopback})
	if d.virsh(t, "domstate", "test") != "shut off" {
		d.virsh(t, "destroy", "test")
	}
	id := d.virsh(t, "domuuid", "test")
	for _, domain := range []string{"test", id} {
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
