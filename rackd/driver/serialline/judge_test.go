package serialline_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// bridge names the socket of a machine's serial port to the program that sshd runs for the console.
const bridge = "IRONYARD_TEST_BRIDGE"

// As that program, the test carries the terminal's bytes to the port and back.
func TestMain(m *testing.M) {
	at := os.Getenv(bridge)
	if at == "" {
		os.Exit(m.Run())
	}
	if want := os.Getenv("IRONYARD_TEST_COMMAND"); os.Getenv("SSH_ORIGINAL_COMMAND") != want {
		fmt.Println("no such command")
		os.Exit(1)
	}
	port, err := net.Dial("unix", at)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(port, os.Stdin)
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, port)
	os.Exit(0)
}

func foreign(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs root, sshd, openssl and QEMU (Debian's openssh-server, openssl and qemu-system-x86); set IRONYARD_E2E=1")
	}
}

// until waits for what a program that was started brings.
func until(t *testing.T, what string, said *bytes.Buffer, there func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !there(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is not there\n%s", what, said.String())
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// keyboard is a machine's serial port, which keeps what is typed.
type keyboard struct {
	mu    sync.Mutex
	typed bytes.Buffer
	conns []net.Conn
}

func (k *keyboard) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.typed.Write(p)
}

func (k *keyboard) text() string { k.mu.Lock(); defer k.mu.Unlock(); return k.typed.String() }

func (k *keyboard) add(c net.Conn) {
	k.mu.Lock()
	k.conns = append(k.conns, c)
	k.mu.Unlock()
	_, _ = io.Copy(k, c)
}

func (k *keyboard) say(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		_, _ = io.WriteString(c, text)
	}
}

// start runs a program until the test ends, or until stop is called.
func start(t *testing.T, said *bytes.Buffer, name string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(stop)
	return stop
}

func consoleNode(b *redfishtest.BMC, more map[string]any) *node.Document {
	info := map[string]any{"redfish_address": b.URL, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password, "redfish_verify_ca": b.CA}
	for k, v := range more {
		info[k] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

func newConsole(t *testing.T) redfish.Console {
	d := redfish.New(redfish.Options{ConnectTimeout: 20 * time.Second, Networks: redfishtest.Loopback})
	t.Cleanup(func() { _ = d.Close(t.Context()) })
	return redfish.Console{Driver: d}
}

// sshd is a real one, in a mount namespace where the user admin has the BMC's password.
type sshd struct {
	dir, hostKey string
	at           int
	said         syncBuffer
	stop         func()
}

// syncBuffer is what a program says while it runs.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// password sets the one that the server knows.
func (s *sshd) password(t *testing.T, word string) {
	t.Helper()
	hashing := exec.Command("openssl", "passwd", "-6", "-stdin")
	hashing.Stdin = strings.NewReader(word)
	hash, err := hashing.Output()
	if err != nil {
		t.Fatal(err)
	}
	line := redfishtest.User + ":" + strings.TrimSpace(string(hash)) + ":19000:0:99999:7:::\n"
	if err := os.WriteFile(filepath.Join(s.dir, "shadow"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
}

func startSSHD(t *testing.T, socket, command string) *sshd {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &sshd{dir: t.TempDir(), at: freePort(t), hostKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(shown)))}
	for name, text := range map[string]string{"key": string(pem.EncodeToMemory(block)), "passwd": string(users) + redfishtest.User + ":x:0:0::/:/bin/sh\n", "config": fmt.Sprintf(
		"Port %d\nListenAddress 127.0.0.1\nHostKey %s/key\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication yes\nPermitTTY yes\nPrintMotd no\nSetEnv %s=%s \"IRONYARD_TEST_COMMAND=%s\"\nForceCommand %s\n",
		s.at, s.dir, bridge, socket, command, self)} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.password(t, redfishtest.Password)
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/shadow" /etc/shadow && exec /usr/sbin/sshd -D -e -f "$0/config"`, s.dir)
	cmd.Stdout, cmd.Stderr = &s.said, &s.said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(s.stop)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.at))
		if err == nil {
			conn.Close()
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("sshd does not answer: %v\n%s", err, s.said.String())
		}
	}
}

// A real sshd leads to the console, as the BMCs' do: by a port of its own, and by a command of a command line.
func TestConsoleConformanceWithSSHD(t *testing.T) {
	foreign(t)
	for name, command := range map[string]string{"a port of its own": "", "through the command line": "cd system1/sol1; start"} {
		t.Run(name, func(t *testing.T) {
			drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
				k := &keyboard{}
				folder, err := os.MkdirTemp("", "port")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.RemoveAll(folder) })
				l, err := net.Listen("unix", filepath.Join(folder, "s"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						go k.add(c)
					}
				}()
				s := startSSHD(t, l.Addr().String(), command)
				relay := newRelay(t, fmt.Sprintf("127.0.0.1:%d", s.at))
				b := redfishtest.Start(t, "Contoso", nil)
				told := map[string]any{"ServiceEnabled": true, "Port": relay.Addr().(*net.TCPAddr).Port, "SharedWithManagerCLI": command != "", "ConsoleEntryCommand": command}
				b.At[redfishtest.System]["SerialConsole"] = map[string]any{"SSH": told}
				return &drivertest.SerialPort{Console: newConsole(t), Node: consoleNode(b, map[string]any{"redfish_ssh_host_key": s.hostKey, "redfish_ssh_shared_cli": command != ""}),
					Secret: redfishtest.Password, Say: k.say, Typed: k.text,
					Hang:    relay.hang,
					Silence: relay.cut,
					Deny:    func() { s.password(t, redfishtest.Other) },
					Logins:  func() int { return strings.Count(s.said.String(), "Failed password for "+redfishtest.User) }}
			})
		})
	}
}

