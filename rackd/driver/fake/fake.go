// Package fake is the hardware type fake-hardware: every kind of interface, named
// "fake", and what clients ask for by name: the boots and deploys of Ironic's fake-hardware, and agent for inspection, RAID and
// rescue. Its machines exist in memory only. Tests, demonstrations and load runs use it as they use real hardware.
//
// It may import rackd/driver, rackd/driver/none and protocol. A machine's power lives as long as the
// process: one not seen before is off. What else it is told (boot device and mode,
// settings, firmware, volumes, media, …) is kept by central, in driver_internal_info,
// and comes back to every rackd in the node's document (driver.Keeper).
// Any step or method can be made slow or made to fail through the node's
// driver_info, see Properties. Safe for concurrent use.
package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

// TypeName is the name of the hardware type.
const TypeName = "fake-hardware"

// Options of the whole hardware type.
type Options struct {
	// DefaultDelay is how long each step lasts on a node whose driver_info does not say.
	DefaultDelay time.Duration
}

// Fleet is all fake machines of a process.
type Fleet struct {
	opts Options
	mu   sync.Mutex
	seen map[string]*machine // by node UUID; as many as there are fake nodes
}

type machine struct {
	power driver.PowerState
	nmis  int
	// orders counts the writes that reached the machine.
	orders int
	state
	read string // the state in the node's document that was looked at last
}

// New returns a fleet in which no machine has been seen.
func New(o Options) *Fleet { return &Fleet{opts: o, seen: map[string]*machine{}} }

// genericBoots are the boot interfaces that Ironic's fake-hardware has besides "fake". A made-up machine boots alike by all.
var genericBoots = []string{"ipxe", "pxe", "http-ipxe", "http"}

// Type is the hardware type.
func (f *Fleet) Type() driver.Type {
	t := driver.Type{Name: TypeName, Interfaces: map[string][]driver.Named{}}
	for _, kind := range node.InterfaceKinds {
		t.Interfaces[kind] = []driver.Named{{Name: "fake", Impl: f.Interface(kind)}}
		switch kind {
		case "bios", "console", "firmware", "inspect", "raid", "rescue", "vendor":
			t.Interfaces[kind] = append(t.Interfaces[kind], driver.Named{Name: "no-" + kind, Impl: none.Unsupported{Kind: kind}})
			switch kind {
			case "console":
				t.Interfaces[kind] = append(t.Interfaces[kind], driver.Named{Name: "fake-graphical", Impl: graphical{base{f, kind}}})
			case "inspect":
				t.Interfaces[kind] = append(t.Interfaces[kind], driver.Named{Name: "agent", Impl: inBand{base{f, kind}}})
			case "raid", "rescue":
				t.Interfaces[kind] = append(t.Interfaces[kind], driver.Named{Name: "agent", Impl: f.Interface(kind)})
			}
		case "boot":
			for _, name := range genericBoots {
				t.Interfaces[kind] = append(t.Interfaces[kind], driver.Named{Name: name, Impl: f.Interface(kind)})
			}
		case "deploy":
			t.Interfaces[kind] = append(t.Interfaces[kind], driver.Named{Name: "ramdisk", Impl: liveDeploy{deploy{base{f, kind}}}},
				driver.Named{Name: "custom-agent", Impl: customDeploy{deploy{base{f, kind}}}}, driver.Named{Name: "noop", Impl: none.Deploy{}})
			for _, name := range imageDeploys {
				t.Interfaces[kind] = append(t.Interfaces[kind], driver.Named{Name: name, Impl: anyImage{deploy{base{f, kind}}}})
			}
		case "network":
			t.Interfaces[kind] = append(t.Interfaces[kind], driver.Named{Name: "noop", Impl: none.Noop{}})
		case "storage": // Ironic's default is noop, whatever the hardware type has
			t.Interfaces[kind] = slices.Insert(t.Interfaces[kind], 0, driver.Named{Name: "noop", Impl: none.Noop{}})
		}
	}
	return t
}

// Interface returns the implementation for one kind of interface.
func (f *Fleet) Interface(kind string) driver.Interface {
	b := base{fleet: f, kind: kind}
	switch kind {
	case "power":
		return power{b}
	case "management":
		return management{b}
	case "boot":
		return boot{b}
	case "deploy":
		return deploy{b}
	case "inspect":
		return inspect{b}
	case "rescue":
		return rescue{b}
	case "bios":
		return bios{b}
	case "firmware":
		return firmware{b}
	case "raid":
		return raid{b}
	case "console":
		return console{b}
	case "vendor":
		return vendor{b}
	}
	return b
}

// base is what all kinds share; by itself it serves the kinds that only have
// named steps.
type base struct {
	fleet *Fleet
	kind  string
}

