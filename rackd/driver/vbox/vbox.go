// Package vbox is the power and management interfaces of VirtualBox's machines, over the SOAP of its web service (vboxwebsrv).
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/nextboot and protocol. Sessions, turns, courtesy, the fence and errors
// are those of rackd/driver/bmc: a host serves many machines, which share its turn and a login. Invariants:
//   - A machine's settings are changed while it is off. A boot device that is set before is kept, and written before the next start.
//   - What is changed in a locked copy counts once it is saved: saving is the order, behind the fence. The lock is always let go.
//   - A boot device lasts.
//
// Everything exported is safe for concurrent use. Sources: the WSDL of VirtualBox's web service, pyremotevbox (git 123dfff), and
// Ironic's driver of before 2017.
package vbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/nextboot"
)

// Fields of driver_info, with Ironic's names, but for the last two.
const (
	fieldMachine  = "virtualbox_vmname"
	fieldHost     = "virtualbox_host"
	fieldUser     = "virtualbox_username"
	fieldPassword = "virtualbox_password"
	fieldPort     = "virtualbox_port"
	fieldProtocol = "virtualbox_protocol"
	fieldVerifyCA = "virtualbox_verify_ca"
)

// Driver implements driver.Power, driver.Management and driver.Keeper.
type Driver struct {
	opts  bmc.WebOptions
	pool  *bmc.Pool[*session]
	boots nextboot.Devices // of machines that are on
}

// New returns a driver without any session; Close ends those that come.
func New(o bmc.WebOptions) *Driver {
	return &Driver{opts: o.Filled(), pool: bmc.NewPool[*session](o.Pool("vbox"))}
}

// Close logs off, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldMachine:  "Name or UUID of the machine in VirtualBox. Required.",
		fieldHost:     "Host name or address of VirtualBox's web service. Required.",
		fieldUser:     "User of the web service. Default: none.",
		fieldPassword: "Password of that user. Default: none.",
		fieldPort:     "TCP port of the web service. Default 18083.",
		fieldProtocol: "http or https. Default http.",
		fieldVerifyCA: "How to check the certificate for https: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
	}
}

// target is a machine on a host.
type target struct {
	bmc.Web
	machine string
}

func parse(n *node.Document) (t target, err error) {
	refuse := func(err error) (target, error) { return target{}, fmt.Errorf("node %s: %w", n.Label(), err) }
	var missing []string
	for _, field := range []string{fieldMachine, fieldHost} {
		if n.DriverString(field) == "" {
			missing = append(missing, field)
		}
	}
	if missing != nil {
		return refuse(driver.Refuse("The following parameters are missing in driver_info: %s", strings.Join(missing, ", ")))
	}
	t = target{Web: bmc.Web{Node: n, Scheme: n.DriverString(fieldProtocol), User: n.DriverString(fieldUser), Password: n.DriverString(fieldPassword), VerifyCA: bmc.VerifyCA(n.DriverString(fieldVerifyCA)),
		Fields: bmc.Fields{Address: fieldHost, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}}, machine: n.DriverString(fieldMachine)}
	if t.Scheme == "" {
		t.Scheme = "http"
	}
	if t.Scheme != "http" && t.Scheme != "https" {
		return refuse(driver.Refuse("%s is %q: give http or https", fieldProtocol, t.Scheme))
	}
	if t.Host, err = bmc.Host(n, fieldHost, fieldPort); err != nil {
		return refuse(err)
	}
	if t.Port, err = bmc.Port(n, fieldPort, "18083"); err != nil {
		return refuse(err)
	}
	return t, nil
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	return t.Web.Validate(n, d.opts)
}

// Account implements driver.Accounted.
func (*Driver) Account(n *node.Document) string {
	t, err := parse(n)
	if err != nil {
		return ""
	}
	return t.AccountName()
}

// LocatesBMC implements driver.Located: a virtual machine has none to look for.
func (*Driver) LocatesBMC() {}

// Kept implements driver.Keeper.
func (d *Driver) Kept(n *node.Document) json.RawMessage { return d.boots.Kept(n) }

