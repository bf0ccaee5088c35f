package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Machine is one machine with a BMC that a test controls, and the driver that talks to it. The machine is off,
// and boots from pxe and disk. What its kind of hardware cannot do is nil, for a
// reason in Without.
type Machine struct {
	Power driver.Power
	// Management is nil where nothing but the power is reached, as by a PDU.
	Management driver.Management
	Node       *node.Document
	// OneWay: it is switched on, and nothing tells what became of that. An order to go on is always given.
	OneWay bool
	// Lasting: its boot devices last, also where one is asked for once.
	Lasting bool
	// Deferred: its boot devices are kept with the node, and told to the machine with the order that starts it.
	Deferred bool
	// Secret is the password in Node. It must stand in no error.
	Secret string
	// Writes is how many orders have reached the machine: no logins, and no reads.
	Writes func() int
	// Lose has the BMC carry out the next order and lose the answer.
	Lose func()
	// Silence has the BMC answer nothing more: nothing listens.
	Silence func()
	// Hang has the BMC take requests and answer none, until the test ends.
	Hang func()
	// Spoil has the request with number at, counted from 1 and from the call on, come to grief; Asked counts the requests since. A login is
	// a request, too. Sessions counts those that are open at the BMC then; nil: it has none, or does not tell.
	Spoil    func(how Mishap, at int)
	Asked    func() int
	Sessions func() int
	// Restart has the BMC start again while it is asked nothing: it knows no session and no connection from before.
	Restart func()
	// WhileRead runs do once, while the BMC answers the next read of the machine.
	WhileRead func(do func())
	// Deny has the BMC refuse the node's credentials, and those who are logged in. Logins is how many logins it has
	// refused. Corrected is the node with credentials that the BMC then takes.
	Deny      func()
	Logins    func() int
	Corrected func() *node.Document
	// Forget has the BMC forget the boot device that was set for all starts, as one does at the machine's next start or when its settings
	// are reset. The machine then boots from something else than pxe.
	Forget func()
	// MediaCertificate is a certificate, as PEM, that the machine's drives for CDs may be given, so that they verify the servers of images.
	// It is there where Management is a driver.MediaTruster.
	MediaCertificate string
	// Second is the node of another machine behind the same BMC.
	Second func() *node.Document
	// Port is where the BMC listens, for TCP or UDP. No socket leads there any more once the driver is closed: by Close, or by Power's
	// method of that name.
	Port  func() string
	Close func(context.Context) error
	// Without says, by their names, why hooks are empty. Those are Management, Lose, Silence, Hang, Spoil, WhileRead, Deny,
	// MediaCertificate, Second and Port. Sessions and Restart are among them beside Spoil, and Forget beside a Management that sets boot
	// devices. Its entry Log says why the driver does not log to Logger. The checks that need a hook are left out for that reason.
	// The test prints it.
	Without map[string]string
}

// order is a method that writes.
type order struct {
	name string
	give func(context.Context, driver.Fence, *Machine) error
	// done reads whether its effect is there; nil: it cannot be read.
	done func(context.Context, *Machine) (bool, error)
	// managed: it is an order of the management interface.
	managed bool
}

// missing skips a check of an order that m cannot be given.
func (o order) missing(t *testing.T, m *Machine) {
	if o.managed && m.Management == nil {
		t.Skip(m.Without["Management"])
	}
	if o.managed && m.fixed() {
		t.Skip("its boot order is fixed: no boot device is written")
	}
}

// fixed: its machines have one boot order, which nothing changes.
func (m *Machine) fixed() bool { _, is := m.Management.(driver.FixedBootOrder); return is }

// known skips a check of what is known of the power.
func (m *Machine) known(t *testing.T) {
	if m.OneWay {
		t.Skip("nothing tells whether this kind of hardware is on")
	}
}

func switchTo(target, final driver.PowerState) order {
	return order{"SetPower " + string(target),
		func(ctx context.Context, f driver.Fence, m *Machine) error {
			return m.Power.SetPower(ctx, f, m.Node, target)
		},
		func(ctx context.Context, m *Machine) (bool, error) {
			s, err := m.Power.PowerState(ctx, m.Node)
			return s == final, err
		}, false}
}

