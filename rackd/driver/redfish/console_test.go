package redfish

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

const managerAt = "/redfish/v1/Managers/1"

// port is the serial port of a machine: what is typed gets there, and what it says gets to all that have the console open.
type port struct {
	mu    sync.Mutex
	typed strings.Builder
	ends  map[io.WriteCloser]bool
	gone  bool // the BMC is: an end that comes later is cut at once
}

func (p *port) text() string { p.mu.Lock(); defer p.mu.Unlock(); return p.typed.String() }

// carry has the console open at one end, until that ends.
func (p *port) carry(end io.ReadWriteCloser) {
	p.mu.Lock()
	if p.ends == nil {
		p.ends = map[io.WriteCloser]bool{}
	}
	p.ends[end] = true
	if p.gone {
		end.Close()
	}
	p.mu.Unlock()
	buf := make([]byte, 512)
	for {
		n, err := end.Read(buf)
		p.mu.Lock()
		p.typed.Write(buf[:n])
		if err != nil {
			delete(p.ends, end)
		}
		p.mu.Unlock()
		if err != nil {
			end.Close()
			return
		}
	}
}

func (p *port) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for end := range p.ends {
		_, _ = io.WriteString(end, text)
	}
}

func (p *port) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for end := range p.ends {
		end.Close()
	}
}

func consoleNode(b *redfishtest.BMC, more map[string]any) *node.Document {
	info := map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}
	for k, v := range more {
		info[k] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

// withSocket has the BMC serve the port as a WebSocket, to users that it knows.
func withSocket(t *testing.T, b *redfishtest.BMC, path string, p *port) {
	inner := b.Config.Handler
	b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			inner.ServeHTTP(w, r)
			return
		}
		known, probe := httptest.NewRecorder(), r.Clone(r.Context())
		probe.URL.Path = "/redfish/v1/Systems"
		inner.ServeHTTP(known, probe)
		if known.Code != http.StatusOK {
			redfishtest.Refuse(w, known.Code, "who are you")
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
		if err != nil {
			t.Error(err)
			return
		}
		go p.carry(websocket.NetConn(context.Background(), conn, websocket.MessageBinary))
	})
	t.Cleanup(p.cut)
}

// The console keeps the contract by a WebSocket, as OpenBMC's and as the standard's, whichever way the BMC is logged in to.
func TestConsoleConformanceByWebSocket(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		system, manager map[string]any
		path, auth      string
	}{
		"OpenBMC":  {nil, map[string]any{"Model": "OpenBmc"}, "/console0", "session"},
		"standard": {map[string]any{"WebSocket": map[string]any{"ServiceEnabled": true, "ConsoleURI": "/redfish/v1/Systems/1/Oem/Console", "Interactive": true}}, nil, "/redfish/v1/Systems/1/Oem/Console", "basic"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
				b, p := redfishtest.Start(t, "Contoso", nil), &port{}
				redfishtest.Merge(b.At[redfishtest.System], map[string]any{"SerialConsole": c.system})
				redfishtest.Merge(b.At[managerAt], c.manager)
				withSocket(t, b, c.path, p)
				m := b.Machine(nil, nil, func(string) map[string]any { return nil })
				return &drivertest.SerialPort{Console: Console{newDriver(t, Options{})}, Node: consoleNode(b, map[string]any{fieldAuth: c.auth}), Secret: redfishtest.Password,
					Say: p.say, Typed: p.text, Hang: m.Hang, Deny: m.Deny, Logins: m.Logins,
					Silence: func() { p.cut(); m.Silence() }}
			})
		})
	}
}

// shellServer is a BMC's SSH server.
type shellServer struct {
	net.Listener
	hostKey  string
	port     *port
	command  string // that enters the console; empty: it is the user's shell
	mu       sync.Mutex
	password string
	refused  int
	hang     chan struct{}
	conns    []net.Conn
	breaks   int
}

func startShells(t *testing.T, p *port, command string) *shellServer {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shellServer{Listener: l, hostKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(shown))), port: p, command: command, password: redfishtest.Password}
	config := &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if string(password) != s.password {
			s.refused++
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			hang := s.hang
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			if hang == nil {
				all.Go(func() { s.serve(c, config) })
			}
		}
	})
	t.Cleanup(func() { s.cut(); all.Wait() })
	return s
}

func (s *shellServer) at() int { return s.Addr().(*net.TCPAddr).Port }

func (s *shellServer) set(do func()) { s.mu.Lock(); defer s.mu.Unlock(); do() }