// host is a session at the caller's turn, and the machine that is meant.
type host struct {
	*session
	id string // of the machine, in this session
}

// with runs do on the node's machine when it is the caller's turn at its host, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(host) error) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, t.Account(), func(ctx context.Context) (*session, error) { return logon(ctx, t.Web, d.opts) },
		func(s *session) error {
			id, err := s.one(ctx, "IVirtualBox_findMachine", "_this", s.box, "nameOrId", t.machine)
			if err != nil {
				if f, refused := errors.AsType[*bmc.Failure](err); refused && f.Class == bmc.Refused {
					f.Class = bmc.Invalid
					f.Said += "; check " + fieldMachine
				}
				return err
			}
			return do(host{s, id})
		})
	return t.Attempt(n, "VirtualBox", doing).Explain(err)
}

// PowerTargets lists the supported targets.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

// on reads whether the machine is on. One that is paused counts as on, one that is saved as off.
func (h host) on(ctx context.Context) (bool, error) {
	state, err := h.one(ctx, "IMachine_getState", "_this", h.id)
	return err == nil && !slices.Contains([]string{"PoweredOff", "Saved", "Teleported", "Aborted", "AbortedSaved"}, state), err
}

// PowerState reads whether the machine is on.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(h host) error {
		on, err := h.on(ctx)
		state = map[bool]driver.PowerState{true: driver.PowerOn, false: driver.PowerOff}[on]
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetPower starts and stops the machine. A reboot stops and starts it, so that a boot device that was set counts.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), goal) {
		return fmt.Errorf("node %s: VirtualBox knows no power target %q: %w", n.Label(), goal, driver.ErrUnsupported)
	}
	if goal != driver.Rebooting {
		return d.switchTo(ctx, f, n, goal)
	}
	state, err := d.PowerState(ctx, n)
	if err != nil {
		return err
	}
	if state == driver.PowerOff {
		return d.switchTo(ctx, f, n, driver.PowerOn)
	}
	// A stop whose outcome is unknown would leave the machine off.
	if err := driver.Settle(func() error { return d.switchTo(ctx, f, n, driver.PowerOff) }); err != nil {
		return err
	}
	err = driver.Settle(func() error { return d.switchTo(ctx, f, n, driver.PowerOn) })
	if err != nil && !errors.Is(err, driver.ErrFenced) && !errors.Is(err, driver.ErrUnknown) {
		err = fmt.Errorf("%w; the machine was stopped for a reboot, and was not yet started again: %w", err, driver.ErrUnknown)
	}
	return err
}

func (d *Driver) switchTo(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	return d.with(ctx, n, fmt.Sprintf("set the power to %q", goal), func(h host) error {
		on, err := h.on(ctx)
		if err != nil || on == (goal == driver.PowerOn) {
			return err
		}
		if goal != driver.PowerOn {
			return h.stop(ctx, f, goal == driver.SoftPowerOff)
		}
		if kept := d.boots.Of(n); kept.Device != "" {
			if err := h.setBoot(ctx, f, kept.Device); err != nil {
				return err
			}
			d.boots.Keep(n, "", false) // the machine has it now
		}
		return h.start(ctx, f)
	})
}

// locking is how often and how far apart a lock is asked for or let go that VirtualBox holds for a moment, after a stop or a start.
const (
	lockTries = 20
	lockPause = 500 * time.Millisecond
)

// patiently repeats a request that changes no machine while VirtualBox holds its lock.
func patiently(ctx context.Context, do func() error) (err error) {
	for try := 1; ; try++ {
		if err = do(); err == nil || try == lockTries {
			return err
		}
		if f, refused := errors.AsType[*bmc.Failure](err); !refused || f.Class != bmc.Busy {
			return err
		}
		if err := driver.Pause(ctx, lockPause); err != nil {
			return &bmc.Lost{Err: err}
		}
	}
}

