package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/sidebyside"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// atOnce is how many tests run side by side. Most of them wait for answers that do not come.
const atOnce = 8

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	goleak.VerifyTestMain(m)
}

// machine is a virtual machine of the double.
type machine struct {
	mac, boot string
	on        bool
}

// double is a host with an SSH server and the command lines of five virtualisations, as their manuals have them. The package's
// judge_test.go has a real sshd and a real virsh.
type double struct {
	listener net.Listener
	hostKey  string
	served   sync.WaitGroup
	spoiler  drivertest.Spoiler // before logins and commands

	mu       sync.Mutex
	conns    []net.Conn
	password string
	refused  int
	writes   int
	lose     bool
	hang     bool
	ended    chan struct{}
	during   func()
	machines map[string]*machine
	commands []string
}

const ours, other = "6a1c2b00-0000-4000-8000-000000000001", "6a1c2b00-0000-4000-8000-000000000002"

func newDouble(t *testing.T) *double {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := xssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &double{listener: l, hostKey: string(xssh.MarshalAuthorizedKey(signer.PublicKey())), password: "s3cret", ended: make(chan struct{}),
		machines: map[string]*machine{ours: {mac: "52:54:00:aa:bb:01"}, other: {mac: "52:54:00:aa:bb:02"}}}
	d.spoiler.Restart = func() {
		d.set(func() {
			for _, c := range d.conns {
				c.Close()
			}
		})
	}
	d.served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.set(func() { d.conns = append(d.conns, conn) })
			d.served.Go(func() { defer conn.Close(); d.serve(conn, signer) })
		}
	})
	t.Cleanup(func() { close(d.ended); d.silence(); d.served.Wait() })
	return d
}

func (d *double) set(do func()) { d.mu.Lock(); defer d.mu.Unlock(); do() }

func (d *double) silence() {
	d.listener.Close()
	d.set(func() {
		for _, c := range d.conns {
			c.Close()
		}
	})
}

