package snmp

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/drivertest/closedport"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// loopback lets a driver dial this machine.
var loopback = outbound.BMCs{prefixOf("127.0.0.0/8")}

// quick is a driver whose waits are short.
func quick(t *testing.T, o Options) *Driver {
	o.Networks = loopback
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = 200 * time.Millisecond
	}
	if o.SetTimeout == 0 {
		o.SetTimeout = 300 * time.Millisecond
	}
	if o.Hold == 0 {
		o.Hold = time.Millisecond
	}
	if o.Pace == 0 {
		o.Pace = 1000
	}
	if o.PowerPoll == 0 {
		o.PowerPoll = 5 * time.Millisecond
	}
	d := New(o)
	t.Cleanup(func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return d
}

// nodeAt is a node on outlet 3 of a PDU, with more fields of driver_info.
func nodeAt(address, model string, more map[string]any) *node.Document {
	host, port, _ := strings.Cut(address, ":")
	info := map[string]any{fieldDriver: model, fieldAddress: host, fieldPort: port, fieldOutlet: float64(3), fieldVersion: "2c", fieldCommunity: "public"}
	for field, v := range more {
		if info[field] = v; v == nil {
			delete(info, field)
		}
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

func (p *pdu) node(model string, more map[string]any) *node.Document {
	return nodeAt(p.conn.LocalAddr().String(), model, more)
}

func TestConformance(t *testing.T) {
	for _, version := range []string{"1", "2c"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
				p := newPDU(t, outlets["apc_rackpdu"])
				p.set(func() { p.other = p.outlet.beside() })
				fields := map[string]any{fieldVersion: version, fieldCommunity: "pr1vate"}
				return &drivertest.Machine{
					// A hold as short as this has always passed, so that a reboot has the same requests each time.
					Power: quick(t, Options{AnswerTimeout: 6 * drivertest.Lateness, SetTimeout: 6 * drivertest.Lateness, Hold: time.Nanosecond,
						Log: drivertest.Logger(t)}), Secret: "pr1vate",
					Node: p.node("apc_rackpdu", fields),
					Port: func() string { _, port, _ := net.SplitHostPort(p.conn.LocalAddr().String()); return port },
					Without: map[string]string{"Management": "a PDU reaches nothing but the power", "Sessions": "versions 1 and 2c have none", "Restart": "versions 1 and 2c keep nothing that could be forgotten",
						"Deny": "a wrong community gets no answer: it cannot be told from silence"},
					Writes:    func() (n int) { p.set(func() { n = p.sets }); return n },
					Lose:      func() { p.set(func() { p.lose = true }) },
					Silence:   func() { closedport.Keep(t, p.conn) },
					Hang:      func() { p.set(func() { p.hang = true }) },
					Spoil:     p.spoiler.Spoil,
					Asked:     p.spoiler.Asked,
					WhileRead: func(do func()) { p.set(func() { p.whileRead = do }) },
					Second: func() *node.Document {
						n := p.node("apc_rackpdu", fields)
						n.DriverInfo[fieldOutlet] = float64(4)
						n.UUID, n.Name = "b3d2", "web2"
						return n
					},
				}
			})
		})
	}
}

// Each type of PDU is read and switched by its own objects, named or found out.
func TestEveryModel(t *testing.T) {
	kinds := map[string]outlet{}
	for name, o := range outlets {
		kinds[name] = o
		if o.sysObjectID != "" {
			kinds["auto, "+name] = o
		}
	}
	kinds["eatonpower, Ironic's"] = ironicsEaton
	for _, name := range modelNames() {
		if _, there := outlets[name]; !there && name != auto {
			t.Errorf("no test of the type %s", name)
		}
	}
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			p, d := newPDU(t, o), quick(t, Options{})
			named, _, _ := strings.Cut(name, ",")
			n := p.node(named, nil)
			for _, target := range []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.PowerOn, driver.Rebooting} {
				if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, target); err != nil {
					t.Fatal(err)
				}
				want := target
				if target == driver.Rebooting {
					want = driver.PowerOn
				}
				if is, err := d.PowerState(t.Context(), n); is != want || err != nil || p.seen().on != (want == driver.PowerOn) {
					t.Errorf("after %q: %q, %v, and the outlet is on: %t", target, is, err, p.seen().on)
				}
			}
			turnOn, turnOff := o.on+"="+strconv.Itoa(o.setOn)+" by public", o.off+"="+strconv.Itoa(o.setOff)+" by public"
			if want := []string{turnOn, turnOff, turnOn, turnOff, turnOn}; !slices.Equal(p.seen().orders, want) {
				t.Errorf("orders: %v, want %v", p.seen().orders, want)
			}
		})
	}
}

// A reboot waits until the outlet is off, and then for the hold; so does an order to go on after one to go off.
func TestHold(t *testing.T) {
	const hold = 150 * time.Millisecond
	p, d := newPDU(t, outlets["aten"]), quick(t, Options{Hold: hold})
	n := p.node("aten", nil)
	p.set(func() { p.on, p.stays = true, 6 })
	began := time.Now()
	if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.Rebooting); err != nil {
		t.Fatal(err)
	}
	took, is := time.Since(began), p.seen()
	if took < hold || !is.on || is.stays != 0 || is.sets != 2 {
		t.Errorf("a reboot took %s; the outlet is on: %t; %d orders; it had to stay on for %d reads more", took, is.on, is.sets, is.stays)
	}
	for _, target := range []driver.PowerState{driver.PowerOff, driver.PowerOn} {
		began = time.Now()
		if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, target); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < hold-10*time.Millisecond {
		t.Errorf("the outlet went on %s after it was told to go off", took)
	}
	p.set(func() { p.stays = 1 << 30 })
	short := quick(t, Options{PowerTimeout: 50 * time.Millisecond})
	err := short.SetPower(t.Context(), &drivertest.Fence{}, n, driver.Rebooting)
	if err == nil || !errors.Is(err, driver.ErrUnknown) || !strings.Contains(err.Error(), "still on") {
		t.Errorf("a reboot of an outlet that stays on: %v", err)
	}
}

