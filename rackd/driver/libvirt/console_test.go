package libvirt

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// crossing is a boot sector that carries each byte from one serial port to the other: it polls both, 8N1, with their buffers on,
// and pauses between, so that QEMU gets to its other work.
const crossing = "fa31c08ed8bafb03b003eebafb02eebafa03b001eebafa02eebafc03b003eebafc02eeb9b80be2febafd03eca8017414" +
	"baf803ec88c3bafd02eca82074fbbaf80288d8eebafd02eca80174d7baf802ec88c3bafd03eca82074fbbaf80388d8eeebc1"

// computer is a machine of QEMU that libvirtd keeps. What comes in at its first serial port goes out at its second one, where
// the test is, and the other way round.
type computer struct {
	d    *daemon
	far  net.Conn
	mu   sync.Mutex
	said []byte
}

func (d *daemon) qemu(args ...string) *exec.Cmd {
	cmd := exec.Command("virsh", append([]string{"-q", "-c", "qemu+unix:///session?socket=" + d.socket}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+d.dir, "LC_ALL=C")
	return cmd
}

// newComputer defines and starts the machine.
func newComputer(t *testing.T) *computer {
	d := newDaemon(t, nil)
	sector, err := hex.DecodeString(crossing)
	if err != nil {
		t.Fatal(err)
	}
	sector = append(sector, make([]byte, 510-len(sector))...)
	sector = append(sector, 0x55, 0xaa)
	port := filepath.Join(d.dir, "com2")
	text := fmt.Sprintf(`<domain type='qemu'><name>web1</name><memory unit='MiB'>16</memory><os><type arch='x86_64' machine='pc'>hvm</type><boot dev='hd'/></os>
<on_reboot>restart</on_reboot><devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='%s/disk'/><target dev='hda' bus='ide'/></disk>
<serial type='pty'><target port='0'/></serial><serial type='unix'><source mode='bind' path='%s'/><target port='1'/></serial><memballoon model='none'/></devices></domain>`, d.dir, port)
	for name, content := range map[string][]byte{"disk": append(sector, make([]byte, 1<<20-512)...), "web1.xml": []byte(text)} {
		if err := os.WriteFile(filepath.Join(d.dir, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(d.dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := &computer{d: d}
	c.virsh(t, "define", filepath.Join(d.dir, "web1.xml"))
	t.Cleanup(func() { _ = d.qemu("destroy", "web1").Run() })
	c.start(t, port)
	return c
}

func (c *computer) virsh(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.d.qemu(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("virsh %v: %v\n%s\n%s", args, err, out, c.d.said.String())
	}
	return strings.TrimSpace(string(out))
}

// start starts the machine, and waits until its program runs: a byte at the second port crosses then.
func (c *computer) start(t *testing.T, port string) {
	t.Helper()
	c.virsh(t, "start", "web1")
	var err error
	if c.far, err = net.Dial("unix", port); err != nil {
		t.Fatal(err)
	}
	far := c.far
	t.Cleanup(func() { far.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := far.Read(buf)
			c.mu.Lock()
			c.said = append(c.said, buf[:n]...)
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
}

func (c *computer) typed() string { c.mu.Lock(); defer c.mu.Unlock(); return string(c.said) }

func (c *computer) node(socket string) *node.Document {
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldURI: "qemu:///session?socket=" + socket, fieldDomain: "web1"}}
}

// The console keeps the contract on a machine of QEMU that a real libvirtd keeps.
func TestConsoleConformanceWithLibvirtd(t *testing.T) {
	c := newComputer(t)
	warm := Console{newDriver(t, Options{Networks: loopback})}
	line, err := warm.OpenConsole(t.Context(), &drivertest.Fence{}, c.node(c.d.socket))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(c.typed(), "u"); time.Sleep(100 * time.Millisecond) { // its firmware starts
		if err := line.Write(t.Context(), []byte("u")); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("the machine's program does not start")
		}
	}
	line.Close(t.Context())
	time.Sleep(300 * time.Millisecond)
	drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
		r, from := newRelay(t, c.d), len(c.typed())
		console := Console{newDriver(t, Options{Networks: loopback, CallTimeout: 10 * time.Second})}
		return &drivertest.SerialPort{Console: console, Node: c.node(r.listener.Addr().String()), One: true,
			Say: func(text string) {
				if _, err := c.far.Write([]byte(text)); err != nil {
					t.Error(err)
				}
			},
			Typed:   func() string { return c.typed()[from:] },
			Hang:    func() { r.set(func() { r.hang = true }) },
			Silence: r.cut,
		}
	})
	// The end of the machine is the end of its console, and a machine that is off has none.
	if line, err = warm.OpenConsole(t.Context(), &drivertest.Fence{}, c.node(c.d.socket)); err != nil {
		t.Fatal(err)
	}
	c.virsh(t, "destroy", "web1")
	for {
		if _, err = line.Read(make([]byte, 512)); err != nil {
			break
		}
	}
	if !errors.Is(err, driver.ErrUnreachable) || strings.Count(err.Error(), "b3d1") != 1 {
		t.Errorf("the console of a machine that was switched off: %v", err)
	}
	line.Close(t.Context())
	if _, err := warm.OpenConsole(t.Context(), &drivertest.Fence{}, c.node(c.d.socket)); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("a machine that is off: %v", err)
	}
	if err := warm.StartConsole(t.Context(), &drivertest.Fence{}, c.node(c.d.socket)); err != nil {
		t.Errorf("a machine that is off: %v", err)
	}
}
