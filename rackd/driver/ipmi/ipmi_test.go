package ipmi

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// sent are the requests to the chassis and others, of one command.
func (r *rig) sent(netFn, command uint8) (list [][]byte) {
	r.set(func() {
		for _, q := range r.requests {
			if q.NetFn == netFn && q.Command == command {
				list = append(list, q.Data)
			}
		}
	})
	return list
}

// A boot device is set in the node's boot mode, and the BMC is told to keep it for longer than a minute, unless the node says no.
func TestBootFlags(t *testing.T) {
	for name, c := range map[string]struct {
		fields     map[string]any
		properties map[string]any
		device     driver.BootDevice
		persistent bool
		want       []string
	}{
		"uefi, once":     {nil, nil, driver.BootPXE, false, []string{"0308", "05a004000000"}},
		"uefi, always":   {nil, nil, driver.BootDisk, true, []string{"0308", "05e008000000"}},
		"bios":           {nil, map[string]any{"capabilities": "boot_mode:bios"}, "cdrom", false, []string{"0308", "058014000000"}},
		"no timer":       {map[string]any{fieldNoTimeout: "false"}, nil, "bios", true, []string{"05e018000000"}},
		"supermicro":     {nil, map[string]any{"vendor": "Supermicro"}, driver.BootDisk, true, []string{"0308", "05e024000000"}},
		"supermicro pxe": {nil, map[string]any{"vendor": "supermicro"}, driver.BootPXE, true, []string{"0308", "05e004000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "s3cret-pass")
			d, n := newDriver(t, Options{}), r.node("s3cret-pass", c.fields)
			n.Properties = c.properties
			if err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, n, c.device, c.persistent); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, data := range r.sent(netFnChassis, cmdSetBoot) {
				got = append(got, hexOf(data))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("sent %v, want %v", got, c.want)
			}
			is, err := d.BootDevice(t.Context(), n)
			if err != nil || is.Device != string(c.device) || is.Persistent == nil || *is.Persistent != c.persistent {
				t.Errorf("read back %+v, %v", is, err)
			}
		})
	}
}

func hexOf(b []byte) (s string) {
	const digits = "0123456789abcdef"
	for _, v := range b {
		s += string(digits[v>>4]) + string(digits[v&15])
	}
	return s
}

// A BMC that tells its manufacturer is known as Supermicro's by that.
func TestSupermicroByItself(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			return []byte{0, 0, 0, 0, 2, 0, 0x7C, 0x2A, 0, 0, 0}, 0, q.NetFn == netFnApp && q.Command == cmdDeviceID
		}
	})
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	if err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, n, driver.BootDisk, false); err != nil {
		t.Fatal(err)
	}
	if sent := r.sent(netFnChassis, cmdSetBoot); hexOf(sent[len(sent)-1]) != "05a024000000" {
		t.Errorf("sent %x", sent)
	}
	if vendor, err := d.DetectVendor(t.Context(), n); err != nil || vendor != "supermicro" {
		t.Errorf("%q, %v", vendor, err)
	}
	if id, err := d.Identity(t.Context(), n); err != nil || id.Manufacturer != "Supermicro" || id.UUID+id.Serial != "" {
		t.Errorf("%+v, %v", id, err)
	}
}

// What a BMC accepts and does not keep is told, with what to do.
func TestBootDeviceNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		forget func(*types.BootOptionParam_BootFlags)
		words  string
	}{
		"another device": {func(f *types.BootOptionParam_BootFlags) {
			f.BootDeviceSelector = types.BootDeviceSelectorForceHardDrive
		}, "did not keep it"},
		"once":          {func(f *types.BootOptionParam_BootFlags) { f.Persist = false }, fieldForce},
		"the boot mode": {func(f *types.BootOptionParam_BootFlags) { f.BIOSBootType = types.BIOSBootTypeLegacy }, ""},
		"its validity":  {func(f *types.BootOptionParam_BootFlags) { f.BootFlagsValid, f.Persist = false, false }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "s3cret-pass")
			r.set(func() {
				r.after = func(q request) {
					if q.Order() {
						r.chassis.set(func() { c.forget(&r.chassis.flags) })
					}
				}
			})
			err := newDriver(t, Options{}).SetBootDevice(t.Context(), &drivertest.Fence{}, r.node("s3cret-pass", nil), driver.BootPXE, true)
			if c.words == "" && err != nil || c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)) {
				t.Errorf("%v, want %q", err, c.words)
			}
		})
	}
}

