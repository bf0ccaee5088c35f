package bmc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/drivertest/closedport"
)

// A driver over UDP keeps the contract by what this package gives it: nothing of it needs HTTP.
func TestDatagramDriverConforms(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		e := newDatagramBMC(t)
		d := &datagramDriver{NewPool[*datagramSession](PoolOptions{Driver: "datagram", Pace: 1000, Log: drivertest.Logger(t)})}
		t.Cleanup(func() { _ = d.Close(t.Context()) })
		nodeWith := func(password string) *node.Document {
			return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{"at": e.conn.LocalAddr().String(), "password": password}}
		}
		return &drivertest.Machine{
			Power: d, Management: d, Node: nodeWith("s3cret"), Secret: "s3cret",
			Port:      func() string { return strconv.Itoa(e.conn.LocalAddr().(*net.UDPAddr).Port) },
			Without:   map[string]string{"Second": "its double has one machine", "Spoil": "a driver of datagrams with a real BMC has that: rackd/driver/ipmi"},
			Writes:    func() (n int) { e.set(func() { n = e.writes }); return n },
			Lose:      func() { e.set(func() { e.lose = true }) },
			Silence:   func() { closedport.Keep(t, e.conn) },
			Hang:      func() { e.set(func() { e.hang = true }) },
			WhileRead: func(do func()) { e.set(func() { e.whileRead = do }) },
			Deny:      func() { e.set(func() { e.password, e.sessions = "an0ther", 0 }) },
			Logins:    func() (n int) { e.set(func() { n = e.refused }); return n },
			Corrected: func() *node.Document { return nodeWith("an0ther") },
			Forget:    func() { e.set(func() { e.boot = "disk always" }) },
		}
	})
}

// datagramBMC answers to "login PASSWORD", "bye", "state", "power on|off", "boot DEVICE once|always", "mode MODE".
type datagramBMC struct {
	conn *net.UDPConn

	mu                        sync.Mutex
	password                  string
	sessions, refused, writes int
	power, boot, mode         string
	lose, hang                bool
	whileRead                 func()
}

func newDatagramBMC(t *testing.T) *datagramBMC {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	e := &datagramBMC{conn: conn, password: "s3cret", power: "off", boot: "disk always", mode: "uefi"}
	var served sync.WaitGroup
	served.Go(e.serve)
	t.Cleanup(func() { conn.Close(); served.Wait() })
	return e
}

func (e *datagramBMC) set(do func()) { e.mu.Lock(); defer e.mu.Unlock(); do() }

func (e *datagramBMC) serve() {
	b := make([]byte, 1500)
	for {
		n, from, err := e.conn.ReadFromUDP(b)
		if err != nil {
			return
		}
		e.mu.Lock()
		answer := e.answer(strings.Fields(string(b[:n])))
		e.mu.Unlock()
		if answer != "" {
			_, _ = e.conn.WriteToUDP([]byte(answer), from)
		}
	}
}

func (e *datagramBMC) answer(words []string) string {
	verb, rest := words[0], strings.Join(words[1:], " ")
	if e.hang {
		return ""
	}
	switch {
	case verb == "login" && rest != e.password:
		e.refused++
		return "denied: wrong password " + rest
	case verb == "login":
		e.sessions++
		return "ok"
	case e.sessions == 0:
		return "forgotten"
	case verb == "bye":
		e.sessions--
		return "ok"
	case verb == "state":
		if do := e.whileRead; do != nil {
			e.whileRead = nil
			do()
		}
		return strings.Join([]string{e.power, e.boot, e.mode}, " ")
	case verb == "power":
		e.power = rest
	case verb == "boot":
		e.boot = rest
	case verb == "mode":
		e.mode = rest
	}
	if e.writes++; e.lose {
		e.lose = false
		return ""
	}
	return "ok"
}

// datagramSession is a socket on which the driver has logged in.
type datagramSession struct{ conn net.Conn }

func (s *datagramSession) Close(ctx context.Context) { _, _, _ = s.ask(ctx, "bye"); s.Drop() }
func (s *datagramSession) Drop()                     { s.conn.Close() }

// ask sends a line and waits for its answer. left: the BMC may have it.
func (s *datagramSession) ask(ctx context.Context, line string) (answer string, left bool, err error) {
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	deadline, _ := ctx.Deadline()
	_ = s.conn.SetDeadline(deadline)
	if _, err := s.conn.Write([]byte(line)); err != nil {
		return "", false, err
	}
	b := make([]byte, 1500)
	n, err := s.conn.Read(b)
	if err != nil {
		return "", errors.Is(err, os.ErrDeadlineExceeded), err
	}
	said := string(b[:n])
	switch {
	case strings.HasPrefix(said, "denied"):
		return "", false, RefusedLogin(&Failure{Class: Denied, Said: said})
	case said == "forgotten":
		return "", false, Forgotten(&Failure{Class: Denied, Said: said})
	}
	return said, false, nil
}

