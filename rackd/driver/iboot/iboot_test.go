package iboot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// double is an iBoot with three relays, made from what clients of others send and expect. It is no judge.
type double struct {
	listener net.Listener
	spoiler  drivertest.Spoiler // before the greeting, and before the answer to what comes after it
	mu       sync.Mutex
	relays   [3]byte
	sequence uint16
	sets     int
	lose     bool
	hang     bool
	drop     int // how many reads it does not answer
	half     int // of how many reads it sends one octet and ends the connection
	during   func()
	bad      []string
}

func newDouble(t *testing.T) *double {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &double{listener: l, sequence: 0x01ff}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { defer conn.Close(); d.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); served.Wait() })
	return d
}

func (d *double) set(do func()) { d.mu.Lock(); defer d.mu.Unlock(); do() }

func (d *double) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	greeting := make([]byte, 9)
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != "hello-000" {
		return
	}
	d.mu.Lock()
	hang, number := d.hang, d.sequence
	d.sequence += 7
	d.mu.Unlock()
	if hang {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	if !d.spoiler.Send(d.spoiler.Next(), conn, binary.LittleEndian.AppendUint16(nil, number)) {
		return
	}
	head := make([]byte, 47)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	how := d.spoiler.Next()
	if how == drivertest.Dropped {
		return
	}
	if answer := d.do(conn, head, number); len(answer) > 0 {
		d.spoiler.Send(how, conn, answer)
	}
}

// do is the answer to what came with a head; none: the connection ends.
func (d *double) do(conn net.Conn, head []byte, number uint16) []byte {
	order := make([]byte, 2)
	if head[43] == 1 {
		if _, err := io.ReadFull(conn, order); err != nil || order[0] < 1 || order[0] > 3 {
			return nil
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	user, password := bytes.TrimRight(head[1:22], "\x00"), bytes.TrimRight(head[22:43], "\x00")
	if head[0] != 3 || binary.LittleEndian.Uint16(head[45:]) != number+1 {
		d.bad = append(d.bad, string(head[:1]))
		return nil
	}
	if string(user) != "admin" || string(password) != "s3cret" {
		return nil
	}
	switch head[43] {
	case 4:
		if do := d.during; do != nil {
			d.during = nil
			do()
		}
		if d.drop > 0 {
			d.drop--
			return nil
		}
		if d.half > 0 {
			d.half--
			return d.relays[:1:1]
		}
		return slices.Clone(d.relays[:])
	case 1:
		d.relays[order[0]-1] = order[1]
		d.sets++
		if d.lose {
			d.lose = false
			return nil
		}
		return []byte{0}
	}
	return nil
}

func (d *double) node(more map[string]any) *node.Document {
	host, port, _ := net.SplitHostPort(d.listener.Addr().String())
	info := map[string]any{fieldAddress: host, fieldPort: port, fieldUser: "admin", fieldPassword: "s3cret", fieldRelay: 2}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

func newDriver(t *testing.T) *Driver {
	d := New(Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pause: 5 * time.Millisecond, Hold: 20 * time.Millisecond, Timeout: 2 * time.Second, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		i := newDouble(t)
		return &drivertest.Machine{Power: newDriver(t), Node: i.node(nil), Secret: "s3cret",
			Port: func() string { _, port, _ := net.SplitHostPort(i.listener.Addr().String()); return port },
			Second: func() *node.Document {
				n := i.node(map[string]any{fieldRelay: 3})
				n.UUID, n.Name = "b3d2", "web2"
				return n
			},
			Without:   map[string]string{"Sessions": "each request has a connection of its own", "Restart": "no connection outlives its request", "Management": "an iBoot reaches nothing but the power", "Deny": "an iBoot answers a wrong password with silence (TestRelays)"},
			Writes:    func() (n int) { i.set(func() { n = i.sets }); return n },
			Lose:      func() { i.set(func() { i.lose = true }) },
			Hang:      func() { i.set(func() { i.hang = true }) },
			Spoil:     i.spoiler.Spoil,
			Asked:     i.spoiler.Asked,
			Silence:   func() { i.listener.Close() },
			WhileRead: func(do func()) { i.set(func() { i.during = do }) },
		}
	})
}

func TestRelays(t *testing.T) {
	i, d := newDouble(t), newDriver(t)
	i.set(func() { i.relays = [3]byte{1, 1, 1}; i.drop = 2; i.lose = true })
	if err := d.SetPower(t.Context(), &drivertest.Fence{}, i.node(nil), driver.Rebooting); err != nil {
		t.Fatal(err)
	}
	if err := d.SetPower(t.Context(), &drivertest.Fence{}, i.node(map[string]any{fieldRelay: "3"}), driver.PowerOff); err != nil {
		t.Fatal(err)
	}
	if i.relays != [3]byte{1, 1, 0} || i.sets != 3 || len(i.bad) > 0 {
		t.Errorf("relays %v after %d orders; requests that are none: %d", i.relays, i.sets, len(i.bad))
	}
	for _, c := range []struct {
		more map[string]any
		want error
		says string
	}{
		{map[string]any{fieldRelay: 4}, driver.ErrInvalid, "the state of 3 relays; check iboot_relay_id"},
		{map[string]any{fieldPassword: "an0ther"}, driver.ErrUnreachable, "wrong user or password"},
	} {
		_, err := d.PowerState(t.Context(), i.node(c.more))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %v that says %q", c.more, err, c.want, c.says)
		}
	}
}

func TestValidate(t *testing.T) {
	i, d := newDouble(t), newDriver(t)
	for _, c := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldRelay: nil, fieldPort: nil}, ""},
		{map[string]any{fieldUser: "", fieldPassword: nil}, "Missing the following iBoot credentials in node's driver_info: ['iboot_username', 'iboot_password']."},
		{map[string]any{fieldRelay: "left"}, "iBoot PDU relay id must be an integer."},
		{map[string]any{fieldRelay: 0}, "counted from 1"},
		{map[string]any{fieldPort: "many"}, `iboot_port "many" is not a valid integer.`},
		{map[string]any{fieldPort: 70000}, "out of range"},
		{map[string]any{fieldAddress: "192.0.2.1"}, "--bmc-networks"},
		{map[string]any{fieldAddress: "127.0.0.1:9100"}, "iboot_address is neither"},
		{map[string]any{fieldPassword: strings.Repeat("s3cret", 4)}, "20 characters at most"},
	} {
		err := d.Validate(i.node(c.more))
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%v: %v", c.more, err)
		case c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that says %q", c.more, err, c.says)
		}
	}
}

// Half of an answer is no answer: the relay is asked for again.
func TestHalfAnAnswer(t *testing.T) {
	d := newDouble(t)
	d.set(func() { d.half = 1; d.relays[1] = 1 })
	dr := newDriver(t)
	if is, err := dr.PowerState(t.Context(), d.node(nil)); err != nil || is != driver.PowerOn {
		t.Errorf("%q, %v; want power on after one broken answer", is, err)
	}
}