// A BMC without a timer of its boot flags is told of none; one without boot flags cannot be told a boot device.
func TestBootOptionsThatAreNotThere(t *testing.T) {
	for param, want := range map[uint8]error{paramValidClearing: nil, paramBootFlags: driver.ErrUnsupported} {
		r := newRig(t, "s3cret-pass")
		r.set(func() {
			r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
				return nil, 0x80, q.NetFn == netFnChassis && (q.Command == cmdSetBoot || q.Command == cmdGetBoot) && q.Data[0] == param
			}
		})
		err := newDriver(t, Options{}).SetBootDevice(t.Context(), &drivertest.Fence{}, r.node("s3cret-pass", nil), driver.BootPXE, false)
		if !errors.Is(err, want) {
			t.Errorf("parameter %d is not there: %v, want %v", param, err, want)
		}
	}
}

// A BMC that does not remember the boot device is told before each start, also by the next rackd; a device for one start counts once.
func TestForcedBootDevice(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", map[string]any{fieldForce: true})
	f := &drivertest.Fence{}
	forget := func() { r.chassis.set(func() { r.chassis.flags = types.BootOptionParam_BootFlags{} }) }
	cycle := func(d *Driver, n *node.Document) {
		t.Helper()
		for _, target := range []driver.PowerState{driver.PowerOff, driver.PowerOn} {
			if err := d.SetPower(t.Context(), f, n, target); err != nil {
				t.Fatal(err)
			}
		}
	}
	boots := func(want types.BootDeviceSelector) {
		t.Helper()
		r.chassis.set(func() {
			if got := r.chassis.flags; got.BootDeviceSelector != want || got.Persist || want != 0 && !got.BootFlagsValid {
				t.Errorf("it starts with %+v, want once %v", got, want)
			}
		})
	}
	if d.Kept(n) != nil {
		t.Error("something is kept of a node that was told nothing")
	}
	if err := d.SetBootDevice(t.Context(), f, n, driver.BootDisk, true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		forget()
		cycle(d, n)
		boots(types.BootDeviceSelectorForceHardDrive)
	}
	// Another rackd, which has the node's document.
	next := *n
	if next.Kept = d.Kept(n); !json.Valid(next.Kept) {
		t.Fatalf("kept: %s", next.Kept)
	}
	other := newDriver(t, Options{})
	forget()
	cycle(other, &next)
	boots(types.BootDeviceSelectorForceHardDrive)
	if other.Kept(&next) != nil {
		t.Error("what the document has is kept again")
	}
	// For one start.
	if err := other.SetBootDevice(t.Context(), f, &next, driver.BootPXE, false); err != nil {
		t.Fatal(err)
	}
	cycle(other, &next)
	boots(types.BootDeviceSelectorForcePXE)
	forget()
	cycle(other, &next)
	boots(types.BootDeviceSelectorForceHardDrive)
	next.Kept = other.Kept(&next)
	forget()
	cycle(d, &next)
	boots(types.BootDeviceSelectorForceHardDrive)
	n.DriverInfo[fieldForce] = false
	forget()
	cycle(d, n)
	boots(0)
}

// The chassis controls of each way to restart.
func TestControls(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	d, n, f := newDriver(t, Options{}), r.node("s3cret-pass", nil), &drivertest.Fence{}
	controls := func(want string, do func() error) {
		t.Helper()
		before := len(r.sent(netFnChassis, cmdChassisControl))
		if err := do(); err != nil {
			t.Error(err)
		}
		got := ""
		for _, data := range r.sent(netFnChassis, cmdChassisControl)[before:] {
			got += hexOf(data)
		}
		if got != want {
			t.Errorf("controls %s, want %s", got, want)
		}
	}
	set := func(target driver.PowerState) func() error {
		return func() error { return d.SetPower(t.Context(), f, n, target) }
	}
	controls("01", set(driver.Rebooting))
	controls("02", set(driver.Rebooting))
	controls("0501", set(driver.SoftReboot))
	controls("05", set(driver.SoftPowerOff))
	controls("01", set(driver.PowerOn))
	n.DisablePowerOff = true
	controls("03", set(driver.Rebooting))
	if err := d.SetPower(t.Context(), f, n, driver.SoftReboot); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a soft reboot of a machine that must not be off: %v", err)
	}
	n.DisablePowerOff = false
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			return nil, 0xCC, q.Command == cmdChassisControl && q.NetFn == netFnChassis && q.Data[0] == controlCycle
		}
	})
	controls("0203", set(driver.Rebooting))
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			return nil, 0, q.Command == cmdChassisControl && q.NetFn == netFnChassis && q.Data[0] == controlInterrupt
		}
	})
	controls("04", func() error { return d.InjectNMI(t.Context(), f, n) })
}

