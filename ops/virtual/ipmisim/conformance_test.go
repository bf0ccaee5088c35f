package ipmisim

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	ipmidriver "github.com/ironyard/ironyard/rackd/driver/ipmi"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// needs looks for programs that make test installs.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			if os.Getenv("IRONYARD_E2E") != "" {
				t.Fatalf("%s is not installed: %v", p, err)
			}
			t.Skipf("%s is not installed (make test installs it)", p)
		}
	}
}

// computer is a machine in memory.
type computer struct {
	mu     sync.Mutex
	on     bool
	device string
	resets int
}

func (c *computer) set(do func()) { c.mu.Lock(); defer c.mu.Unlock(); do() }

func (c *computer) On() (on bool)                      { c.set(func() { on = c.on }); return on }
func (c *computer) Start(context.Context) error        { c.set(func() { c.on = true }); return nil }
func (c *computer) Stop(context.Context) error         { c.set(func() { c.on = false }); return nil }
func (c *computer) Shutdown(ctx context.Context) error { return c.Stop(ctx) }
func (c *computer) Reset(context.Context) error        { c.set(func() { c.resets++ }); return nil }
func (c *computer) SetBootOverride(d string, _ bool) error {
	c.set(func() { c.device = d })
	return nil
}
func (c *computer) BootOverride() (device string, once bool) {
	c.set(func() { device = c.device })
	return device, false
}

const emulation = `
mc_add 0x30 0 no-device-sdrs 0x23 9 8 0x9f 0x1234 0xf02
mc_enable 0x30
`

// start starts a simulator with the users admin and oper.
func start(t *testing.T, c Computer, password string) netip.AddrPort {
	t.Helper()
	at, _ := startWith(t, c, password, "", netip.AddrPort{})
	return at
}

// startWith is start with a serial port, at an address that is given or found.
func startWith(t *testing.T, c Computer, password, serial string, at netip.AddrPort) (netip.AddrPort, *BMC) {
	t.Helper()
	needs(t, "ipmi_sim")
	if !at.IsValid() {
		at = free(t)
	}
	b, err := Start(context.Background(), Config{Dir: t.TempDir(), Address: at, Emulation: emulation, Serial: serial,
		Users: []User{{"admin", password, "admin"}, {"oper", password, "operator"}, {"reader", password, "user"}}}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return at, b
}

// free is an address that is free.
func free(t *testing.T) netip.AddrPort {
	t.Helper()
	probe, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	return probe.LocalAddr().(*net.UDPAddr).AddrPort()
}

func newDriver(t *testing.T) *ipmidriver.Driver { return newDriverWith(t, time.Second) }

func newDriverWith(t *testing.T, timeout time.Duration) *ipmidriver.Driver {
	d := ipmidriver.New(ipmidriver.Options{Timeout: timeout, Pace: 10_000, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Log: drivertest.Logger(t)})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return d
}

func nodeAt(port uint16, password string, fields map[string]any) *node.Document {
	info := map[string]any{"ipmi_address": "127.0.0.1", "ipmi_port": strconv.Itoa(int(port)), "ipmi_username": "admin", "ipmi_password": password}
	for k, v := range fields {
		info[k] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

// The driver ipmi keeps the contract of power on a BMC that has nothing of this project in it. Cipher suite 2 and IPMI 1.5 do not encrypt,
// so that the wire sees what is said. The simulator keeps no boot flags, so the boot device has tests of its own.
func TestDriverConforms(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]map[string]any{"2.0": {"ipmi_cipher_suite": 2}, "1.5": {"ipmi_protocol_version": "1.5"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
				m := machineOf(t, fields)
				if os.Getenv("IRONYARD_HARDWARE") == "" { // it starts a simulator for each request of each command
					m.Spoil, m.Asked, m.Without["Spoil"] = nil, nil, "it takes long: set IRONYARD_HARDWARE=1. rackd/driver/ipmi has that on a BMC of go-ipmi"
				}
				return m
			})
		})
	}
}

// patience bounds the wait for one answer. The simulator runs a shell to read the power: on a busy host that takes longer than the
// first try of a short one, and a second try is another request.
const patience = 4 * time.Second