// relay stands before a server, and can hang or cut.
type relay struct {
	net.Listener
	mu    sync.Mutex
	held  bool
	conns []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, near)
			held := r.held
			r.mu.Unlock()
			if held {
				continue
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, far)
			r.mu.Unlock()
			go func() { _, _ = io.Copy(far, near); far.Close(); near.Close() }()
			go func() { _, _ = io.Copy(near, far); far.Close(); near.Close() }()
		}
	}()
	t.Cleanup(r.cut)
	return r
}

func (r *relay) hang() { r.mu.Lock(); defer r.mu.Unlock(); r.held = true }

func (r *relay) cut() {
	r.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}

// crossing is a boot sector that carries each byte from one serial port to the other (rackd/driver/libvirt has the same).
const crossing = "fa31c08ed8bafb03b003eebafb02eebafa03b001eebafa02eebafc03b003eebafc02eeb9b80be2febafd03eca8017414baf803ec88c3bafd02eca82074fbba" +
	"f80288d8eebafd02eca80174d7baf802ec88c3bafd03eca82074fbbaf80388d8eeebc1"

// A real machine's serial port as a WebSocket: QEMU serves it, behind a BMC that asks who is there, as OpenBMC's does.
func TestConsoleConformanceWithQEMUsWebSocket(t *testing.T) {
	foreign(t)
	dir, err := os.MkdirTemp("", "qemu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sector, err := hex.DecodeString(crossing)
	if err != nil {
		t.Fatal(err)
	}
	sector = append(append(sector, make([]byte, 510-len(sector))...), 0x55, 0xaa)
	disk, second := filepath.Join(dir, "disk"), filepath.Join(dir, "com2")
	if err := os.WriteFile(disk, append(sector, make([]byte, 1<<20-512)...), 0o600); err != nil {
		t.Fatal(err)
	}
	at := freePort(t)
	var said bytes.Buffer
	start(t, &said, "qemu-system-x86_64", "-display", "none", "-machine", "pc", "-m", "16", "-net", "none", "-drive", "format=raw,file="+disk,
		"-chardev", fmt.Sprintf("socket,id=com1,host=127.0.0.1,port=%d,server=on,wait=off,websocket=on", at), "-serial", "chardev:com1",
		"-chardev", "socket,id=com2,server=on,wait=off,path="+second, "-serial", "chardev:com2")
	k := &keyboard{}
	until(t, "QEMU", &said, func() bool {
		c, err := net.Dial("unix", second)
		if err == nil {
			go k.add(c)
		}
		return err == nil
	})
	to, _ := url.Parse(fmt.Sprintf("http://127.0.0.1:%d", at))
	serve := func(t *testing.T) (*redfishtest.BMC, *relay) {
		before := newRelay(t, to.Host)
		b := redfishtest.Start(t, "", nil)
		b.At["/redfish/v1/Managers/1"]["Model"] = "OpenBmc"
		inner := b.Config.Handler
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: before.Addr().String()})
		b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/console0" {
				inner.ServeHTTP(w, r)
				return
			}
			known, probe := httptest.NewRecorder(), r.Clone(r.Context())
			probe.URL.Path = "/redfish/v1/Systems"
			if inner.ServeHTTP(known, probe); known.Code != http.StatusOK {
				redfishtest.Refuse(w, known.Code, "who are you")
				return
			}
			r.URL.Path = "" // QEMU's has no path
			proxy.ServeHTTP(w, r)
		})
		return b, before
	}
	b, _ := serve(t)
	line, err := newConsole(t).OpenConsole(t.Context(), &drivertest.Fence{}, consoleNode(b, nil))
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	until(t, "the machine's program", &said, func() bool {
		if err := line.Write(t.Context(), []byte("u")); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(k.text(), "u")
	})
	line.Close(t.Context())
	time.Sleep(300 * time.Millisecond) // what was typed is on its way
	drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
		b, before := serve(t)
		from := len(k.text())
		m := b.Machine(nil, nil, func(string) map[string]any { return nil })
		return &drivertest.SerialPort{Console: newConsole(t), Node: consoleNode(b, nil), Secret: redfishtest.Password, Say: k.say, Typed: func() string { return k.text()[from:] },
			Hang: m.Hang, Deny: m.Deny, Logins: m.Logins,
			Silence: func() { before.cut(); m.Silence() }}
	})
}