// A machine whose operating system does not listen is not waited for without end, and keeps its power.
func TestDeafMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	r.powerOn()
	r.chassis.set(func() { r.chassis.deaf = true })
	d := newDriver(t, Options{SoftOff: 300 * time.Millisecond})
	err := d.SetPower(t.Context(), &drivertest.Fence{}, r.node("s3cret-pass", nil), driver.SoftReboot)
	if err == nil || !strings.Contains(err.Error(), "ACPI") {
		t.Error(err)
	}
}

// Without a cipher suite in driver_info, 17 is tried, then 3, and what the BMC took is remembered.
func TestCipherSuites(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass", bmc.WithCipherSuites([]types.CipherSuiteID{types.CipherSuiteID3}))
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	for range 2 {
		if _, err := d.PowerState(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	a, err := parse(n)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.suites.tried(a); !slices.Equal(got, []uint8{3, 17}) {
		t.Errorf("next time it tries %v", got)
	}
	_, err = d.PowerState(t.Context(), r.node("s3cret-pass", map[string]any{fieldSuite: 17}))
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fieldSuite) {
		t.Errorf("cipher suite 17 is given, and the BMC has 3 only: %v", err)
	}
	other := newRig(t, "s3cret-pass")
	n = other.node("s3cret-pass", nil)
	if _, err := d.PowerState(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if a, err = parse(n); err != nil || !slices.Equal(d.suites.tried(a), []uint8{17, 3}) {
		t.Errorf("next time it tries %v, %v", d.suites.tried(a), err)
	}
}

// A BMC with a key Kg lets in who has it, and tells those who have not what is missing.
func TestKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass", bmc.WithKG([]byte{0xAB, 0xCD, 0xEF}))
	if _, err := newDriver(t, Options{}).PowerState(t.Context(), r.node("s3cret-pass", map[string]any{fieldKey: "ABcdef"})); err != nil {
		t.Error(err)
	}
	for key, words := range map[string]string{"": "does not name", "abcdee": "another one"} {
		_, err := newDriver(t, Options{}).PowerState(t.Context(), r.node("s3cret-pass", map[string]any{fieldKey: key}))
		if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), fieldKey) || !strings.Contains(err.Error(), words) || key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

// A BMC without a session to spare is busy: trying again helps.
func TestNoSessionLeft(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	for range bmc.MaxSessions {
		if _, err := newDriver(t, Options{}).PowerState(t.Context(), r.node("s3cret-pass", nil)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := newDriver(t, Options{}).PowerState(t.Context(), r.node("s3cret-pass", nil))
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "no session left") {
		t.Error(err)
	}
}

// A user's privilege may be too low for a session. One that is too low for an order is TestCodes's.
func TestPrivilege(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	f := &drivertest.Fence{}
	reader := func(level string) *node.Document {
		return r.node("s3cret-pass", map[string]any{fieldUser: "reader", fieldPrivilege: level})
	}
	d := newDriver(t, Options{})
	if _, err := d.PowerState(t.Context(), reader("USER")); err != nil {
		t.Error(err)
	}
	err := d.SetPower(t.Context(), f, reader("ADMINISTRATOR"), driver.PowerOn)
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), fieldPrivilege) {
		t.Error(err)
	}
}