func (s *shellServer) cut() {
	s.Close()
	s.set(func() {
		for _, c := range s.conns {
			c.Close()
		}
	})
}

func (s *shellServer) serve(c net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		channel, requests, err := asked.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				enters := r.Type == "shell" && s.command == "" || r.Type == "exec" && s.command != "" && string(r.Payload[4:]) == s.command
				if r.Type == "break" {
					s.set(func() { s.breaks++ })
				}
				_ = r.Reply(enters || r.Type == "pty-req" || r.Type == "break", nil)
				if enters {
					go s.port.carry(channel)
				}
			}
		}()
	}
}

// told is what a BMC tells of its console by SSH, and what the node has to say.
type told struct {
	system, manager, protocols map[string]any
	command, vendor            string
	info                       map[string]any
}

// waysBySSH are those by a server at a port.
func waysBySSH(at int) map[string]told {
	own := map[string]any{"ServiceEnabled": true, "Port": at, "HotKeySequenceDisplay": "Press ~. to exit console"}
	shared := map[string]any{"ServiceEnabled": true, "Port": at, "SharedWithManagerCLI": true, "ConsoleEntryCommand": "cd system1/sol1; start"}
	return map[string]told{
		"a port of its own": {system: map[string]any{"SSH": own, "IPMI": map[string]any{"ServiceEnabled": true}}},
		"through the command line": {system: map[string]any{"SSH": shared}, command: "cd system1/sol1; start",
			info: map[string]any{fieldSSHSharedCLI: "True"}},
		"of the manager": {vendor: "HPE", manager: map[string]any{"ServiceEnabled": true, "ConnectTypesSupported": []any{"SSH", "IPMI"}},
			protocols: map[string]any{"SSH": map[string]any{"ProtocolEnabled": true, "Port": at}}, command: "vsp", info: map[string]any{fieldSSHSharedCLI: true}},
	}
}

// The console keeps the contract by SSH, on each way that a BMC may tell of.
func TestConsoleConformanceBySSH(t *testing.T) {
	t.Parallel()
	for name := range waysBySSH(0) {
		t.Run(name, func(t *testing.T) {
			drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
				p := &port{}
				shells := startShells(t, p, waysBySSH(0)[name].command)
				w := waysBySSH(shells.at())[name]
				b := redfishtest.Start(t, w.vendor, nil)
				b.At[redfishtest.System]["SerialConsole"] = w.system
				b.At[managerAt]["SerialConsole"] = w.manager
				if w.protocols != nil {
					b.At[managerAt]["NetworkProtocol"] = redfishtest.Link(managerAt + "/NetworkProtocol")
					b.At[managerAt+"/NetworkProtocol"] = w.protocols
				}
				n := consoleNode(b, w.info)
				n.DriverInfo[fieldSSHHostKey] = shells.hostKey
				return &drivertest.SerialPort{Console: Console{newDriver(t, Options{})}, Node: n, Secret: redfishtest.Password,
					Say: p.say, Typed: p.text, Silence: shells.cut,
					Hang:   func() { shells.set(func() { shells.hang = make(chan struct{}) }) },
					Deny:   func() { shells.set(func() { shells.password = redfishtest.Other }) },
					Logins: func() (n int) { shells.set(func() { n = shells.refused }); return n }}
			})
		})
	}
}

// A user that the SSH server refuses is still let in by Redfish.
func TestAConsoleThatIsRefusedCostsNoPower(t *testing.T) {
	p := &port{}
	shells := startShells(t, p, "")
	b := redfishtest.Start(t, "Contoso", nil)
	b.At[redfishtest.System]["SerialConsole"] = map[string]any{"SSH": map[string]any{"ServiceEnabled": true, "Port": shells.at()}}
	d, n := newDriver(t, Options{}), consoleNode(b, map[string]any{fieldSSHHostKey: "false"})
	shells.set(func() { shells.password = redfishtest.Other })
	if _, err := (Console{d}).OpenConsole(t.Context(), &drivertest.Fence{}, n); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("%v, want ErrDenied", err)
	}
	if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOff {
		t.Errorf("%q, %v", state, err)
	}
}

