package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// demand is what a driver is asked for, of a machine that is on or off.
type demand struct {
	order
	on bool
	// once: nothing but the count of orders tells whether it was done.
	once bool
}

// demandsOf lists the orders that a machine can be given, and the reads.
func demandsOf(m *Machine) (list []demand) {
	list = append(list, demand{order: switchTo(driver.PowerOn, driver.PowerOn)}, demand{order: order{name: "PowerState",
		give: func(ctx context.Context, _ driver.Fence, m *Machine) error {
			_, err := m.Power.PowerState(ctx, m.Node)
			return err
		}}})
	for target, final := range map[driver.PowerState]driver.PowerState{driver.PowerOff: driver.PowerOff, driver.SoftPowerOff: driver.PowerOff,
		driver.Rebooting: driver.PowerOn, driver.SoftReboot: driver.PowerOn} {
		if slices.Contains(m.Power.PowerTargets(), target) {
			list = append(list, demand{order: switchTo(target, final), on: true, once: final == driver.PowerOn})
		}
	}
	if m.Management != nil && !m.fixed() && !m.Deferred {
		list = append(list, demand{order: bootFrom(driver.BootPXE, false)}, demand{order: bootFrom(driver.BootDisk, true), on: true},
			demand{order: order{name: "BootDevice", give: func(ctx context.Context, _ driver.Fence, m *Machine) error {
				_, err := m.Management.BootDevice(ctx, m.Node)
				return err
			}}})
	}
	return list
}

// spoilings are how many requests come to grief at once. Most of that time is spent waiting for answers that do not come, and
// t.Parallel lets as many run as there are processors.
var spoilings = make(chan struct{}, 16)

// checkMishaps has each request of each command come to grief, one after the other and in each way. What was asked for is then done once
// and told as done, or the error says what its caller may do. The caller reads back and asks again as rackd does, and the end is the same
// as without the mishap.
func checkMishaps(t *testing.T, start func(*testing.T) *Machine) {
	first := start(t)
	if first.Spoil == nil {
		t.Skip(first.Without["Spoil"])
	}
	for _, c := range demandsOf(first) {
		for how := Late; how <= Reset; how++ {
			t.Run(c.name+" "+mishaps[how], func(t *testing.T) {
				t.Parallel()
				sound := c.sound(t, start)
				var all sync.WaitGroup
				for at := 1; at <= sound.requests; at++ {
					all.Go(func() {
						spoilings <- struct{}{}
						defer func() { <-spoilings }()
						t.Run(fmt.Sprintf("request %d of %d", at, sound.requests), func(t *testing.T) { c.spoilt(t, start(t), how, at, sound.orders) })
					})
				}
				all.Wait()
			})
		}
	}
}

// mostTries is how often a command is asked for again after a mishap, and how often its requests are counted.
const mostTries = 3

// cost is what a command takes where all goes well.
type cost struct{ requests, orders int }

// ready brings a machine to where a command finds it.
func (c demand) ready(t *testing.T, m *Machine) (before int) {
	t.Helper()
	if c.on {
		give(t, m, switchTo(driver.PowerOn, driver.PowerOn))
	}
	return m.Writes()
}

// sound counts what the command takes. A slow host has a driver repeat a request: the least of some runs has none of these.
func (c demand) sound(t *testing.T, start func(*testing.T) *Machine) (of cost) {
	t.Helper()
	for range mostTries {
		t.Run("sound", func(t *testing.T) {
			m := start(t)
			before := c.ready(t, m)
			m.Spoil(Sound, 0)
			must(t, m, c.name, c.give(within(t), &Fence{}, m))
			if asked := m.Asked(); of.requests == 0 || asked < of.requests {
				of = cost{asked, m.Writes() - before}
			}
		})
	}
	if of.requests == 0 {
		t.Fatal("the BMC was asked nothing")
	}
	return of
}