// A reboot whose orders lose their answers ends with a machine that is on.
func TestRebootWithLostAnswers(t *testing.T) {
	p, d := newPDU(t, outlets["apc_rackpdu"]), quick(t, Options{Hold: 20 * time.Millisecond})
	p.set(func() { p.on, p.lose = true, true })
	if err := d.SetPower(t.Context(), &drivertest.Fence{}, p.node("apc_rackpdu", nil), driver.Rebooting); err != nil {
		t.Fatal(err)
	}
	if is := p.seen(); !is.on || is.sets != 2 {
		t.Errorf("the outlet is on: %t, after %d orders", is.on, is.sets)
	}
}

// Reads are asked for again, and writes are not.
func TestLostReads(t *testing.T) {
	p, d := newPDU(t, outlets["cyberpower"]), quick(t, Options{AnswerTimeout: 50 * time.Millisecond})
	p.set(func() { p.dropGets = 3 })
	if is, err := d.PowerState(t.Context(), p.node("cyberpower", nil)); is != driver.PowerOff || err != nil {
		t.Errorf("%q, %v", is, err)
	}
	if gets := p.seen().gets; gets != 4 {
		t.Errorf("asked %d times, want 4", gets)
	}
}

func TestCommunities(t *testing.T) {
	p, d := newPDU(t, outlets["apc"]), quick(t, Options{})
	n := p.node("apc", map[string]any{fieldCommunity: nil, fieldCommunityRead: "public", fieldCommunityWrite: "private"})
	if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOn); err != nil {
		t.Fatal(err)
	}
	if is, err := d.PowerState(t.Context(), n); is != driver.PowerOn || err != nil || !strings.HasSuffix(p.seen().orders[0], "by private") {
		t.Errorf("%q, %v, orders %v", is, err, p.seen().orders)
	}
	for code, want := range map[gosnmp.SNMPError]error{gosnmp.NotWritable: driver.ErrDenied, gosnmp.NoAccess: driver.ErrDenied, gosnmp.AuthorizationError: driver.ErrDenied,
		gosnmp.NoSuchName: driver.ErrInvalid, gosnmp.ResourceUnavailable: driver.ErrUnreachable, gosnmp.GenErr: nil} {
		p.set(func() { p.answerError = code })
		err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOff)
		if err == nil || want != nil && !errors.Is(err, want) || strings.Contains(err.Error(), "private") || !strings.Contains(err.Error(), "web1 (b3d1)") {
			t.Errorf("answer %s: %v, want %v", code, err, want)
		}
	}
}

// What a PDU says that the driver cannot act on is told with what to do.
func TestWhatIsNotThere(t *testing.T) {
	p, d := newPDU(t, outlets["aten"]), quick(t, Options{})
	for _, c := range []struct {
		model string
		more  map[string]any
		state int
		want  error
		says  string
	}{
		{"aten", map[string]any{fieldOutlet: 4}, 1, driver.ErrInvalid, "has no outlet 4"},
		{"aten", map[string]any{fieldOutlet: 4, fieldVersion: "1"}, 1, driver.ErrInvalid, "has no outlet 4"},
		{"raritan_pdu2", nil, 1, driver.ErrInvalid, "check snmp_outlet and snmp_driver"},
		{"aten", nil, 3, driver.ErrUnreachable, "between two states"},
		{"aten", nil, 9, nil, "does not know"},
		{"auto", nil, 1, driver.ErrInvalid, "SNMPDriverAuto: no driver matching .1.3.6.1.4.1.9.1.1"},
	} {
		p.set(func() { p.outlet.isOff, p.outlet.sysObjectID = c.state, "9.1.1" })
		_, err := d.PowerState(t.Context(), p.node(c.model, c.more))
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %v in state %d: %v; want %v that says %q", c.model, c.more, c.state, err, c.want, c.says)
		}
	}
}

// The outlets of one PDU take turns: it never has two requests of this driver at once.
func TestTurns(t *testing.T) {
	p, d := newPDU(t, outlets["apc_rackpdu"]), quick(t, Options{})
	p.set(func() { p.dropGets = 1 })
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			_, err := d.PowerState(t.Context(), p.node("apc_rackpdu", nil))
			ended <- err
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if gets := p.seen().gets; gets != cap(ended)+1 {
		t.Errorf("%d reads, want %d: only the first was not answered", gets, cap(ended)+1)
	}
}

func TestIdentified(t *testing.T) {
	for id, want := range map[string]string{
		".1.3.6.1.4.1.318.1.1.4.5": "apc_masterswitch", "1.3.6.1.4.1.318.1.1.6": "apc_masterswitchplus", ".1.3.6.1.4.1.318.1.1.12": "apc_rackpdu",
		".1.3.6.1.4.1.318.1.3.4.5": "apc_rackpdu", ".1.3.6.1.4.1.318.1.3.4.6": "apc_rackpdu", ".1.3.6.1.4.1.21317.9": "aten", ".1.3.6.1.4.1.3808.1": "cyberpower",
		".1.3.6.1.4.1.23620": "teltronix", ".1.3.6.1.4.1.534.1": "eatonpower", ".1.3.6.1.4.1.5341": "", ".1.3.6.1.4.1.318.1.1.1": "", "": "", ".1.3.6.1.4.1": "",
	} {
		if got := identified(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}