func machineOf(t *testing.T, fields map[string]any) *drivertest.Machine {
	c := &computer{}
	wire := ipmitest.NewWire(t, start(t, c, "s3cret-pass").String())
	d := newDriverWith(t, patience)
	spoiler := &drivertest.Datagrams{Spoiler: drivertest.Spoiler{Restart: func() { wire.To(start(t, c, "s3cret-pass").String()) }}}
	t.Cleanup(spoiler.Wait)
	var writes, refused, losing atomic.Int64
	var lose, hang atomic.Bool
	var whileRead atomic.Pointer[func()]
	wire.Up(func(b []byte) []ipmitest.Packet {
		if ipmitest.Refused(b) {
			refused.Add(1)
		}
		if hang.Load() {
			return nil
		}
		if !spoiler.Up() {
			return nil
		}
		if m, ok := ipmitest.Read(b); ok && m.Order() {
			writes.Add(1)
			if lose.CompareAndSwap(true, false) {
				losing.Store(1)
			}
		}
		return ipmitest.As(b)
	})
	wire.Down(func(b []byte) []ipmitest.Packet {
		if ipmitest.Refused(b) {
			refused.Add(1)
		}
		if hang.Load() {
			return nil
		}
		m, ok := ipmitest.Read(b)
		if ok && m.NetFn == 1 && m.Command == 2 && losing.CompareAndSwap(1, 0) { // the order's answer, and no late one of a question
			return nil
		}
		if ok && m.NetFn == 1 && m.Command == 1 {
			if do := whileRead.Swap(nil); do != nil {
				(*do)()
			}
		}
		packets, late := spoiler.Down(b)
		return ipmitest.After(late, packets...)
	})
	port := uint16(wire.Port())
	return &drivertest.Machine{
		Power: d, Node: nodeAt(port, "s3cret-pass", fields), Secret: "s3cret-pass",
		Writes:    func() int { return int(writes.Load()) },
		Lose:      func() { lose.Store(true) },
		Silence:   wire.Cut,
		Spoil:     spoiler.Spoil,
		Asked:     spoiler.Asked,
		Restart:   spoiler.Restart,
		Hang:      func() { hang.Store(true) },
		WhileRead: func(do func()) { whileRead.Store(&do) },
		Deny:      func() { wire.To(start(t, c, "an0ther-pass").String()) },
		Logins:    func() int { return int(refused.Load()) },
		Corrected: func() *node.Document { return nodeAt(port, "an0ther-pass", fields) },
		Port:      func() string { return strconv.Itoa(wire.Port()) },
		Without: map[string]string{"Management": "the simulator keeps no boot flags: boot devices have tests of their own",
			"Second": "a BMC of IPMI has one machine that is not bridged to", "Sessions": "ipmi_sim does not tell of them"},
	}
}

// ipmitool, which Ironic uses, sees what the driver has set, and the driver what ipmitool has.
func TestForeignReader(t *testing.T) {
	t.Parallel()
	needs(t, "ipmitool")
	c := &computer{}
	at := start(t, c, "s3cret-pass")
	d, n := newDriver(t), nodeAt(at.Port(), "s3cret-pass", nil)
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("s3cret-pass"), 0o600); err != nil {
		t.Fatal(err)
	}
	ipmitool := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "ipmitool", append(strings.Fields("-I lanplus -C 3 -H 127.0.0.1 -U admin -f "+secret+" -p "+strconv.Itoa(int(at.Port()))), args...)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("ipmitool %v: %v: %s", args, err, out.String())
		}
		return out.String()
	}
	sees := func(want string, args ...string) {
		t.Helper()
		if out := ipmitool(args...); !strings.Contains(out, want) {
			t.Errorf("ipmitool %v says %q, want %q", args, out, want)
		}
	}
	f := &drivertest.Fence{}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	do(d.SetPower(t.Context(), f, n, driver.PowerOn))
	sees("is on", "power", "status")
	do(d.SetPower(t.Context(), f, n, driver.SoftPowerOff))
	sees("is off", "power", "status")
	for device, words := range map[driver.BootDevice]string{driver.BootPXE: "Force PXE", driver.BootDisk: "default Hard-Drive"} {
		do(d.SetBootDevice(t.Context(), f, n, device, false))
		sees(words, "chassis", "bootparam", "get", "5")
	}
	ipmitool("power", "on")
	if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOn {
		t.Errorf("after ipmitool's power on: %q, %v", state, err)
	}
	if id, err := d.Identity(t.Context(), n); err != nil || id.Manufacturer != "IPMI Forum" {
		t.Errorf("identity %+v, %v", id, err)
	}
	sees("7154", "mc", "info")
	if err := d.InjectNMI(t.Context(), f, n); err == nil || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("an NMI of a BMC without: %v", err)
	}
	v := ipmidriver.Vendor{Driver: d}
	for _, m := range v.VendorMethods() {
		if m.Name != "send_raw" {
			continue
		}
		if _, err := m.Call(t.Context(), f, n, map[string]any{"raw_bytes": "0x00 0x02 0x00"}); err != nil || c.On() {
			t.Errorf("a raw power off: %v, on %v", err, c.On())
		}
	}
}