func (s *datagramSession) read(ctx context.Context, line string) (string, error) {
	said, _, err := s.ask(ctx, line)
	if _, answered := errors.AsType[*Failure](err); err != nil && !answered {
		err = &Lost{Err: err}
	}
	return said, err
}

// datagramDriver is what the driver of such a BMC looks like.
type datagramDriver struct{ *Pool[*datagramSession] }

func (d *datagramDriver) with(ctx context.Context, n *node.Document, doing string, do func(s *datagramSession, state []string) error) error {
	at, password := n.DriverString("at"), n.DriverString("password")
	err := d.Use(ctx, Account{Address: at, Sum: sha256.Sum256([]byte(at + " " + password))},
		func(ctx context.Context) (*datagramSession, error) {
			conn, err := net.Dial("udp", at)
			if err != nil {
				return nil, &Lost{Err: err}
			}
			s := &datagramSession{conn}
			if _, err := s.read(ctx, "login "+password); err != nil {
				conn.Close()
				return nil, err
			}
			return s, nil
		},
		func(s *datagramSession) error {
			state, err := s.read(ctx, "state")
			if err != nil {
				return err
			}
			return do(s, strings.Fields(state))
		})
	return Attempt{Node: n, Doing: doing, BMC: at, User: "admin", Secrets: []string{password}, Fields: Fields{Address: "at", Password: "password"}}.Explain(err)
}

// set brings the part of the state at place to want by the line verb.
func (d *datagramDriver) set(ctx context.Context, f driver.Fence, n *node.Document, always bool, place int, verb, want string) error {
	return d.with(ctx, n, verb+" "+want, func(s *datagramSession, state []string) error {
		is := strings.Join(state[place:min(place+len(strings.Fields(want)), len(state))], " ")
		if is == want && !(always && verb == "power" && want == "on") {
			return nil
		}
		return Order(f, func() (left bool, err error) {
			_, left, err = s.ask(ctx, verb+" "+want)
			return left, err
		})
	})
}

func (*datagramDriver) Properties() map[string]string {
	return map[string]string{"at": "Where.", "password": "Password."}
}

func (*datagramDriver) Validate(n *node.Document) error {
	if n.DriverString("at") == "" {
		return fmt.Errorf("node %s: at is missing: %w", n.Label(), driver.ErrInvalid)
	}
	return nil
}

func (*datagramDriver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting}
}

func (d *datagramDriver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(_ *datagramSession, is []string) error {
		state = driver.PowerState("power " + is[0])
		return nil
	})
	return state, err
}

func (d *datagramDriver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	want, ok := map[driver.PowerState]string{driver.PowerOn: "on", driver.PowerOff: "off", driver.Rebooting: "on"}[target]
	if !ok {
		return fmt.Errorf("node %s: power target %q: %w", n.Label(), target, driver.ErrUnsupported)
	}
	return d.set(ctx, f, n, target == driver.Rebooting, 0, "power", want)
}

func (*datagramDriver) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return []driver.BootDevice{driver.BootPXE, driver.BootDisk}, nil
}

func (d *datagramDriver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, n, "read the boot device", func(_ *datagramSession, is []string) error {
		persistent := is[2] == "always"
		found = ask.BootDevice{Device: is[1], Persistent: &persistent}
		return nil
	})
	return found, err
}

func (d *datagramDriver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	if device != driver.BootPXE && device != driver.BootDisk {
		return fmt.Errorf("node %s: boot device %q: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.set(ctx, f, n, false, 1, "boot", string(device)+" "+map[bool]string{true: "always", false: "once"}[persistent])
}

func (d *datagramDriver) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = d.with(ctx, n, "read the boot mode", func(_ *datagramSession, is []string) error { mode = is[3]; return nil })
	return mode, err
}

func (d *datagramDriver) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	if mode != "uefi" && mode != "bios" {
		return fmt.Errorf("node %s: boot mode %q: %w", n.Label(), mode, driver.ErrInvalid)
	}
	return d.set(ctx, f, n, false, 3, "mode", mode)
}

func (*datagramDriver) Identity(context.Context, *node.Document) (driver.Identity, error) {
	return driver.Identity{}, driver.ErrUnsupported
}

func (*datagramDriver) InjectNMI(context.Context, driver.Fence, *node.Document) error {
	return driver.ErrUnsupported
}