func (c demand) spoilt(t *testing.T, m *Machine, how Mishap, at, orders int) {
	before := c.ready(t, m)
	m.Spoil(how, at)
	f := &Fence{}
	err := c.give(within(t), f, m)
	if m.Asked() < at {
		t.Fatalf("the BMC was asked %d times: no request came to grief", m.Asked())
	}
	told(t, m, c.name, err)
	made := m.Writes() - before
	unknown := errors.Is(err, driver.ErrUnknown)
	switch {
	case err == nil && made != orders:
		t.Errorf("it is told as done, and the machine got %d orders; want %d", made, orders)
	case err == nil:
	case how == Late:
		t.Errorf("%v: the BMC has answered in time", err)
	case !unknown && !errors.Is(err, driver.ErrUnreachable):
		t.Errorf("%v; want ErrUnknown or ErrUnreachable: its caller does not ask again", err)
	case !unknown && c.once && made > 0:
		t.Errorf("%v: its caller asks again, and the machine has got %d orders", err, made)
	case unknown && f.Checks.Load() == 0:
		t.Errorf("%v: nothing was written", err)
	case made > orders:
		t.Errorf("%v: the machine got %d orders of %d", err, made, orders)
	}
	m.Spoil(Sound, 0)
	switch {
	case unknown && c.once: // another restart is another one: rackd asks for no second one by itself, and switches on what is off
		on := demand{order: switchTo(driver.PowerOn, driver.PowerOn)}
		on.again(t, m, true)
		if made = m.Writes() - before; made > orders {
			t.Errorf("when the machine was on it had got %d orders; want %d at most", made, orders)
		}
	case err != nil:
		c.again(t, m, unknown)
		if made = m.Writes() - before; made != orders {
			t.Errorf("when all was done the machine had got %d orders; want %d", made, orders)
		}
	}
	if c.done != nil {
		settled(t, m, c.order)
	}
	if m.Logins != nil && m.Logins() > 0 {
		t.Errorf("%d logins were refused", m.Logins())
	}
	c.leaves(t, m)
}

// again asks for what failed, once its outcome was read where it was unknown.
func (c demand) again(t *testing.T, m *Machine, unknown bool) {
	t.Helper()
	var err error
	for range mostTries {
		if unknown && c.done != nil {
			done, readErr := c.done(within(t), m)
			if readErr == nil && done {
				return
			}
			if err = readErr; err != nil {
				continue
			}
		}
		if err = c.give(within(t), &Fence{}, m); err == nil {
			return
		}
		unknown = errors.Is(err, driver.ErrUnknown)
	}
	t.Errorf("after the mishap: %v", err)
}

// mostLeft is how many sessions a login may leave whose answer was lost. The BMC ends them by itself.
const mostLeft = 1

// leaves closes the driver and counts the sessions that stay at the BMC.
func (c demand) leaves(t *testing.T, m *Machine) {
	t.Helper()
	if m.Sessions == nil {
		return
	}
	shut(t, m)
	if n := m.Sessions(); n > mostLeft {
		t.Errorf("%d sessions stay at the BMC, want %d at most", n, mostLeft)
	}
}

// shut closes the driver.
func shut(t *testing.T, m *Machine) {
	t.Helper()
	shut := m.Close
	if shut == nil {
		closer, closes := m.Power.(interface{ Close(context.Context) error })
		if !closes {
			t.Fatal("Close is nil, and Power has no such method")
		}
		shut = closer.Close
	}
	if err := shut(within(t)); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// checkRefusedLater has a BMC start again, and take the login that follows, a few times. Then it refuses the credentials.
func checkRefusedLater(t *testing.T, start func(*testing.T) *Machine) {
	for _, taken := range []int{1, 3} {
		t.Run(fmt.Sprintf("after %d", taken), func(t *testing.T) {
			m := start(t)
			if m.Spoil == nil || m.Deny == nil {
				t.Skip(m.Without["Spoil"] + m.Without["Deny"])
			}
			reset := func() {
				m.Spoil(Reset, 1)
				if _, err := m.Power.PowerState(within(t), m.Node); err != nil && !errors.Is(err, driver.ErrUnreachable) {
					t.Errorf("a reset in the middle of a read: %v", err)
				}
			}
			for range taken {
				reset()
				_, err := m.Power.PowerState(within(t), m.Node)
				must(t, m, "PowerState after a reset", err)
			}
			m.Deny()
			for range 3 {
				for name, call := range calls(m) {
					err := call(within(t))
					failing(t, m, name, err, driver.ErrDenied)
					if err != nil && !strings.Contains(err.Error(), "driver_info changes") && m.Logins() > 1 {
						t.Errorf("%s: %v: it does not say that the credentials rest", name, err)
					}
				}
			}
			if n := m.Logins(); n > 1 {
				t.Errorf("the credentials were tried %d times, want once: BMCs lock accounts", n)
			}
			m.Node = m.Corrected()
			_, err := m.Power.PowerState(within(t), m.Node)
			must(t, m, "PowerState with other credentials", err)
		})
	}
}
