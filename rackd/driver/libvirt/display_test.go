package libvirt

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// Where a display listens is found in each form that libvirt writes, and what rackd does not take is refused by name.
func TestDisplays(t *testing.T) {
	for what, c := range map[string]struct {
		id, graphics string
		want         display
		says         string
	}{
		"an address":      {"7", `<graphics type='vnc' port='5907' autoport='yes' listen='127.0.0.1'><listen type='address' address='127.0.0.1'/></graphics>`, display{"tcp", "127.0.0.1:5907"}, ""},
		"all addresses":   {"7", `<graphics type='vnc' port='5900' listen='0.0.0.0'><listen type='address' address='0.0.0.0'/></graphics>`, display{"tcp", "127.0.0.1:5900"}, ""},
		"all of IPv6":     {"7", `<graphics type='vnc' port='5900' listen='::'/>`, display{"tcp", "[::1]:5900"}, ""},
		"a socket":        {"7", `<graphics type='vnc' socket='/run/a'><listen type='socket' socket='/run/vnc'/></graphics>`, display{"unix", "/run/vnc"}, ""},
		"an old socket":   {"7", `<graphics type='vnc' socket='/run/a'/>`, display{"unix", "/run/a"}, ""},
		"beside SPICE":    {"7", `<graphics type='spice' port='5900'/><graphics type='vnc' port='5901'/>`, display{"tcp", "127.0.0.1:5901"}, ""},
		"SPICE alone":     {"7", `<graphics type='spice' port='5900'/>`, display{}, "speaks spice and no VNC"},
		"none":            {"7", ``, display{}, "has no display"},
		"off":             {"", `<graphics type='vnc' port='-1' autoport='yes'/>`, display{}, "the machine is off"},
		"no port yet":     {"7", `<graphics type='vnc' port='-1' autoport='yes'/>`, display{}, "no port yet"},
		"a password":      {"7", `<graphics type='vnc' port='5900' passwd='s3cret'/>`, display{}, "asks viewers for a password"},
		"listens nowhere": {"7", `<graphics type='vnc'><listen type='none'/></graphics>`, display{}, "listens nowhere"},
	} {
		id := ""
		if c.id != "" {
			id = " id='" + c.id + "'"
		}
		got, err := displayOf("<domain type='qemu'" + id + "><name>web1</name><devices>" + c.graphics + "</devices></domain>")
		text := fmt.Sprint(err)
		if f, is := errors.AsType[*bmc.Failure](err); is {
			text = f.Said
		}
		if got != c.want || (err == nil) != (c.says == "") || !strings.Contains(text, c.says) || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	if _, err := displayOf("<domain"); err == nil {
		t.Error("half a description")
	}
}

func TestGraphicalValidates(t *testing.T) {
	g := Graphical{newDriver(t, Options{Networks: loopback})}
	n := &node.Document{UUID: "b3d1", DriverInfo: map[string]any{fieldURI: "qemu+tls://127.0.0.1/system", fieldDomain: "web1"}}
	if err := g.Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "qemu+ssh") {
		t.Errorf("by TLS: %v", err)
	}
}

// A display at an address of rackd's own machine is dialled where the operator has named that network; docs/consoles.md says so.
func TestDisplaysOnLoopbackNeedTheOperatorsWord(t *testing.T) {
	n := &node.Document{UUID: "b3d1", DriverInfo: map[string]any{fieldURI: "qemu:///system", fieldDomain: "web1"}}
	to, err := parse(n)
	if err != nil {
		t.Fatal(err)
	}
	_, err = dialDisplay(t.Context(), to, display{"tcp", "127.0.0.1:5900"}, Options{ConnectTimeout: time.Second})
	if err = to.explain(n, openingGraphical, err); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "--bmc-networks") {
		t.Error(err)
	}
}

// A viewer logs in by SSH beside the session of before, which goes on when the host no longer takes the key. The host is not asked for
// each viewer then: one login in a minute is refused, of all nodes there together.
func TestViewersAreRefusedOnce(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs sshd (Debian's openssh-server); set IRONYARD_E2E=1")
	}
	s := newSSHServer(t)
	g := Graphical{newDriver(t, Options{Networks: loopback})}
	other, _ := sshKey(t)
	var tried int
	for i := range 8 {
		n := with(s.node("qemu", "system", "/run/libvirt/libvirt-sock", fmt.Sprintf("web%d", i)), map[string]any{fieldPrivateKey: other})
		to, err := parse(n)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.dial(driver.WithTry(t.Context()), n, to, display{"tcp", "127.0.0.1:5900"})
		if !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("viewer %d: %v", i, err)
		}
		if held, is := errors.AsType[driver.Withheld](err); !is || held.Tried() {
			tried++
		}
	}
	if tried != 1 {
		t.Errorf("%d of 8 viewers were refused by the host, want the first", tried)
	}
}

// screened is a machine of QEMU with a display and nothing to boot, which does not run.
const screened = `<domain type='qemu'><name>web1</name><memory unit='MiB'>16</memory><os><type arch='x86_64' machine='pc'>hvm</type></os>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator><video><model type='vga'/></video>%s<memballoon model='none'/></devices></domain>`