// A controller behind the BMC is reached through it, as by ipmitool -b 0 -t 0x30; one that is not there is told of.
func TestBridge(t *testing.T) {
	t.Parallel()
	at := start(t, &computer{}, "s3cret-pass")
	d := newDriver(t)
	bridged := func(address string) *node.Document {
		return nodeAt(at.Port(), "s3cret-pass", map[string]any{"ipmi_bridging": "single", "ipmi_target_channel": "0", "ipmi_target_address": address})
	}
	if id, err := d.Identity(t.Context(), bridged("0x30")); err != nil || id.Manufacturer != fmt.Sprintf("manufacturer %d", 0x1234) {
		t.Errorf("the controller behind: %+v, %v", id, err)
	}
	if _, err := d.Identity(t.Context(), bridged("0x40")); err == nil || !strings.Contains(err.Error(), "ipmi_bridging") {
		t.Errorf("a controller that is not there: %v", err)
	}
	if id, err := d.Identity(t.Context(), nodeAt(at.Port(), "s3cret-pass", nil)); err != nil || id.Manufacturer != "IPMI Forum" {
		t.Errorf("the BMC itself: %+v, %v", id, err)
	}
}

// Each refusal says what to do.
func TestRefusals(t *testing.T) {
	t.Parallel()
	at := start(t, &computer{}, "s3cret-pass")
	for name, c := range map[string]struct {
		fields map[string]any
		words  []string
	}{
		"wrong password": {map[string]any{"ipmi_password": "wr0ng"}, []string{"the password is not the one", "ipmi_password", driver.ErrDenied.Error()}},
		"unknown user":   {map[string]any{"ipmi_username": "ann"}, []string{"does not know the user", "ipmi_username", driver.ErrDenied.Error()}},
		"suite":          {map[string]any{"ipmi_cipher_suite": 17}, []string{"refuses cipher suite 17", "another ipmi_cipher_suite", driver.ErrInvalid.Error()}},
		"key":            {map[string]any{"ipmi_hex_kg_key": "0102"}, []string{"key (Kg) is another one", "ipmi_hex_kg_key", driver.ErrDenied.Error()}},
		"old password":   {map[string]any{"ipmi_protocol_version": "1.5", "ipmi_password": "wr0ng"}, []string{"wrong password", "ipmi_password", driver.ErrDenied.Error()}},
		"old privilege":  {map[string]any{"ipmi_protocol_version": "1.5", "ipmi_username": "oper"}, []string{"ADMINISTRATOR", "ipmi_priv_level", driver.ErrDenied.Error()}},
		"privilege":      {map[string]any{"ipmi_username": "reader", "ipmi_priv_level": "USER"}, []string{"D4h", "ipmi_priv_level", driver.ErrDenied.Error()}},
		"port":           {map[string]any{"ipmi_port": 9}, []string{"nothing listens", "ipmi_port", "firewall", driver.ErrUnreachable.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			err := newDriver(t).SetPower(t.Context(), &drivertest.Fence{}, nodeAt(at.Port(), "s3cret-pass", c.fields), driver.PowerOn)
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range append(c.words, "web1") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			for _, secret := range []string{"s3cret-pass", "wr0ng"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q tells the password", err)
				}
			}
		})
	}
}
