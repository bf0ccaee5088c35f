package ipmi

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
)

func (r *rig) powerOn() { r.chassis.set(func() { r.chassis.on = true }) }

// logins counts the logins that have reached the machine's BMC: in each session its privilege is asked for, maybe several times.
func (r *rig) logins() int {
	sessions := map[uint32]bool{}
	r.set(func() {
		for _, q := range r.requests {
			if q.NetFn == netFnApp && q.Command == 0x3B {
				sessions[q.session] = true
			}
		}
	})
	return len(sessions)
}

// Answers that come late, twice, cut in half, or with garbage before them are no other answers.
func TestTroubleOnTheWire(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]func([]byte) []ipmitest.Packet{
		"duplicates": func(b []byte) []ipmitest.Packet {
			return []ipmitest.Packet{{Data: b}, {Data: b}, {Data: b, After: 20 * time.Millisecond}}
		},
		"late": func(b []byte) []ipmitest.Packet {
			return []ipmitest.Packet{{Data: b, After: 150 * time.Millisecond}}
		},
		"halves": func(b []byte) []ipmitest.Packet {
			var all []ipmitest.Packet
			for n := range len(b) {
				all = append(all, ipmitest.Packet{Data: b[:n]})
			}
			return append(all, ipmitest.Packet{Data: b})
		},
	} {
		for _, version := range []string{"2.0", "1.5"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, "s3cret-pass")
				r.wire.Down(down)
				d, n := newDriver(t, Options{Timeout: 2 * time.Second}), r.node("s3cret-pass", map[string]any{fieldVersion: version})
				f := &drivertest.Fence{}
				for i := range 3 {
					for target, want := range map[driver.PowerState]bool{driver.PowerOn: true, driver.PowerOff: false} {
						if err := d.SetPower(t.Context(), f, n, target); err != nil {
							t.Fatalf("round %d: %s: %v", i, target, err)
						}
						if state, err := d.PowerState(t.Context(), n); err != nil || (state == driver.PowerOn) != want {
							t.Fatalf("round %d: %q, %v after %s", i, state, err, target)
						}
					}
				}
			})
		}
	}
}

// In a session, a datagram that was changed on the way, or that another made up, counts for nothing.
func TestForged(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	if _, err := d.PowerState(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	r.powerOn()
	r.wire.Down(func(b []byte) (all []ipmitest.Packet) {
		for i := 4; i < len(b); i++ {
			changed := append([]byte(nil), b...)
			changed[i] ^= 1 << (i % 8)
			all = append(all, ipmitest.Packet{Data: changed})
		}
		plain := append([]byte(nil), b[:16]...) // an answer "off" that says of itself that nothing protects it
		plain[5] = 0
		for seq := range byte(64) {
			message := []byte{0x81, 0x01 << 2, 0x7B, 0x20, seq << 2, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00}
			plain[14], plain[15] = byte(len(message)), 0
			all = append(all, ipmitest.Packet{Data: append(append([]byte(nil), plain...), message...)})
		}
		return append(all, ipmitest.Packet{Data: b, After: 50 * time.Millisecond})
	})
	if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOn {
		t.Errorf("%q, %v; the machine is on", state, err)
	}
	var kept []byte // an old answer, sent again in place of the newest
	r.wire.Down(func(b []byte) []ipmitest.Packet {
		if kept == nil {
			kept = b
			return ipmitest.As(b)
		}
		return []ipmitest.Packet{{Data: kept}, {Data: b, After: 20 * time.Millisecond}}
	})
	for i := range 130 { // the six bits of a request's number come round
		on := i%2 == 0
		r.chassis.set(func() { r.chassis.on = on })
		if state, err := d.PowerState(t.Context(), n); err != nil || (state == driver.PowerOn) != on {
			t.Fatalf("%d: %q, %v; on is %v", i, state, err, on)
		}
	}
}

// A question that is lost is asked again, by itself; an order is not.
func TestLostDatagrams(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{Timeout: 4 * time.Second}), r.node("s3cret-pass", nil)
	var seen atomic.Int64
	r.wire.Up(func(b []byte) []ipmitest.Packet {
		if seen.Add(1)%2 == 1 {
			return nil // each first datagram
		}
		return ipmitest.As(b)
	})
	if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOff {
		t.Errorf("with every second datagram lost: %q, %v", state, err)
	}
	r.wire.Up(func(b []byte) []ipmitest.Packet {
		seen.Add(1)
		return ipmitest.As(b)
	})
	if _, err := d.PowerState(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	var read atomic.Bool
	var after atomic.Int64
	r.wire.Up(func(b []byte) []ipmitest.Packet {
		if read.CompareAndSwap(false, true) {
			return ipmitest.As(b)
		}
		after.Add(1)
		return nil
	})
	err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOn)
	if !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("an order that was lost: %v, want ErrUnknown", err)
	}
	if got := after.Load(); got != 1 {
		t.Errorf("the order was sent %d times, want once", got)
	}
}

