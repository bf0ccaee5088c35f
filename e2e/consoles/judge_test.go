package consoles

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/ilo"
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
		t.Skip("needs root, sshd, openssl and websockify (Debian's openssh-server, openssl and websockify); set IRONYARD_E2E=1")
	}
}

// answers waits until a program that was started listens.
func answers(t *testing.T, at string, said fmt.Stringer) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v\n%s", err, said)
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
	k.mu.Lock()
	k.conns = slices.DeleteFunc(k.conns, func(had net.Conn) bool { return had == c })
	k.mu.Unlock()
}

// say has the machine say something to those who listen. A session is open before the program that sshd runs for it has reached the
// port: the machine waits for that.
func (k *keyboard) say(text string) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		k.mu.Lock()
		for _, c := range k.conns {
			_, _ = io.WriteString(c, text)
		}
		heard := len(k.conns) > 0
		k.mu.Unlock()
		if heard {
			return
		}
	}
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
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	answers(t, fmt.Sprintf("127.0.0.1:%d", s.at), &s.said)
	return s
}

// A real sshd leads to the console, as the BMCs' do: by a port of its own, and by a command of a command line.
func TestConsoleConformanceWithSSHD(t *testing.T) {
	foreign(t)
	for name, command := range map[string]string{"a port of its own": "", "through the command line": "cd system1/sol1; start"} {
		t.Run(name, func(t *testing.T) {
			drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
				k, socket := newPort(t)
				s := startSSHD(t, socket, command)
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

// The console of an iLO is entered by vsp at its SSH server, with the iLO's own fields. Its resources tell of no command.
func TestConsoleConformanceOfAnILOWithSSHD(t *testing.T) {
	foreign(t)
	const manager = "/redfish/v1/Managers/1"
	drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
		k, socket := newPort(t)
		s := startSSHD(t, socket, "vsp")
		relay := newRelay(t, fmt.Sprintf("127.0.0.1:%d", s.at))
		b := redfishtest.Start(t, "", nil)
		b.At[redfishtest.System]["Manufacturer"] = "HP" // as an iLO 4 calls it
		b.At[manager]["SerialConsole"] = map[string]any{"ServiceEnabled": true, "ConnectTypesSupported": []any{"SSH", "IPMI"}}
		b.At[manager]["NetworkProtocol"] = redfishtest.Link(manager + "/NetworkProtocol")
		b.At[manager+"/NetworkProtocol"] = map[string]any{"SSH": map[string]any{"ProtocolEnabled": true, "Port": relay.Addr().(*net.TCPAddr).Port}}
		d := redfish.New(redfish.Options{ConnectTimeout: 20 * time.Second, Networks: redfishtest.Loopback, Dialect: ilo.Dialect})
		t.Cleanup(func() { _ = d.Close(t.Context()) })
		n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{"ilo_address": b.Host(), "client_port": b.Port(), "ilo_username": redfishtest.User,
			"ilo_password": redfishtest.Password, "ilo_verify_ca": b.CA, "ilo_ssh_host_key": s.hostKey, "ilo_ssh_shared_cli": true}}
		return &drivertest.SerialPort{Console: redfish.Console{Driver: d}, Node: n, Secret: redfishtest.Password, Say: k.say, Typed: k.text,
			Hang:    relay.hang,
			Silence: relay.cut,
			Deny:    func() { s.password(t, redfishtest.Other) },
			Logins:  func() int { return strings.Count(s.said.String(), "Failed password for "+redfishtest.User) }}
	})
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

// newPort is a serial port at a socket.
func newPort(t *testing.T) (k *keyboard, socket string) {
	t.Helper()
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
	k = &keyboard{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.add(c)
		}
	}()
	return k, l.Addr().String()
}

// A real server of WebSockets carries the console, behind a BMC that asks who is there, as OpenBMC's does.
func TestConsoleConformanceWithWebsockify(t *testing.T) {
	foreign(t)
	k, socket := newPort(t)
	at := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	var said syncBuffer
	cmd := exec.Command("websockify", "--unix-target="+socket, at)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	answers(t, at, &said)
	drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
		from := len(k.text())
		before := newRelay(t, at)
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
			proxy.ServeHTTP(w, r)
		})
		m := b.Machine(nil, nil, func(string) map[string]any { return nil })
		return &drivertest.SerialPort{Console: newConsole(t), Node: consoleNode(b, nil), Secret: redfishtest.Password, Say: k.say, Typed: func() string { return k.text()[from:] },
			Hang: m.Hang, Deny: m.Deny, Logins: m.Logins,
			Silence: func() { before.cut(); m.Silence() }}
	})
}