func (h host) start(ctx context.Context, f driver.Fence) error {
	own, err := first(h.ask(ctx, "IWebsessionManager_getSessionObject", "refIVirtualBox", h.box))
	if err != nil {
		return err
	}
	// The machine runs on without the session that has started it; one that was not started holds no lock.
	defer h.letGo(ctx, own)
	progress, err := h.order(ctx, f, "IMachine_launchVMProcess", "_this", h.id, "session", own, "type", "headless", "environment", "")
	if err != nil {
		return err
	}
	return h.done(ctx, progress)
}

func (h host) stop(ctx context.Context, f driver.Fence, soft bool) error {
	return h.locked(ctx, "Shared", func(own string) error {
		console, err := h.one(ctx, "ISession_getConsole", "_this", own)
		if err != nil {
			return err
		}
		if soft {
			_, err := h.order(ctx, f, "IConsole_powerButton", "_this", console)
			return err
		}
		progress, err := h.order(ctx, f, "IConsole_powerDown", "_this", console)
		if err != nil {
			return err
		}
		return h.done(ctx, progress)
	})
}

// locked runs do while a session of its own holds the machine's lock.
func (h host) locked(ctx context.Context, kind string, do func(own string) error) error {
	own, err := first(h.ask(ctx, "IWebsessionManager_getSessionObject", "refIVirtualBox", h.box))
	if err != nil {
		return err
	}
	defer h.letGo(ctx, own) // also when the answer to the lock is lost, or do panics
	if err := patiently(ctx, func() error {
		_, err := h.ask(ctx, "IMachine_lockMachine", "_this", h.id, "session", own, "lockType", kind)
		return err
	}); err != nil {
		return err
	}
	return do(own)
}

// letGoWithin bounds the unlocking of a machine.
const letGoWithin = 5 * time.Second

// letGo unlocks the machine, also when the call is over: the web service keeps a lock for as long as the login, which goes on. A
// machine that has stopped has let it go.
func (h host) letGo(ctx context.Context, own string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoWithin)
	defer cancel()
	_, _ = h.ask(ctx, "ISession_unlockMachine", "_this", own)
}

// done waits for the end of what was begun, and tells how it ended. VirtualBox forgets what is over.
func (h host) done(ctx context.Context, progress string) error {
	if progress == "" {
		return nil
	}
	if _, err := h.ask(ctx, "IProgress_waitForCompletion", "_this", progress, "timeout", "30000"); err != nil {
		return &bmc.Failure{Class: bmc.Unknown, Said: "no word of how it ended (" + err.Error() + ")"}
	}
	code, err := h.one(ctx, "IProgress_getResultCode", "_this", progress)
	if err == nil && code != "0" && code != "" {
		return &bmc.Failure{Said: "the result code " + code}
	}
	return nil
}

// words are VirtualBox's for boot devices.
var words = map[driver.BootDevice]string{driver.BootPXE: "Network", driver.BootDisk: "HardDisk", "cdrom": "DVD", "floppy": "Floppy"}

// places is how many boot devices a machine has in order.
const places = 4

// order4 reads the boot devices in order.
func (h host) order4(ctx context.Context) (list []string, err error) {
	for place := 1; place <= places; place++ {
		word, err := h.one(ctx, "IMachine_getBootOrder", "_this", h.id, "position", fmt.Sprint(place))
		if err != nil {
			return nil, err
		}
		list = append(list, word)
	}
	return list, nil
}

// setBoot makes a device the first, if it is not. The others stay in their order behind it.
func (h host) setBoot(ctx context.Context, f driver.Fence, device driver.BootDevice) error {
	is, err := h.order4(ctx)
	word := words[device]
	if err != nil || is[0] == word {
		return err
	}
	wanted := []string{word}
	for _, w := range is {
		if w != word && w != "Null" && len(wanted) < places {
			wanted = append(wanted, w)
		}
	}
	for len(wanted) < places {
		wanted = append(wanted, "Null")
	}
	return h.change(ctx, f, func(copied string) error {
		for i, w := range wanted {
			if w == is[i] {
				continue
			}
			if _, err := h.ask(ctx, "IMachine_setBootOrder", "_this", copied, "position", fmt.Sprint(i+1), "device", w); err != nil {
				return err
			}
		}
		return nil
	})
}