func (b base) Properties() map[string]string {
	return map[string]string{
		"fake_<step or method>_delay":       "Seconds that the step or method takes, for instance fake_write_image_delay. Optional.",
		"fake_<step or method>_fail":        "Text with which the step or method fails, for instance fake_set_power_fail. Optional.",
		"fake_<kind>_validate_fail":         "Text with which the validation of that interface fails. Optional.",
		"fake_system_uuid":                  "The UUID of the machine, as its BMC reports it.",
		"fake_serial_number":                "The serial number of the machine, as its BMC reports it.",
		"fake_health":                       "The health that the machine reports: OK, Warning or Critical. Default OK.",
		"fake_<step or method>_unreachable": "True: the failure counts as an unreachable machine, so that steps try again. Optional.",
	}
}

func (b base) Validate(n *node.Document) error {
	if text := n.DriverString("fake_" + b.kind + "_validate_fail"); text != "" {
		return fmt.Errorf("node %s: %s interface: %s: %w", n.Label(), b.kind, text, driver.ErrInvalid)
	}
	for key := range n.DriverInfo {
		if _, _, err := delayOf(n, key); err != nil {
			return err
		}
	}
	return nil
}

// use does something to the machine of n after the method's delay, unless the
// method is told to fail.
func (b base) use(ctx context.Context, n *node.Document, method string, do func(*machine)) error {
	if err := delayed(ctx, n, method); err != nil {
		return err
	}
	b.fleet.mu.Lock()
	defer b.fleet.mu.Unlock()
	do(b.fleet.machine(n))
	return nil
}

// delayed waits as long as a method is told to take, and returns the failure that it is told to have.
func delayed(ctx context.Context, n *node.Document, method string) error {
	d, _, err := delayOf(n, "fake_"+method+"_delay")
	if err != nil {
		return err
	}
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("node %s: fake %s: %w: %w", n.Label(), method, err, driver.ErrUnreachable)
	}
	return failure(n, method)
}

// write is use behind the fence.
func (b base) write(ctx context.Context, f driver.Fence, n *node.Document, method string, do func(*machine)) error {
	return b.writeUnless(ctx, f, n, method, func(*machine) bool { return false }, do)
}

// writeUnless is write, and does nothing to a machine that is already so.
func (b base) writeUnless(ctx context.Context, f driver.Fence, n *node.Document, method string, already func(*machine) bool, do func(*machine)) error {
	var so bool
	if err := b.use(ctx, n, method, func(m *machine) { so = already(m) }); err != nil || so {
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	b.fleet.mu.Lock()
	defer b.fleet.mu.Unlock()
	m := b.fleet.machine(n)
	m.orders++
	do(m)
	return nil
}

// failure is the error that driver_info asks for, nil for none.
func failure(n *node.Document, what string) error {
	text := n.DriverString("fake_" + what + "_fail")
	if text == "" {
		return nil
	}
	cause := errors.New("told to by driver_info fake_" + what + "_fail")
	if n.DriverString("fake_"+what+"_unreachable") == "true" {
		cause = driver.ErrUnreachable
	}
	return fmt.Errorf("node %s: fake %s failed: %s: %w", n.Label(), what, text, cause)
}

// delayOf reads driver_info[key] as seconds when key names a delay.
func delayOf(n *node.Document, key string) (d time.Duration, set bool, err error) {
	const prefix, suffix = "fake_", "_delay"
	if len(key) <= len(prefix)+len(suffix) || key[:len(prefix)] != prefix || key[len(key)-len(suffix):] != suffix {
		return 0, false, nil
	}
	text := n.DriverString(key)
	if text == "" {
		return 0, false, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds <= 86400) {
		return 0, false, fmt.Errorf("node %s: driver_info %s is %q: give seconds between 0 and 86400: %w", n.Label(), key, text, driver.ErrInvalid)
	}
	return time.Duration(seconds * float64(time.Second)), true, nil
}

type power struct{ base }

func (p power) PowerState(ctx context.Context, n *node.Document) (s driver.PowerState, err error) {
	err = p.use(ctx, n, "power_state", func(m *machine) { s = m.power })
	return s, err
}

func (p power) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	var final driver.PowerState
	reboot := false
	switch target {
	case driver.Rebooting, driver.SoftReboot:
		final, reboot = driver.PowerOn, true
	case driver.PowerOn:
		final = driver.PowerOn
	case driver.PowerOff, driver.SoftPowerOff:
		final = driver.PowerOff
	default:
		return fmt.Errorf("node %s: power target %q: %w", n.Label(), target, driver.ErrUnsupported)
	}
	already := func(m *machine) bool { return m.power == final && !reboot }
	return p.writeUnless(ctx, f, n, "set_power", already, func(m *machine) {
		if m.power == driver.PowerOff && final == driver.PowerOn && m.Once {
			// The one-shot device is used up by this boot.
			m.change(func(s *state) { s.Device, s.Once = "", false })
		}
		m.power = final
	})
}

func (p power) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftReboot, driver.SoftPowerOff}
}