func (d *double) serve(wire net.Conn, signer xssh.Signer) {
	config := &xssh.ServerConfig{PasswordCallback: func(c xssh.ConnMetadata, password []byte) (*xssh.Permissions, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c.User() != "admin" || string(password) != d.password {
			d.refused++
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	how := d.spoiler.Next()
	switch how {
	case drivertest.Dropped:
		return
	case drivertest.Half:
		_, _ = io.WriteString(wire, "SSH-2.0-")
		return
	case drivertest.Late:
		<-time.After(drivertest.Lateness)
	}
	_, channels, requests, err := xssh.NewServerConn(wire, config)
	if err != nil {
		return
	}
	switch how {
	case drivertest.Lost:
		return
	case drivertest.Reset:
		d.spoiler.Forget()
	}
	d.served.Go(func() { xssh.DiscardRequests(requests) })
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		d.served.Go(func() {
			for r := range requests {
				if r.Type != "exec" {
					_ = r.Reply(false, nil)
					continue
				}
				var e struct{ Command string }
				_ = xssh.Unmarshal(r.Payload, &e)
				_ = r.Reply(true, nil)
				input, _ := io.ReadAll(channel)
				how := d.spoiler.Next()
				if how == drivertest.Dropped {
					wire.Close()
					return
				}
				out, status, answered := d.run(e.Command, string(input))
				switch how {
				case drivertest.Lost:
					answered = false
				case drivertest.Reset:
					d.spoiler.Forget()
					return
				case drivertest.Late:
					<-time.After(drivertest.Lateness)
				case drivertest.Half: // the connection stays
					_, _ = io.WriteString(channel, out[:len(out)/2])
					channel.Close()
					continue
				}
				if !answered {
					wire.Close()
					return
				}
				if status == 0 {
					_, _ = io.WriteString(channel, out)
				} else {
					_, _ = io.WriteString(channel.Stderr(), out)
				}
				exited := xssh.Marshal(struct{ Status uint32 }{uint32(status)})
				_, _ = channel.SendRequest("exit-status", false, exited)
				if how == drivertest.Twice {
					_, _ = channel.SendRequest("exit-status", false, exited)
				}
				channel.Close()
			}
		})
	}
}

// words splits a command as a shell does whose only quotes are single ones.
func words(command string) (list []string) {
	var b strings.Builder
	in, any := false, false
	for _, r := range command {
		switch {
		case r == '\'':
			in, any = !in, true
		case r == ' ' && !in:
			if any || b.Len() > 0 {
				list = append(list, b.String())
			}
			b.Reset()
			any = false
		default:
			b.WriteRune(r)
		}
	}
	if any || b.Len() > 0 {
		list = append(list, b.String())
	}
	return list
}

// run does a command. answered is false where the answer gets lost.
func (d *double) run(command, input string) (out string, status int, answered bool) {
	d.mu.Lock()
	if d.hang {
		d.mu.Unlock()
		<-d.ended
		return "", 0, false
	}
	defer d.mu.Unlock()
	d.commands = append(d.commands, command)
	w := words(strings.TrimPrefix(command, "LC_ALL=C "))
	before := d.state()
	switch w[0] {
	case "/usr/bin/virsh":
		out, status = d.virsh(w[4:], input)
	case "/usr/bin/VBoxManage":
		out, status = d.vbox(w[1:])
	case "/bin/vim-cmd":
		out, status = d.vmware(w[1:])
	case "/usr/bin/prlctl":
		out, status = d.parallels(w[1:])
	case "/opt/xensource/bin/xe":
		out, status = d.xen(w[1:])
	default:
		return "sh: " + w[0] + ": not found", 127, true
	}
	if d.state() != before {
		d.writes++
		if d.lose {
			d.lose = false
			return "", 0, false
		}
	} else if do := d.during; do != nil {
		d.during = nil
		do()
	}
	return out, status, true
}

func (d *double) state() string { return fmt.Sprint(*d.machines[ours], *d.machines[other]) }

func (m *machine) word(words map[string]string, fallback string) string {
	if w := words[m.boot]; w != "" {
		return w
	}
	return fallback
}

func (d *double) virsh(w []string, input string) (string, int) {
	if w[0] == "list" {
		return ours + "\n" + other + "\n\n", 0
	}
	if w[0] == "define" {
		for id, m := range d.machines {
			if strings.Contains(input, "<uuid>"+id) {
				_, after, _ := strings.Cut(input, "<boot dev='")
				m.boot, _, _ = strings.Cut(after, "'")
				return "Domain defined\n", 0
			}
		}
		return "error: no such thing", 1
	}
	m := d.machines[w[len(w)-1]]
	if m == nil {
		return "error: failed to get domain", 1
	}
	switch w[0] {
	case "dumpxml":
		return "<domain type='kvm'>\n  <uuid>" + w[len(w)-1] + "</uuid>\n  <os>\n    <type>hvm</type>\n    <boot dev='" + m.word(nil, m.boot+map[bool]string{true: "hd"}[m.boot == ""]) + "'/>\n  </os>\n  <interface><mac address='" + m.mac + "'/></interface>\n</domain>\n", 0
	case "domstate":
		return map[bool]string{true: "running", false: "shut off"}[m.on] + "\n", 0
	case "start":
		m.on = true
	case "destroy", "shutdown":
		m.on = false
	}
	return "", 0
}

func (d *double) vbox(w []string) (string, int) {
	if w[0] == "list" {
		return fmt.Sprintf("\"web 1\" {%s}\n\"it's\" {%s}\n", ours, other), 0
	}
	id := slices.IndexFunc(w, func(s string) bool { return d.machines[s] != nil })
	if id < 0 {
		return "VBoxManage: error: Could not find a registered machine", 1
	}
	m := d.machines[w[id]]
	switch w[0] {
	case "showvminfo":
		boot := m.boot
		if boot == "" {
			boot = "disk"
		}
		return fmt.Sprintf("name=\"x\"\nboot1=\"%s\"\nboot2=\"none\"\nVMState=\"%s\"\nmacaddress1=\"%s\"\n", boot, map[bool]string{true: "running", false: "poweroff"}[m.on], strings.ToUpper(bare(m.mac))), 0
	case "startvm":
		m.on = true
	case "controlvm":
		m.on = false
	case "modifyvm":
		if m.on {
			return "VBoxManage: error: The machine is already locked for a session", 1
		}
		m.boot = w[3]
	}
	return "", 0
}

// numbers are VMware's.
var numbers = map[string]string{"1": ours, "12": other}

func (d *double) vmware(w []string) (string, int) {
	if w[0] == "vmsvc/getallvms" {
		return "Vmid   Name   File\n1      web1   [ds] web1.vmx\n12     web2   [ds] web2.vmx\n", 0
	}
	m := d.machines[numbers[w[1]]]
	switch w[0] {
	case "vmsvc/device.getdevices":
		return "   macAddress = \"" + m.mac + "\",\n", 0
	case "vmsvc/power.getstate":
		return "Retrieved runtime info\nPowered " + map[bool]string{true: "on", false: "off"}[m.on] + "\n", 0
	}
	m.on = w[0] == "vmsvc/power.on"
	return "", 0
}

func (d *double) parallels(w []string) (string, int) {
	if slices.Contains(w, "-a") {
		return fmt.Sprintf("UUID\n{%s}\n{%s}\n", ours, other), 0
	}
	id := slices.IndexFunc(w, func(s string) bool { return d.machines[s] != nil })
	m := d.machines[w[id]]
	switch w[0] {
	case "list":
		if slices.Contains(w, "-j") {
			return `[{"Hardware": {"net0": {"mac": "` + strings.ToUpper(bare(m.mac)) + `"}}}]`, 0
		}
		boot := m.boot
		if boot == "" {
			boot = "hdd0"
		}
		return "ID: x\nState: " + map[bool]string{true: "running", false: "stopped"}[m.on] + "\nBoot order: " + boot + " cdrom1\n", 0
	case "set":
		m.boot = w[3]
		return "", 0
	}
	m.on = w[0] == "start"
	return "", 0
}

func (d *double) xen(w []string) (string, int) {
	given := map[string]string{}
	for _, a := range w[1:] {
		name, v, _ := strings.Cut(a, "=")
		given[name] = v
		if name, v, ok := strings.Cut(a, ":order="); ok {
			given[name] = v
		}
	}
	if w[0] == "vm-list" {
		return ours + "," + other + "\n", 0
	}
	m := d.machines[given["uuid"]+given["vm-uuid"]]
	switch w[0] {
	case "vif-list":
		return "00:00:00:00:00:01," + m.mac + "\n", 0
	case "vm-param-get":
		if given["param-name"] == "power-state" {
			return map[bool]string{true: "running", false: "halted"}[m.on] + "\n", 0
		}
		if m.boot == "" {
			return "cd\n", 0
		}
		return m.boot + "\n", 0
	case "vm-param-set":
		m.boot = given["HVM-boot-params"]
		return "", 0
	}
	m.on = w[0] == "vm-start"
	return "", 0
}

func (d *double) node(more map[string]any) *node.Document {
	host, port, _ := net.SplitHostPort(d.listener.Addr().String())
	info := map[string]any{fieldAddress: host, fieldPort: port, fieldUser: "admin", fieldPassword: "s3cret", fieldVirtType: "virsh", fieldHostKey: d.hostKey}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info, Ports: []node.Port{{Address: "52:54:00:aa:bb:01"}}}
}

func newDriver(t *testing.T) *Driver {
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

func TestConformance(t *testing.T) {
	for kind := range dialects {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
				h, d := newDouble(t), newDriver(t)
				nodeWith := func(password string) *node.Document {
					return h.node(map[string]any{fieldVirtType: kind, fieldPassword: password})
				}
				m := &drivertest.Machine{Power: d, Management: d, Node: nodeWith("s3cret"), Lasting: true, Secret: "s3cret", Without: map[string]string{"Sessions": "a login is a connection: Port counts these"},
					Spoil:     h.spoiler.Spoil,
					Asked:     h.spoiler.Asked,
					Restart:   h.spoiler.Forget,
					Port:      func() string { return portOf(h.listener) },
					Writes:    func() (n int) { h.set(func() { n = h.writes }); return n },
					Lose:      func() { h.set(func() { h.lose = true }) },
					Hang:      func() { h.set(func() { h.hang = true }) },
					Silence:   h.silence,
					WhileRead: func(do func()) { h.set(func() { h.during = do }) },
					Deny: func() {
						h.set(func() {
							h.password = "an0ther"
							for _, c := range h.conns {
								c.Close()
							}
						})
					},
					Logins:    func() (n int) { h.set(func() { n = h.refused }); return n },
					Corrected: func() *node.Document { return nodeWith("an0ther") },
					Forget:    func() { h.set(func() { h.machines[ours].boot = "" }) },
				}
				m.Second = func() *node.Document {
					n := nodeWith("s3cret")
					n.UUID, n.Name, n.Ports = "b3d2", "web2", []node.Port{{UUID: "p2", Address: "52:54:00:aa:bb:02"}}
					return n
				}
				if kind == "vmware" {
					m.Management, m.Forget, m.Without["Management"] = nil, nil, "vim-cmd knows no boot devices"
				}
				return m
			})
		})
	}
}