// The viewer's line reaches the VNC server of a machine of QEMU that a real libvirtd keeps, at an address and at a socket. It ends
// with the machine, and a machine that is off has no display.
func TestGraphicalWithLibvirtd(t *testing.T) {
	d := newDaemon(t, nil)
	t.Cleanup(func() { _ = d.qemu("destroy", "web1").Run() })
	c := &computer{d: d}
	here, bySSH := c.node(d.socket), newSSHServer(t).node("qemu", "session", d.socket, "web1")
	g := Graphical{newDriver(t, Options{Networks: loopback})} // it logs out before the server ends
	address := `<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>`
	socket := `<graphics type='vnc'><listen type='socket' socket='` + filepath.Join(d.dir, "vnc") + `'/></graphics>`
	for name, m := range map[string]struct {
		graphics string
		n        *node.Document
	}{"address": {address, here}, "socket": {socket, here}, "address by SSH": {address, bySSH}, "socket by SSH": {socket, bySSH}} {
		t.Run(name, func(t *testing.T) {
			graphics, n := m.graphics, m.n
			file := filepath.Join(t.TempDir(), "web1.xml")
			if err := os.WriteFile(file, []byte(fmt.Sprintf(screened, graphics)), 0o644); err != nil {
				t.Fatal(err)
			}
			c.virsh(t, "define", file)
			if err := g.StartConsole(t.Context(), &drivertest.Fence{}, n); err != nil {
				t.Errorf("a machine that is off: %v", err)
			}
			if _, err := g.OpenViewer(t.Context(), &drivertest.Fence{}, n); !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "the machine is off") {
				t.Errorf("a machine that is off: %v", err)
			}
			c.virsh(t, "start", "--paused", "web1")
			fence := &drivertest.Fence{}
			line, err := g.OpenViewer(t.Context(), fence, n)
			if err != nil {
				t.Fatal(err)
			}
			defer line.Close(t.Context())
			talk := struct {
				io.Reader
				io.Writer
			}{line, written{t, line}}
			width, height := handshake(t, talk)
			if width < 300 || height < 200 {
				t.Errorf("a screen of %d by %d", width, height)
			}
			fence.Lose()
			if err := line.Write(t.Context(), []byte{4, 1, 0, 0, 0, 0, 0, 'x'}); !errors.Is(err, driver.ErrFenced) {
				t.Errorf("a key without the node: %v", err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, line)
				ended <- err
			}()
			c.virsh(t, "destroy", "web1")
			select {
			case err := <-ended:
				if !errors.Is(err, driver.ErrUnreachable) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("it does not end with its machine")
			}
			c.virsh(t, "undefine", "web1")
		})
	}
}

// leaving is a fence at whose check something happens.
type leaving struct {
	drivertest.Fence
	do func()
}

// Check implements driver.Fence.
func (l *leaving) Check() error {
	if do := l.do; do != nil {
		l.do = nil
		do()
	}
	return l.Fence.Check()
}

// The port of a machine that stops is the next one's that starts on the host. Who was let in for the first does not see the second.
func TestAnotherMachinesDisplayIsNotShown(t *testing.T) {
	d := newDaemon(t, nil)
	t.Cleanup(func() { _ = d.qemu("destroy", "web1").Run() })
	c := &computer{d: d}
	g := Graphical{newDriver(t, Options{Networks: loopback})}
	file := filepath.Join(t.TempDir(), "web1.xml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(screened, `<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>`)), 0o644); err != nil {
		t.Fatal(err)
	}
	c.virsh(t, "define", file)
	c.virsh(t, "start", "--paused", "web1")
	swapped := false
	line, err := g.OpenViewer(t.Context(), &leaving{do: func() {
		out, err := d.qemu("vncdisplay", "web1").Output()
		number, bad := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(string(out)), "127.0.0.1:"))
		if err != nil || bad != nil {
			t.Errorf("virsh vncdisplay says %q, %v", out, err)
			return
		}
		c.virsh(t, "destroy", "web1")
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 5900+number))
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { l.Close() })
		swapped = true
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				io.WriteString(conn, "RFB 003.008\n") // of another machine
			}
		}()
	}}, c.node(d.socket))
	if err == nil {
		line.Close(t.Context())
		t.Error("the display of another machine is shown")
	}
	if !swapped || err != nil && !strings.Contains(err.Error(), "the machine is off") {
		t.Errorf("swapped %v: %v", swapped, err)
	}
}

// written is a line as a writer.
type written struct {
	t    *testing.T
	line driver.Line
}

func (w written) Write(p []byte) (int, error) { return len(p), w.line.Write(w.t.Context(), p) }

// handshake speaks the beginning of RFB 3.8 without a password (RFC 6143, 7.1 to 7.3).
func handshake(t *testing.T, rw io.ReadWriter) (width, height int) {
	t.Helper()
	read := func(n int) []byte {
		p := make([]byte, n)
		if _, err := io.ReadFull(rw, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	say := func(p ...byte) {
		if _, err := rw.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	read(12)
	say([]byte("RFB 003.008\n")...)
	read(int(read(1)[0])) // kinds of security
	say(1)
	if result := read(4); result[3] != 0 {
		t.Fatal("the server wants a password")
	}
	say(1) // shared
	init := read(24)
	return int(init[0])<<8 | int(init[1]), int(init[2])<<8 | int(init[3])
}