func bootFrom(device driver.BootDevice, persistent bool) order {
	return order{fmt.Sprintf("SetBootDevice %s, persistent %t", device, persistent),
		func(ctx context.Context, f driver.Fence, m *Machine) error {
			return m.Management.SetBootDevice(ctx, f, m.Node, device, persistent)
		},
		func(ctx context.Context, m *Machine) (bool, error) {
			is, err := m.Management.BootDevice(ctx, m.Node)
			return is.Device == string(device) && is.Persistent != nil && *is.Persistent == (persistent || m.Lasting), err
		}, true}
}

// orders change a machine that is as Machine says.
var orders = []order{switchTo(driver.PowerOn, driver.PowerOn), switchTo(driver.Rebooting, driver.PowerOn), bootFrom(driver.BootPXE, false)}

// Conformance holds power and management interfaces to the contract (rackd/driver). start makes a machine with a driver that
// has talked to no BMC yet, and clears them away at the end of the check. Checks that wait for answers that do not come call
// t.Parallel: they run when the test that calls Conformance has come to its end.
func Conformance(t *testing.T, start func(t *testing.T) *Machine) {
	t.Run("what is left out has a reason", func(t *testing.T) { checkReasons(t, start(t)) })
	test := t.Name()
	t.Run("the document says what is left out", func(t *testing.T) { checkTable(t, test, start(t)) })
	start = logged(start)
	wait := func(name string, check func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t)
		})
	}
	for _, c := range []struct {
		name  string
		check func(*testing.T, *Machine)
	}{
		{"fields are described and checked without the BMC", checkFields},
		{"each power target is reached", checkTargets},
		{"a reboot of a machine that is off switches it on", checkRebootOfOff},
		{"what is already so is not written", checkPresentState},
		{"a boot device is read back", checkBootDevice},
		{"a boot device that the BMC forgets is seen, and set again", checkForgotten},
		{"a boot device for one start is taken back", checkOneStart},
		{"what a machine does not know is refused", checkUnknownWords},
		{"the contexts of reads and writes are honoured", checkContexts},
		{"calls to one BMC at once share a login", checkAtOnce},
		{"two nodes on one BMC do not mix", checkTwoNodes},
		{"a node with other credentials is not let in by the first one's session", checkTwoAccounts},
		{"two machines behind one BMC do not mix", checkTwoMachines},
		{"a thousand nodes leave no socket behind", checkSockets},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, start(t)) })
	}
	wait("a BMC that hangs holds up no caller", func(t *testing.T) { checkHang(t, start(t)) })
	wait("a silent BMC is unreachable", func(t *testing.T) { checkSilence(t, start(t)) })
	wait("a refused login is not tried again", func(t *testing.T) { checkDenied(t, start(t)) })
	wait("each request of each command may come to grief", func(t *testing.T) { checkMishaps(t, start) })
	wait("logins that are refused after some were taken rest", func(t *testing.T) { checkRefusedLater(t, start) })
	wait("a BMC that has started again is logged in to again", func(t *testing.T) { checkRestarted(t, start(t)) })
	t.Run("media verified by TLS", func(t *testing.T) { checkMediaTrust(t, start) })
	for _, o := range orders {
		t.Run(o.name+" asks the fence", func(t *testing.T) { checkFence(t, start, o) })
		t.Run(o.name+" asks the fence after its reads", func(t *testing.T) { checkLateFence(t, start(t), o) })
		if o.done != nil {
			wait(o.name+" with a lost answer is unknown", func(t *testing.T) { checkLost(t, start(t), o) })
		}
	}
}

// soon bounds a call that is expected to succeed, and promptly one whose context has ended.
const (
	soon     = 30 * time.Second
	promptly = 5 * time.Second
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	return ctx
}

// failing checks an error of each kind of call: of what class it is, and that it tells no secret.
func failing(t *testing.T, m *Machine, what string, err, want error) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: no error, want %v", what, want)
	case want != nil && !errors.Is(err, want):
		t.Errorf("%s: %v; want %v", what, err, want)
	}
	told(t, m, what, err)
}