func TestMachinesAreFoundByTheirPorts(t *testing.T) {
	h, d := newDouble(t), newDriver(t)
	n, f := h.node(nil), &drivertest.Fence{}
	if err := d.SetPower(t.Context(), f, n, driver.PowerOn); err != nil || !h.machines[ours].on || h.machines[other].on {
		t.Fatalf("%v, %s", err, h.state())
	}
	h.set(func() { h.commands = nil })
	if _, err := d.PowerState(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	h.set(func() {
		if len(h.commands) != 2 {
			t.Errorf("a machine that was found before is looked for with %q", h.commands)
		}
		h.machines[ours].mac, h.machines[other].mac = h.machines[other].mac, h.machines[ours].mac
	})
	if is, err := d.PowerState(t.Context(), n); err != nil || is != driver.PowerOff {
		t.Errorf("with another machine at the address: %q, %v", is, err)
	}
	h.set(func() { h.machines[ours].mac = h.machines[other].mac })
	if _, err := newDriver(t).PowerState(t.Context(), n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "with 2 machines") {
		t.Errorf("%v", err)
	}
	h.set(func() { h.machines[ours].mac, h.machines[other].mac = "02:00:00:00:00:01", "02:00:00:00:00:02" })
	if _, err := d.PowerState(t.Context(), n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "with 0 machines") {
		t.Errorf("%v", err)
	}
	refusedBy := func(more map[string]any, want error, says string) {
		t.Helper()
		if _, err := d.PowerState(t.Context(), h.node(more)); !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %v, %s", err, want, says)
		}
	}
	refusedBy(map[string]any{fieldHostKey: otherHostKey}, driver.ErrInvalid, "another key than ssh_host_key")
}

const otherHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPlCtpGmsn0dzpdjV3JzC6JQ60UGMmEH4PvDZ5T7n0o1"

// VirtualBox takes a boot device while the machine is off: one that is set before is kept, and told before the start.
func TestVirtualBoxKeepsBootDevices(t *testing.T) {
	h, d := newDouble(t), newDriver(t)
	n, f := h.node(map[string]any{fieldVirtType: "vbox", fieldHeadless: "True"}), &drivertest.Fence{}
	for _, err := range []error{d.SetPower(t.Context(), f, n, driver.PowerOn), d.SetBootDevice(t.Context(), f, n, driver.BootPXE, false)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != "pxe" || h.machines[ours].boot != "" {
		t.Errorf("%+v, %v, %q", is, err, h.machines[ours].boot)
	}
	n.Kept = d.Kept(n)
	if err := newDriver(t).SetPower(t.Context(), f, n, driver.Rebooting); err != nil || h.machines[ours].boot != "net" || !h.machines[ours].on {
		t.Errorf("%v, %s", err, h.state())
	}
	if last := h.commands[len(h.commands)-1]; !strings.HasSuffix(last, "startvm '"+ours+"' --type headless") {
		t.Error(last)
	}
}

func TestValidate(t *testing.T) {
	h, d := newDouble(t), newDriver(t)
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	block, err := xssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldHostKey: "false", fieldPort: nil}, ""},
		{map[string]any{fieldKey: string(pem.EncodeToMemory(block))}, ""},
		{map[string]any{fieldUser: "", fieldVirtType: nil}, "SSHPowerDriver requires the following parameters to be set in node's driver_info: ['ssh_username', 'ssh_virt_type']."},
		{map[string]any{fieldVirtType: "hyperv"}, "SSHPowerDriver 'hyperv' is not a valid virt_type."},
		{map[string]any{fieldPassword: nil}, "requires at least one of ssh_password, ssh_key_contents and ssh_key_filename to be set."},
		{map[string]any{fieldKeyFile: "/root/.ssh/id_rsa"}, "Give the key itself in ssh_key_contents"},
		{map[string]any{fieldKey: "s3cret"}, "ssh_key_contents is no private key"},
		{map[string]any{fieldHostKey: nil}, "ssh_host_key is no public key"},
		{map[string]any{fieldPort: "0"}, "out of range"},
		{map[string]any{fieldHeadless: "perhaps"}, "give true or false"},
		{map[string]any{fieldAddress: "192.0.2.1"}, "--bmc-networks"},
	} {
		err := d.Validate(h.node(x.more))
		switch {
		case x.says == "" && err != nil:
			t.Errorf("%v: %v", x.more, err)
		case x.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "s3cret") || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that says %q", x.more, err, x.says)
		}
	}
	n := h.node(nil)
	n.Ports = nil
	if err := d.Validate(n); !errors.Is(err, driver.ErrInvalid) || err.Error() != "Node b3d1 does not have any port associated with it." {
		t.Errorf("without ports: %v", err)
	}
}

// portOf is where a listener listens.
func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