// The light is switched until it is switched off.
func TestIndicator(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	d, n, f := newDriver(t, Options{}), r.node("s3cret-pass", nil), &drivertest.Fence{}
	var state atomic.Int32 // of the chassis's status: it tells of its light
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			return []byte{0, 0, 0x40 | byte(state.Load())}, 0, q.NetFn == netFnChassis && q.Command == cmdChassisStatus
		}
		r.after = func(q request) {
			if q.NetFn == netFnChassis && q.Command == cmdIdentify {
				state.Store(int32(map[bool]byte{true: 0x20}[len(q.Data) > 1]))
			}
		}
	})
	for _, want := range []string{"on", "on", "off", "off"} {
		if err := d.SetIndicator(t.Context(), f, n, "chassis", "led", want); err != nil {
			t.Fatal(err)
		}
		if is, err := d.Indicator(t.Context(), n, "chassis", "led"); err != nil || is != want {
			t.Errorf("%q, %v; want %s", is, err, want)
		}
	}
	if sent := r.sent(netFnChassis, cmdIdentify); len(sent) != 2 || hexOf(sent[0])+hexOf(sent[1]) != "000100" {
		t.Errorf("sent %x", sent)
	}
	r.set(func() { r.after = nil })
	if err := d.SetIndicator(t.Context(), f, n, "chassis", "led", "on"); err == nil {
		t.Error("a light that stays dark is no error")
	}
	for _, c := range [][3]string{{"system", "led", "on"}, {"chassis", "lamp", "on"}, {"chassis", "led", "blinking"}} {
		if err := d.SetIndicator(t.Context(), f, n, c[0], c[1], c[2]); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// Raw commands and resets are sent once, behind the fence.
func TestVendor(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	v := Vendor{newDriver(t, Options{})}
	n := r.node("s3cret-pass", nil)
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			return nil, 0, q.NetFn == 0x2E || q.NetFn == netFnApp && (q.Command == cmdColdReset || q.Command == cmdWarmReset)
		}
	})
	call := func(v Vendor, name string, f driver.Fence, args map[string]any) error {
		for _, m := range v.VendorMethods() {
			if m.Name == name {
				if err := m.Check(n, args); err != nil {
					return err
				}
				_, err := m.Call(t.Context(), f, n, args)
				return err
			}
		}
		return errors.New("there is no method " + name)
	}
	f := &drivertest.Fence{}
	if err := call(v, "send_raw", f, map[string]any{"raw_bytes": "0x2e 1 0xff 16"}); err != nil {
		t.Error(err)
	}
	if sent := r.sent(0x2E, 1); len(sent) != 1 || hexOf(sent[0]) != "ff10" {
		t.Errorf("sent %x", sent)
	}
	for args, command := range map[string]uint8{"": cmdWarmReset, "false": cmdColdReset, "True": cmdWarmReset} {
		v, given := Vendor{newDriver(t, Options{})}, map[string]any{}
		if args != "" {
			given["warm"] = args
		}
		before := len(r.sent(netFnApp, command))
		if err := call(v, "bmc_reset", f, given); err != nil {
			t.Error(err)
		}
		if got := len(r.sent(netFnApp, command)) - before; got != 1 {
			t.Errorf("bmc_reset %v: %d resets", given, got)
		}
		_, err := v.PowerState(t.Context(), n)
		if _, resting := errors.AsType[driver.Resting](err); !resting {
			t.Errorf("a BMC that was told to reset is asked: %v", err)
		}
	}
	for method, bad := range map[string][]map[string]any{
		"send_raw":  {nil, {"raw_bytes": "0x2e"}, {"raw_bytes": "0x2e zz"}, {"raw_bytes": "0x2f 1"}, {"raw_bytes": "0x2e 300"}, {"raw_bytes": "0x2e 1", "more": 1}},
		"bmc_reset": {{"warm": "tepid"}, {"cold": true}},
	} {
		for _, args := range bad {
			if err := call(v, method, f, args); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "web1") {
				t.Errorf("%s %v: %v", method, args, err)
			}
		}
	}
	f.Lose()
	before := len(r.sent(0x2E, 1))
	if err := call(v, "send_raw", f, map[string]any{"raw_bytes": "0x2e 1"}); !errors.Is(err, driver.ErrFenced) || len(r.sent(0x2E, 1)) != before {
		t.Errorf("a raw command of another rackd: %v", err)
	}
	step := v.NamedSteps(n)[0]
	task := &driver.Task{Node: n, Fence: &drivertest.Fence{}, Args: map[string]any{"raw_bytes": "0x2e 0x01"}}
	if _, err := step.Run(t.Context(), task); err != nil || len(r.sent(0x2E, 1)) != before+1 {
		t.Errorf("the step send_raw: %v", err)
	}
}

// Each socket is told its profile.
func TestSpeedSelect(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	i := Intel{newDriver(t, Options{})}
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) { return nil, 0, q.NetFn == 0x2C }
	})
	n := r.node("s3cret-pass", nil)
	step := i.NamedSteps(n)[0]
	args := map[string]any{"intel_speedselect_config": "0x02", "socket_count": float64(2)}
	if err := step.Check(n, args); err != nil {
		t.Fatal(err)
	}
	if _, err := step.Run(t.Context(), &driver.Task{Node: n, Fence: &drivertest.Fence{}, Args: args}); err != nil {
		t.Fatal(err)
	}
	if sent := r.sent(0x2C, 0x41); len(sent) != 2 || hexOf(sent[0]) != "04000002" || hexOf(sent[1]) != "04000102" {
		t.Errorf("sent %x", sent)
	}
	for _, bad := range []map[string]any{{}, {"intel_speedselect_config": "2"}, {"intel_speedselect_config": "0x03"}, {"intel_speedselect_config": "0x00", "socket_count": 0}} {
		if err := step.Check(n, bad); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