// told checks the text of an error, if there is one.
func told(t *testing.T, m *Machine, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, driver.ErrFenced) {
		return
	}
	text := err.Error()
	if m.Secret != "" && strings.Contains(text, m.Secret) {
		t.Errorf("%s: the error holds the password: %s", what, text)
	}
	if n := strings.Count(text, m.Node.UUID); n != 1 {
		t.Errorf("%s: the error names the node %d times, want once: %s", what, n, text)
	}
	if strings.ContainsAny(text, "\r\n\x1b") || len(text) > 2000 {
		t.Errorf("%s: the error is not one line of text: %q", what, text)
	}
}

// must ends the check if a call failed.
func must(t *testing.T, m *Machine, what string, err error) {
	t.Helper()
	if err != nil {
		told(t, m, what, err)
		t.Fatalf("%s: %v", what, err)
	}
}

// settled waits until an order's effect is there.
func settled(t *testing.T, m *Machine, o order) {
	t.Helper()
	ctx := within(t)
	for {
		done, err := o.done(ctx, m)
		must(t, m, "reading after "+o.name, err)
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: its effect cannot be read", o.name)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// give gives an order and waits for its effect.
func give(t *testing.T, m *Machine, o order) {
	t.Helper()
	must(t, m, o.name, o.give(within(t), &Fence{}, m))
	settled(t, m, o)
}

// writes runs do and checks how many orders it makes.
func writes(t *testing.T, m *Machine, what string, want int, do func()) {
	t.Helper()
	before := m.Writes()
	do()
	if got := m.Writes() - before; got != want {
		t.Errorf("%s: %d writes reached the machine, want %d", what, got, want)
	}
}

func checkFields(t *testing.T, m *Machine) {
	interfaces := []driver.Interface{m.Power}
	if m.Management != nil {
		interfaces = append(interfaces, m.Management)
	}
	for _, i := range interfaces {
		must(t, m, "Validate", i.Validate(m.Node))
		if _, fixed := i.(driver.FixedBootOrder); !fixed && len(i.Properties()) == 0 {
			t.Error("no field of driver_info is described")
		}
		for field, text := range i.Properties() {
			if text == "" {
				t.Errorf("field %s is not described", field)
			}
			if len(m.Node.DriverInfo) > 0 && m.Secret != "" {
				bare := *m.Node
				bare.DriverInfo = nil
				failing(t, m, "Validate without driver_info", i.Validate(&bare), driver.ErrInvalid)
			}
		}
	}
	if m.Logins != nil && m.Logins() > 0 {
		t.Error("Validate asked the BMC")
	}
}

func checkTargets(t *testing.T, m *Machine) {
	final := map[driver.PowerState]driver.PowerState{driver.PowerOn: driver.PowerOn, driver.Rebooting: driver.PowerOn, driver.SoftReboot: driver.PowerOn,
		driver.PowerOff: driver.PowerOff, driver.SoftPowerOff: driver.PowerOff}
	targets := m.Power.PowerTargets()
	for _, needed := range []driver.PowerState{driver.PowerOn, driver.PowerOff} {
		if there := slices.Contains(targets, needed); there == (m.OneWay && needed == driver.PowerOff) {
			t.Errorf("%q is among the targets %v: %t", needed, targets, there)
		}
	}
	for target := range final {
		if !slices.Contains(targets, target) {
			writes(t, m, string(target), 0, func() {
				failing(t, m, string(target), m.Power.SetPower(within(t), &Fence{}, m.Node, target), driver.ErrUnsupported)
			})
		}
	}
	for _, target := range targets {
		give(t, m, switchTo(driver.PowerOn, driver.PowerOn))
		if final[target] == "" {
			t.Errorf("%q is no power target", target)
			continue
		}
		give(t, m, switchTo(target, final[target]))
	}
}

func checkRebootOfOff(t *testing.T, m *Machine) {
	m.known(t)
	for _, target := range []driver.PowerState{driver.Rebooting, driver.SoftReboot} {
		if !slices.Contains(m.Power.PowerTargets(), target) {
			continue
		}
		give(t, m, switchTo(driver.PowerOff, driver.PowerOff))
		writes(t, m, string(target), 1, func() { give(t, m, switchTo(target, driver.PowerOn)) })
	}
}

func checkPresentState(t *testing.T, m *Machine) {
	m.known(t)
	still := func(o order) {
		t.Helper()
		writes(t, m, o.name+" again", 0, func() { give(t, m, o) })
	}
	still(switchTo(driver.PowerOff, driver.PowerOff))
	if slices.Contains(m.Power.PowerTargets(), driver.SoftPowerOff) {
		still(switchTo(driver.SoftPowerOff, driver.PowerOff))
	}
	give(t, m, switchTo(driver.PowerOn, driver.PowerOn))
	still(switchTo(driver.PowerOn, driver.PowerOn))
	if m.Management == nil || m.fixed() {
		return
	}
	for _, o := range []order{bootFrom(driver.BootPXE, true), bootFrom(driver.BootDisk, false)} {
		give(t, m, o)
		still(o)
	}
	mode, err := m.Management.BootMode(within(t), m.Node)
	if errors.Is(err, driver.ErrUnsupported) {
		return
	}
	must(t, m, "BootMode", err)
	writes(t, m, "SetBootMode "+mode, 0, func() {
		must(t, m, "SetBootMode "+mode, m.Management.SetBootMode(within(t), &Fence{}, m.Node, mode))
	})
}

func checkBootDevice(t *testing.T, m *Machine) {
	if m.Management == nil {
		t.Skip(m.Without["Management"])
	}
	list, err := m.Management.SupportedBootDevices(within(t), m.Node)
	must(t, m, "SupportedBootDevices", err)
	for _, device := range []driver.BootDevice{driver.BootPXE, driver.BootDisk} {
		if !slices.Contains(list, device) {
			t.Errorf("%s is not among the boot devices %v", device, list)
		}
	}
	if m.fixed() {
		return
	}
	for _, device := range list {
		for _, persistent := range []bool{false, true} {
			give(t, m, bootFrom(device, persistent))
		}
	}
}

func checkUnknownWords(t *testing.T, m *Machine) {
	words := map[string]func(f driver.Fence) error{
		"power target":  func(f driver.Fence) error { return m.Power.SetPower(within(t), f, m.Node, "power sideways") },
		"reported word": func(f driver.Fence) error { return m.Power.SetPower(within(t), f, m.Node, driver.PowerError) },
	}
	if m.Management != nil {
		words["boot device"] = func(f driver.Fence) error {
			return m.Management.SetBootDevice(within(t), f, m.Node, "punched tape", false)
		}
		words["boot mode"] = func(f driver.Fence) error { return m.Management.SetBootMode(within(t), f, m.Node, "openfirmware") }
		words["no boot mode"] = func(f driver.Fence) error { return m.Management.SetBootMode(within(t), f, m.Node, "") }
	}
	for what, do := range words {
		writes(t, m, what, 0, func() {
			err := do(&Fence{})
			failing(t, m, what, err, nil)
			if !errors.Is(err, driver.ErrUnsupported) && !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: %v; want ErrUnsupported or ErrInvalid", what, err)
			}
		})
	}
}

// calls are one read and one write of each interface.
func calls(m *Machine) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"PowerState": func(ctx context.Context) error { _, err := m.Power.PowerState(ctx, m.Node); return err },
	}
	if m.Management != nil && !m.fixed() {
		all["BootDevice"] = func(ctx context.Context) error { _, err := m.Management.BootDevice(ctx, m.Node); return err }
	}
	for _, o := range orders {
		if o.managed && (m.Management == nil || m.fixed()) {
			continue
		}
		all[o.name] = func(ctx context.Context) error { return o.give(ctx, &Fence{}, m) }
	}
	return all
}

