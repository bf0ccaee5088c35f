package wol

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// card is a network that packets arrive in.
type card struct {
	conn *net.UDPConn
	mu   sync.Mutex
	got  [][]byte
	when []time.Time
}

func newCard(t *testing.T) *card {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	c := &card{conn: conn}
	var served sync.WaitGroup
	served.Go(func() {
		b := make([]byte, 1500)
		for {
			n, _, err := conn.ReadFromUDP(b)
			if err != nil {
				return
			}
			c.mu.Lock()
			c.got, c.when = append(c.got, bytes.Clone(b[:n])), append(c.when, time.Now())
			c.mu.Unlock()
		}
	})
	t.Cleanup(func() { conn.Close(); served.Wait() })
	return c
}

// packets waits until there are so many, and returns all.
func (c *card) packets(t *testing.T, want int) [][]byte {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		c.mu.Lock()
		got := c.got
		c.mu.Unlock()
		if len(got) >= want || time.Now().After(end) {
			if len(got) != want {
				t.Errorf("%d packets, want %d", len(got), want)
			}
			return got
		}
		time.Sleep(time.Millisecond)
	}
}

var loopback = outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}

func (c *card) node(macs ...string) *node.Document {
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldHost: "127.0.0.1", fieldPort: strconv.Itoa(c.conn.LocalAddr().(*net.UDPAddr).Port)}}
	for _, mac := range macs {
		n.Ports = append(n.Ports, node.Port{UUID: "p-" + mac, Address: mac})
	}
	return n
}

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		c, writes := newCard(t), 0
		d := New(Options{Networks: loopback})
		return &drivertest.Machine{Power: d, Node: c.node("52:54:00:00:00:01"), OneWay: true, Port: func() string { return strconv.Itoa(c.conn.LocalAddr().(*net.UDPAddr).Port) }, Close: func(context.Context) error { return nil },
			Without: map[string]string{"Management": "a packet reaches nothing but the power", "Lose": "no packet is answered", "Silence": "no packet is answered", "Hang": "no packet is answered", "Spoil": "no packet is answered",
				"WhileRead": "nothing is read", "Deny": "there are no credentials", "Second": "a packet wakes one machine", "Log": "the driver logs nothing"},
			Writes: func() int { // what was sent on loopback has arrived
				c.mu.Lock()
				defer c.mu.Unlock()
				writes = len(c.got)
				return writes
			}}
	})
}

// Each port's card gets a packet of its own, with a gap between.
func TestPackets(t *testing.T) {
	c, d := newCard(t), New(Options{Gap: 30 * time.Millisecond, Networks: loopback})
	n := c.node("52:54:00:00:00:01", "52:54:00:00:00:02")
	f := &drivertest.Fence{}
	if is, err := d.PowerState(t.Context(), n); is != "" || err != nil {
		t.Errorf("before anything was asked for: %q, %v", is, err)
	}
	if err := d.SetPower(t.Context(), f, n, driver.PowerOn); err != nil {
		t.Fatal(err)
	}
	got := c.packets(t, 2)
	for i, last := range []byte{1, 2} {
		want := append(bytes.Repeat([]byte{0xff}, 6), bytes.Repeat([]byte{0x52, 0x54, 0, 0, 0, last}, 16)...)
		if !bytes.Equal(got[i], want) {
			t.Errorf("packet %d is %x, want %x", i, got[i], want)
		}
	}
	c.mu.Lock()
	gap := c.when[1].Sub(c.when[0])
	c.mu.Unlock()
	if gap < 20*time.Millisecond {
		t.Errorf("%s between the packets", gap)
	}
	if f.Checks.Load() != 2 {
		t.Errorf("the fence was asked %d times, for 2 packets", f.Checks.Load())
	}
	if is, err := d.PowerState(t.Context(), n); is != driver.PowerOn || err != nil {
		t.Errorf("after it was asked to go on: %q, %v", is, err)
	}
	n.DriverInfo[fieldPassword] = "01:02:03:04:05:06"
	if err := d.SetPower(t.Context(), f, n, driver.Rebooting); err != nil {
		t.Fatal(err)
	}
	if got = c.packets(t, 4); len(got) == 4 && (len(got[3]) != 108 || !bytes.HasSuffix(got[3], []byte{1, 2, 3, 4, 5, 6})) {
		t.Errorf("a packet with a password is %x", got[3])
	}
}

func TestValidate(t *testing.T) {
	c, d := newCard(t), New(Options{Networks: loopback})
	for _, w := range []struct {
		fields map[string]any
		macs   []string
		says   string // empty: it is fine
	}{
		{nil, []string{"52:54:00:00:00:01"}, ""},
		{map[string]any{fieldHost: ""}, []string{"52:54:00:00:00:01"}, ""},
		{map[string]any{fieldHost: "machines.example", fieldPort: float64(7)}, []string{"52:54:00:00:00:01"}, ""},
		{nil, nil, "Wake-On-Lan needs at least one port resource to be registered in the node"},
		{nil, []string{"52:54:00:00:00:00:00:01"}, "six octets"},
		{map[string]any{fieldPort: "nine"}, []string{"52:54:00:00:00:01"}, `wol_port "nine" is not a valid integer.`},
		{map[string]any{fieldPort: "70000"}, []string{"52:54:00:00:00:01"}, "out of range"},
		{map[string]any{fieldHost: "192.0.2.255"}, []string{"52:54:00:00:00:01"}, "--bmc-networks"},
		{map[string]any{fieldHost: "http://x"}, []string{"52:54:00:00:00:01"}, "wol_host"},
		{map[string]any{fieldPassword: "open sesame"}, []string{"52:54:00:00:00:01"}, "wol_password is not six octets"},
	} {
		n := c.node(w.macs...)
		for field, v := range w.fields {
			n.DriverInfo[field] = v
		}
		err := d.Validate(n)
		switch {
		case w.says == "" && err != nil:
			t.Errorf("%v: %v", w.fields, err)
		case w.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), w.says) || strings.Contains(err.Error(), "sesame")):
			t.Errorf("%v %v: %v; want an ErrInvalid that says %q", w.fields, w.macs, err, w.says)
		}
	}
}

// What is not possible is refused with what a person can do; so is a network that is not there.
func TestRefusals(t *testing.T) {
	c, d := newCard(t), New(Options{Networks: loopback})
	n := c.node("52:54:00:00:00:01")
	err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOff)
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "switch it off by hand") {
		t.Errorf("power off: %v", err)
	}
	n.DriverInfo[fieldHost] = ""
	nowhere := New(Options{Interface: "iy-nonesuch"})
	err = nowhere.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOn)
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "Failed to send Wake-On-Lan magic packets") {
		t.Errorf("by an interface that is not there: %v", err)
	}
}

// A rackd says at its start that magic packets cannot leave.
func TestReady(t *testing.T) {
	if err := New(Options{Interface: "none0"}).Ready(); err == nil || !strings.Contains(err.Error(), "the network interface none0") {
		t.Errorf("with an interface that is not there: %v", err)
	}
	if err := New(Options{Interface: "lo"}).Ready(); err != nil {
		t.Error(err)
	}
}