// What a BMC tells of, and what a node allows, is taken, or refused with what to do.
func TestConsolesThatAreRefused(t *testing.T) {
	shells := startShells(t, &port{}, "")
	on := map[string]any{"ServiceEnabled": true, "Port": shells.at()}
	with := func(more map[string]any) map[string]any {
		s := map[string]any{"ServiceEnabled": true, "Port": shells.at()}
		redfishtest.Merge(s, more)
		return s
	}
	other := startShells(t, &port{}, "")
	for what, c := range map[string]struct {
		system, info map[string]any
		want         error
		says         string
	}{
		"nothing":            {nil, nil, driver.ErrUnsupported, "tells of no serial console"},
		"IPMI alone":         {map[string]any{"IPMI": on}, nil, driver.ErrUnsupported, "ipmitool-socat"},
		"Telnet alone":       {map[string]any{"Telnet": on}, nil, driver.ErrUnsupported, "in the clear"},
		"switched off":       {map[string]any{"SSH": with(map[string]any{"ServiceEnabled": false})}, nil, driver.ErrUnsupported, "switch it on"},
		"no host key":        {map[string]any{"SSH": on}, nil, driver.ErrInvalid, "set driver_info redfish_ssh_host_key"},
		"another host key":   {map[string]any{"SSH": on}, map[string]any{fieldSSHHostKey: other.hostKey}, driver.ErrInvalid, "another key than redfish_ssh_host_key"},
		"the command line":   {map[string]any{"SSH": with(map[string]any{"SharedWithManagerCLI": true, "ConsoleEntryCommand": "vsp"})}, map[string]any{fieldSSHHostKey: shells.hostKey}, driver.ErrInvalid, "redfish_ssh_shared_cli"},
		"no way into it":     {map[string]any{"SSH": with(map[string]any{"SharedWithManagerCLI": true})}, map[string]any{fieldSSHHostKey: shells.hostKey, fieldSSHSharedCLI: true}, driver.ErrUnsupported, "does not tell the command"},
		"another's command":  {map[string]any{"SSH": with(map[string]any{"ConsoleEntryCommand": "vsp"})}, map[string]any{fieldSSHHostKey: shells.hostKey, fieldSSHSharedCLI: true}, nil, "does not begin the console"},
		"a socket elsewhere": {map[string]any{"WebSocket": map[string]any{"ServiceEnabled": true, "ConsoleURI": "//evil.example/x"}}, nil, driver.ErrUnsupported, "no serial console"},
		"no socket there":    {map[string]any{"WebSocket": map[string]any{"ServiceEnabled": true, "ConsoleURI": "/nonesuch"}}, nil, nil, "HTTP 404"},
		"a socket to read":   {map[string]any{"WebSocket": map[string]any{"ServiceEnabled": true, "ConsoleURI": "/x", "Interactive": false}}, nil, driver.ErrUnsupported, "no serial console"},
	} {
		t.Run(what, func(t *testing.T) {
			b := redfishtest.Start(t, "Contoso", nil)
			b.At[redfishtest.System]["SerialConsole"] = c.system
			_, err := Console{newDriver(t, Options{})}.OpenConsole(t.Context(), &drivertest.Fence{}, consoleNode(b, c.info))
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), "b3d1") != 1 {
				t.Errorf("%v; want %v that says %q", err, c.want, c.says)
			}
			if written := b.Written(); len(written) > 0 {
				t.Errorf("it wrote %v", written)
			}
		})
	}
	for field, v := range map[string]any{fieldSSHHostKey: "AAAA", fieldSSHSharedCLI: "perhaps"} {
		b := redfishtest.Start(t, "Contoso", nil)
		if err := (Console{newDriver(t, Options{})}).Validate(consoleNode(b, map[string]any{field: v})); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// OpenBMC may be built without its WebSocket: its port of SSH is there all the same. A break goes that way.
func TestOpenBMCWithoutItsSocket(t *testing.T) {
	p := &port{}
	shells := startShells(t, p, "")
	b := redfishtest.Start(t, "Contoso", nil)
	b.At[managerAt]["Model"] = "OpenBmc"
	b.At[redfishtest.System]["SerialConsole"] = map[string]any{"SSH": map[string]any{"ServiceEnabled": true, "Port": shells.at()}}
	line, err := Console{newDriver(t, Options{})}.OpenConsole(t.Context(), &drivertest.Fence{}, consoleNode(b, map[string]any{fieldSSHHostKey: shells.hostKey}))
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close(t.Context())
	if err := line.Break(t.Context()); err != nil {
		t.Error(err)
	}
	shells.set(func() {
		if shells.breaks != 1 {
			t.Errorf("%d breaks", shells.breaks)
		}
	})
}