func checkContexts(t *testing.T, m *Machine) {
	for name, call := range calls(m) {
		writes(t, m, name, 0, func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := call(ctx)
			failing(t, m, name, err, nil)
			if errors.Is(err, driver.ErrUnknown) {
				t.Errorf("%s: %v: nothing was written", name, err)
			}
		})
	}
}

func checkHang(t *testing.T, m *Machine) {
	if m.Hang == nil {
		t.Skip(m.Without["Hang"])
	}
	m.Hang()
	for name, call := range calls(m) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(began); took > promptly {
			t.Errorf("%s took %s, and its context had ended after 200 ms", name, took)
		}
		failing(t, m, name, err, driver.ErrUnreachable)
	}
}

func checkSilence(t *testing.T, m *Machine) {
	if m.Silence == nil {
		t.Skip(m.Without["Silence"])
	}
	m.Silence()
	for name, call := range calls(m) {
		err := call(within(t))
		failing(t, m, name, err, driver.ErrUnreachable)
		if errors.Is(err, driver.ErrUnknown) {
			t.Errorf("%s: %v: nothing was written", name, err)
		}
	}
}

func checkDenied(t *testing.T, m *Machine) {
	if m.Deny == nil {
		t.Skip(m.Without["Deny"])
	}
	_, err := m.Power.PowerState(within(t), m.Node)
	must(t, m, "PowerState", err)
	m.Deny()
	for range 3 {
		for name, call := range calls(m) {
			failing(t, m, name, call(within(t)), driver.ErrDenied)
		}
	}
	// The session that was open may be refused, and then the credentials.
	if n := m.Logins(); n > 1 {
		t.Errorf("the credentials were tried %d times, want once: BMCs lock accounts", n)
	}
	m.Node = m.Corrected()
	_, err = m.Power.PowerState(within(t), m.Node)
	must(t, m, "PowerState with other credentials", err)
}