// A BMC that forgets its sessions, as one that was reset in the middle, costs one more login and no error.
func TestForgottenSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	if _, err := d.PowerState(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	r.wire.To(r.start("s3cret-pass"))
	r.powerOn()
	if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOn {
		t.Errorf("%q, %v", state, err)
	}
	if got := r.logins(); got != 2 {
		t.Errorf("%d logins, want 2", got)
	}
	// It is away for a moment, in the middle of an order.
	r.set(func() {
		r.after = func(q request) {
			if q.Question() {
				r.set(func() { r.after = nil })
				r.wire.Up(func([]byte) []ipmitest.Packet { return nil })
			}
		}
	})
	err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOff)
	if !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("a BMC that is reset in the middle of an order: %v, want ErrUnknown", err)
	}
	r.wire.Up(ipmitest.As)
	r.wire.To(r.start("s3cret-pass"))
	if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOff); err != nil {
		t.Error(err)
	}
}

// A session that is not used ends by itself, at the BMC and here.
func TestIdleSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{Idle: 50 * time.Millisecond}), r.node("s3cret-pass", nil)
	closed := make(chan struct{}, 8)
	r.set(func() {
		r.after = func(q request) {
			if q.NetFn == netFnApp && q.Command == 0x3C {
				closed <- struct{}{}
			}
		}
	})
	for range 2 {
		if _, err := d.PowerState(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Fatal("the session was not closed")
		}
	}
	if got := r.logins(); got != 2 {
		t.Errorf("%d logins, want 2", got)
	}
}

// What a BMC answers decides what its caller does next.
func TestCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command uint8 // of the chassis, that is answered with code
		code    types.CompletionCode
		times   int32 // 0: always
		want    error
		words   string
	}{
		"busy for a moment, reading":  {cmdChassisStatus, 0xC0, 2, nil, ""},
		"busy for a moment, ordering": {cmdChassisControl, 0xC0, 2, nil, ""},
		"busy for long":               {cmdChassisControl, 0xC0, 0, driver.ErrUnreachable, "busy"},
		"starting":                    {cmdChassisStatus, 0xD2, 0, driver.ErrUnreachable, "busy"},
		"privilege":                   {cmdChassisControl, 0xD4, 0, driver.ErrDenied, fieldPrivilege},
		"timed out inside":            {cmdChassisControl, 0xC3, 0, driver.ErrUnknown, "C3h"},
		"no such command":             {cmdChassisControl, 0xC1, 0, driver.ErrUnsupported, "C1h"},
		"no such control":             {cmdChassisControl, 0xCC, 0, driver.ErrUnsupported, "chassis control"},
		"not in this state":           {cmdChassisControl, 0xD5, 0, nil, "D5h"},
		"something else":              {cmdChassisControl, 0xFF, 0, nil, "FFh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "s3cret-pass")
			var left atomic.Int32
			left.Store(c.times)
			r.set(func() {
				r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
					return nil, c.code, q.NetFn == netFnChassis && q.Command == c.command && (c.times == 0 || left.Add(-1) >= 0)
				}
			})
			f := &drivertest.Fence{}
			err := newDriver(t, Options{}).SetPower(t.Context(), f, r.node("s3cret-pass", nil), driver.PowerOn)
			switch {
			case c.words == "" && err != nil:
				t.Error(err)
			case c.words != "" && (err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words)):
				t.Errorf("%v; want %v and %q", err, c.want, c.words)
			}
			if orders := r.orders(); c.command == cmdChassisControl && int64(orders) != f.Checks.Load() {
				t.Errorf("%d orders left after %d looks at the fence", orders, f.Checks.Load())
			}
		})
	}
}

// A refusal is none where the machine has got there by itself.
func TestThereByItself(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			if q.Command != cmdChassisControl || q.NetFn != netFnChassis {
				return nil, 0, false
			}
			r.powerOn()
			return nil, types.CodeNotSupported, true
		}
	})
	if err := newDriver(t, Options{}).SetPower(t.Context(), &drivertest.Fence{}, r.node("s3cret-pass", nil), driver.PowerOn); err != nil {
		t.Error(err)
	}
}

// Answers that lack what they must have are errors, not panics.
func TestShortAnswers(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	var n atomic.Int32
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			return make([]byte, n.Load()), types.CodeOK, q.NetFn == netFnChassis || q.NetFn == netFnApp && q.Command == cmdDeviceID
		}
	})
	d, node := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	for size := range int32(3) {
		n.Store(size)
		for name, read := range map[string]func() error{
			"power":    func() error { _, err := d.PowerState(t.Context(), node); return err },
			"boot":     func() error { _, err := d.BootDevice(t.Context(), node); return err },
			"identity": func() error { _, err := d.Identity(t.Context(), node); return err },
			"light":    func() error { _, err := d.Indicator(t.Context(), node, "chassis", "led"); return err },
		} {
			if err := read(); err == nil || !strings.Contains(err.Error(), "firmware") {
				t.Errorf("%s in %d bytes: %v", name, size, err)
			}
		}
	}
}

// Calls for one BMC take turns, whatever their number.
func TestManyAtOnce(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	d := newDriver(t, Options{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := d.PowerState(t.Context(), r.node("s3cret-pass", nil)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := r.logins(); got != 1 {
		t.Errorf("%d logins, want 1", got)
	}
}

// A name that leads elsewhere than to BMCs is not dialled.
func TestNameThatLeadsElsewhere(t *testing.T) {
	d := New(Options{})
	_, err := d.PowerState(t.Context(), nodeOf(map[string]any{fieldAddress: "localhost"}))
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "was not dialled") || !strings.Contains(err.Error(), fieldAddress) || strings.Contains(err.Error(), "firewall") {
		t.Error(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