// change edits a locked copy of the machine, and saves it: that is the order.
func (h host) change(ctx context.Context, f driver.Fence, edit func(copied string) error) error {
	return h.locked(ctx, "Write", func(own string) error {
		copied, err := h.one(ctx, "ISession_getMachine", "_this", own)
		if err != nil {
			return err
		}
		if err := edit(copied); err != nil {
			return err
		}
		_, err = h.order(ctx, f, "IMachine_saveSettings", "_this", copied)
		return err
	})
}

// SupportedBootDevices are the same for all machines.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return []driver.BootDevice{driver.BootPXE, driver.BootDisk, "cdrom", "floppy"}, nil
}

// BootDevice reads the first device, or the one that is kept until the machine is off.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, n, "read the boot device", func(h host) error {
		word, err := h.one(ctx, "IMachine_getBootOrder", "_this", h.id, "position", "1")
		device := d.boots.Of(n).Device
		for is, w := range words {
			if device == "" && w == word {
				device = is
			}
		}
		if device != "" {
			lasts := true
			found = ask.BootDevice{Device: string(device), Persistent: &lasts}
		}
		return err
	})
	return found, err
}

// SetBootDevice makes a device the first. It lasts, also where it is asked for once. That of a machine that is on is kept until it is
// started the next time.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, _ bool) error {
	if words[device] == "" {
		return fmt.Errorf("node %s: Invalid boot device %s specified: VirtualBox has pxe, disk, cdrom and floppy: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the boot device to %s", device), func(h host) error {
		on, err := h.on(ctx)
		if err != nil {
			return err
		}
		if on {
			if err := f.Check(); err != nil {
				return err
			}
			d.boots.Keep(n, device, false)
			return nil
		}
		if err := h.setBoot(ctx, f, device); err != nil {
			return err
		}
		d.boots.Keep(n, "", false)
		return nil
	})
}

// mode reads how the machine's firmware boots.
func (h host) mode(ctx context.Context) (string, error) {
	kind, err := h.one(ctx, "IMachine_getFirmwareType", "_this", h.id)
	if strings.HasPrefix(kind, "EFI") {
		return "uefi", err
	}
	return "bios", err
}

// BootMode reads how the machine's firmware boots.
func (d *Driver) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = d.with(ctx, n, "read the boot mode", func(h host) (err error) { mode, err = h.mode(ctx); return err })
	return mode, err
}

// SetBootMode gives a machine that is off other firmware.
func (d *Driver) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	kind := map[string]string{"uefi": "EFI", "bios": "BIOS"}[mode]
	if kind == "" {
		return fmt.Errorf("node %s: boot mode %q: give uefi or bios: %w", n.Label(), mode, driver.ErrInvalid)
	}
	return d.with(ctx, n, "set the boot mode to "+mode, func(h host) error {
		is, err := h.mode(ctx)
		if err != nil || is == mode {
			return err
		}
		on, err := h.on(ctx)
		if err != nil {
			return err
		}
		if on {
			return &bmc.Failure{Class: bmc.Unsupported, Said: "that the machine is on: VirtualBox changes firmware while it is off"}
		}
		return h.change(ctx, f, func(copied string) error {
			_, err := h.ask(ctx, "IMachine_setFirmwareType", "_this", copied, "firmwareType", kind)
			return err
		})
	})
}

func without(n *node.Document, what string) error {
	return fmt.Errorf("node %s: VirtualBox's web service tells and takes no %s here: %w", n.Label(), what, driver.ErrUnsupported)
}

// Identity is not known.
func (*Driver) Identity(_ context.Context, n *node.Document) (driver.Identity, error) {
	return driver.Identity{}, without(n, "identity")
}

// InjectNMI is refused.
func (*Driver) InjectNMI(_ context.Context, _ driver.Fence, n *node.Document) error {
	return without(n, "NMI")
}