func checkAtOnce(t *testing.T, m *Machine) {
	if m.Deny == nil {
		t.Skip(m.Without["Deny"])
	}
	m.Deny()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := m.Power.PowerState(within(t), m.Node)
			failing(t, m, "PowerState", err, driver.ErrDenied)
		})
	}
	all.Wait()
	if n := m.Logins(); n > 1 {
		t.Errorf("the credentials were tried %d times, want once", n)
	}
}

// mostChecks bounds how often an order may ask the fence.
const mostChecks = 20

// checkFence takes the node away after each number of checks. A refused order writes nothing, and returns the fence's own error.
func checkFence(t *testing.T, start func(t *testing.T) *Machine, o order) {
	for passed := range mostChecks {
		m, f := start(t), &Fence{}
		o.missing(t, m)
		f.LoseAfter(passed)
		err := o.give(within(t), f, m)
		if err == nil {
			if passed == 0 {
				t.Errorf("it did not ask the fence")
			}
			return
		}
		if !errors.Is(err, driver.ErrFenced) || err.Error() != f.Check().Error() {
			t.Errorf("after %d checks: %v; want the fence's own error", passed, err)
		}
		if n := m.Writes(); n != 0 {
			t.Errorf("after %d checks: %d writes reached the machine of another rackd", passed, n)
		}
	}
	t.Errorf("it asks the fence more than %d times", mostChecks)
}

func checkLateFence(t *testing.T, m *Machine, o order) {
	o.missing(t, m)
	if m.WhileRead == nil {
		t.Skip(m.Without["WhileRead"])
	}
	f := &Fence{}
	m.WhileRead(f.Lose)
	if err := o.give(within(t), f, m); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("%v; want ErrFenced", err)
	}
	if n := m.Writes(); n != 0 {
		t.Errorf("%d writes reached the machine of another rackd", n)
	}
}

// checkLost loses the answer of an order. Its caller reads back, or repeats it: neither writes a second time.
func checkLost(t *testing.T, m *Machine, o order) {
	o.missing(t, m)
	if m.Lose == nil {
		t.Skip(m.Without["Lose"])
	}
	if o.managed && m.Deferred {
		t.Skip("its boot devices are kept with the node: no answer of the machine can be lost")
	}
	m.Lose()
	failing(t, m, o.name, o.give(within(t), &Fence{}, m), driver.ErrUnknown)
	settled(t, m, o)
	if n := m.Writes(); n != 1 {
		t.Errorf("%d writes reached the machine, want 1", n)
	}
	if strings.HasSuffix(o.name, string(driver.Rebooting)) {
		return // a second reboot is another one
	}
	writes(t, m, o.name+" again", 0, func() { give(t, m, o) })
}
