package drivertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Rig is one machine with its BMC, its agent and the rack around it. It notes
// each write in order. Safe for concurrent use; a test sets fields before it runs
// steps.
type Rig struct {
	Fence
	Node *node.Document
	// Fail returns the error of a call: set_power, power_state, set_boot_device, boot_mode, set_boot_mode,
	// start <command>, command, commands, prepare_image, save. Nil: no call fails.
	Fail func(call string) error
	// Answer returns the result of a command that has ended, or its failure; a
	// command is running until it is asked for Runs times.
	Answer func(name string) (result any, failure string)
	Runs   int
	// Fault is the type of the failures that Answer returns.
	Fault string
	// OwnIDs: the agent gives its commands ids of its own, and answers a second start of
	// one with another command, or that it is busy.
	OwnIDs bool
	// Stuck machines accept power requests and stay as they are.
	Stuck bool
	// Secure is whether secure boot is on. NoSecure: the machine has none; DeafSecure: its BMC takes the order and
	// does nothing.
	Secure, NoSecure, DeafSecure bool
	// Targets are those of the power interface; none: on and off.
	Targets []driver.PowerState
	// Mode is the boot mode that the BMC shows.
	Mode string
	// Deploy is the node's deploy interface; nil: one that does nothing.
	Deploy driver.Interface
	// NoBoot: machines that are switched on do not bring up an agent.
	NoBoot bool

	// Keeps is what the management interface keeps of the node; nil: nothing.
	Keeps func() json.RawMessage

	mu       sync.Mutex
	state    driver.PowerState
	Log      []string // writes, in order
	Phases   []string
	handle   json.RawMessage
	called   time.Time // the agent's last heartbeat
	commands map[string]*command
	given    []string // their ids, in order
	Inv      *agentapi.Inventory
	Observed hardware.Observation
	Progress agentapi.Progress
	Busy     []string // what the BMC told of its work since it was idle
	Told     int      // how often a step told that its BMC is busy, or idle
	facts    map[string]string
	// secrets are those that steps replace; sure: the BMC takes them.
	secrets map[string]string
	clears  map[string][]string
	sure    map[string]bool
}

type command struct {
	agentapi.Command
	asked int
}

// NewRig returns a machine that is off and boots in UEFI mode.
func NewRig() *Rig {
	return &Rig{Node: &node.Document{UUID: "5f0c", Name: "web1", Ports: []node.Port{{Address: "52:54:00:00:00:01", PXEEnabled: true}}},
		state: driver.PowerOff, Mode: "uefi", commands: map[string]*command{}, facts: map[string]string{},
		secrets: map[string]string{}, clears: map[string][]string{}, sure: map[string]bool{}}
}

// Task is a task on the machine under boot, which may be nil for a machine of a type without one, as a new owner of the work has it:
// what earlier tasks kept is there.
func (r *Rig) Task(boot driver.Interface) *driver.Task {
	var deploy driver.Interface = noImplementation{}
	if r.Deploy != nil {
		deploy = r.Deploy
	}
	interfaces := map[string][]driver.Named{"power": {{Name: "rig", Impl: rigPower{r}}}, "management": {{Name: "rig", Impl: rigManagement{r}}},
		"deploy": {{Name: "rig", Impl: deploy}}}
	if boot != nil {
		interfaces["boot"] = []driver.Named{{Name: "rig", Impl: boot}}
	}
	reg, err := driver.NewRegistry(driver.Type{Name: "rig", Interfaces: interfaces})
	if err != nil {
		panic(err)
	}
	r.Node.Driver = "rig"
	hw, err := reg.Resolve(r.Node)
	if err != nil {
		panic(err)
	}
	return &driver.Task{Node: r.Node, Hardware: hw, Fence: r, WorkID: "w1", Entered: time.Now(), Agent: rigAgent{r}, Images: r, Record: rigRecord{r}, Secrets: rigSecrets{r},
		ConfigDrive: func(context.Context) (string, error) { return "ZHJpdmU=", nil }, Facts: r.facts}
}

// NextStep forgets the step's handle, as a conductor does between steps.
func (r *Rig) NextStep() { r.mu.Lock(); defer r.mu.Unlock(); r.handle = nil }

// HandleText is the step's handle.
func (r *Rig) HandleText() string { r.mu.Lock(); defer r.mu.Unlock(); return string(r.handle) }

// SetPowerState puts the machine into a state.
func (r *Rig) SetPowerState(s driver.PowerState) { r.mu.Lock(); defer r.mu.Unlock(); r.state = s }

// NextBoot has the machine come up in the ramdisk, as if it had been slow to.
func (r *Rig) NextBoot() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.called = driver.PowerOn, time.Now()
}

// RebootAgent makes the agent forget its commands.
func (r *Rig) RebootAgent() { r.mu.Lock(); defer r.mu.Unlock(); clear(r.commands); r.given = nil }

// Writes returns the writes so far that start with prefix.
func (r *Rig) Writes(prefix string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.Log {
		if strings.HasPrefix(w, prefix) {
			out = append(out, w)
		}
	}
	return out
}

func (r *Rig) fail(call string) error {
	if r.Fail == nil {
		return nil
	}
	return r.Fail(call)
}

// write notes a write behind the fence.
func (r *Rig) write(f driver.Fence, what string) error {
	if err := f.Check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Log = append(r.Log, what)
	return nil
}

// Prepare implements driver.Images.
func (r *Rig) Prepare(_ context.Context, src driver.ImageSource) ([]string, error) {
	return []string{"http://rack/images/" + src.ID(), "http://neighbour/images/" + src.ID()}, r.fail("prepare_image")
}

// PrepareDisk implements driver.Images. What is declared is believed.
func (r *Rig) PrepareDisk(ctx context.Context, src driver.ImageSource) (driver.DiskImage, error) {
	urls, err := r.Prepare(ctx, src)
	i := driver.DiskImage{URLs: urls, HashAlgo: src.HashAlgo, HashValue: src.HashValue, Format: cmp.Or(src.Format, "raw"), Compression: src.Compression, Receipt: "receipt"}
	if i.Compression == driver.NotCompressed {
		i.Compression = ""
	}
	return i, err
}

// Verify implements driver.Images.
func (r *Rig) Verify(context.Context, driver.ImageSource) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Log = append(r.Log, "verify image")
	return false, nil
}

// Latest implements driver.Images.
func (r *Rig) Latest(_ context.Context, url string) (string, error) {
	return "id of " + url, r.fail("latest " + url)
}

type noImplementation struct{}

func (noImplementation) Properties() map[string]string              { return nil }
func (noImplementation) Validate(*node.Document) error              { return nil }
func (noImplementation) DeploySteps(*node.Document) []driver.Step   { return nil }
func (noImplementation) TearDownSteps(*node.Document) []driver.Step { return nil }

type rigPower struct{ r *Rig }

func (rigPower) Properties() map[string]string { return nil }
func (rigPower) Validate(*node.Document) error { return nil }
func (p rigPower) PowerTargets() []driver.PowerState {
	if len(p.r.Targets) > 0 {
		return p.r.Targets
	}
	return []driver.PowerState{driver.PowerOn, driver.PowerOff}
}
func (p rigPower) PowerState(context.Context, *node.Document) (driver.PowerState, error) {
	p.r.mu.Lock()
	s := p.r.state
	p.r.mu.Unlock()
	return s, p.r.fail("power_state")
}

func (p rigPower) SetPower(_ context.Context, f driver.Fence, _ *node.Document, target driver.PowerState) error {
	r := p.r
	r.mu.Lock()
	same := r.state == target
	r.mu.Unlock()
	if same {
		return nil
	}
	if err := r.write(f, "power "+string(target)); err != nil {
		return err
	}
	err := r.fail("set_power")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Stuck {
		return err
	}
	if r.state = target; target == driver.PowerOff {
		clear(r.commands)
		r.given = nil
		return err
	}
	r.state = driver.PowerOn
	if !r.NoBoot && r.facts[driver.FactBoot] == driver.BootRamdisk {
		r.called = time.Now()
	}
	return err
}

type rigManagement struct{ r *Rig }

func (rigManagement) Properties() map[string]string { return nil }
func (rigManagement) Validate(*node.Document) error { return nil }
func (rigManagement) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return []driver.BootDevice{driver.BootPXE, driver.BootDisk}, nil
}
func (rigManagement) BootDevice(context.Context, *node.Document) (ask.BootDevice, error) {
	return ask.BootDevice{}, nil
}
func (m rigManagement) SetBootDevice(_ context.Context, f driver.Fence, _ *node.Document, d driver.BootDevice, persistent bool) error {
	if err := m.r.write(f, fmt.Sprintf("boot %s %v", d, persistent)); err != nil {
		return err
	}
	return m.r.fail("set_boot_device")
}
func (m rigManagement) BootMode(context.Context, *node.Document) (string, error) {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	return m.r.Mode, m.r.fail("boot_mode")
}
func (m rigManagement) SetBootMode(_ context.Context, f driver.Fence, _ *node.Document, mode string) error {
	if err := m.r.fail("set_boot_mode"); err != nil {
		return err
	}
	if err := m.r.write(f, "mode "+mode); err != nil {
		return err
	}
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	m.r.Mode = mode
	return nil
}
func (m rigManagement) SecureBoot(context.Context, *node.Document) (bool, error) {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	if m.r.NoSecure {
		return false, driver.ErrUnsupported
	}
	return m.r.Secure, m.r.fail("secure_boot")
}
func (m rigManagement) SetSecureBoot(ctx context.Context, f driver.Fence, n *node.Document, on bool) error {
	if is, err := m.SecureBoot(ctx, n); err != nil || is == on {
		return err
	}
	if err := m.r.write(f, fmt.Sprintf("secure boot %t", on)); err != nil {
		return err
	}
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	m.r.Secure = on != m.r.DeafSecure
	return m.r.fail("set_secure_boot")
}

// Kept implements driver.Keeper.
func (m rigManagement) Kept(*node.Document) json.RawMessage {
	if m.r.Keeps == nil {
		return nil
	}
	return m.r.Keeps()
}

func (rigManagement) Identity(context.Context, *node.Document) (driver.Identity, error) {
	return driver.Identity{}, driver.ErrUnsupported
}
func (rigManagement) InjectNMI(context.Context, driver.Fence, *node.Document) error {
	return driver.ErrUnsupported
}

type rigRecord struct{ r *Rig }

func (k rigRecord) Handle() json.RawMessage {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	return k.r.handle
}

func (k rigRecord) SaveHandle(_ context.Context, handle any) error {
	if err := k.r.fail("save"); err != nil {
		return err
	}
	raw, err := json.Marshal(handle)
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.r.handle = raw
	return err
}

func (k rigRecord) Now() time.Time { return time.Now().UTC() }

func (k rigRecord) AgentGone() {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.r.called = time.Time{}
}

func (k rigRecord) Phase(name, detail string) {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.r.Phases = append(k.r.Phases, name+": "+detail)
}

func (k rigRecord) Progress(p agentapi.Progress) {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.r.Progress = p
}

func (k rigRecord) Observe(o hardware.Observation) {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.r.Observed.Merge(o)
}

func (k rigRecord) Busy(far string) {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.r.Busy, k.r.Told = append(k.r.Busy, far), k.r.Told+1
}

func (k rigRecord) ChildBusy(_, far string) { k.Busy(far) }

func (k rigRecord) Idle() {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.r.Busy, k.r.Told = nil, k.r.Told+1
}

func (k rigRecord) Inventory(inv agentapi.Inventory) {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.r.Inv = &inv
}

type rigAgent struct{ r *Rig }

func (a rigAgent) Booted(since time.Time) bool {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	return !a.r.called.IsZero() && !a.r.called.Before(since)
}

func (rigAgent) Host() string { return "127.0.0.1" }

func (a rigAgent) Start(_ context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return agentapi.Command{}, err
	}
	if err := f.Check(); err != nil {
		return agentapi.Command{}, err
	}
	if err := a.r.fail("start " + name); err != nil {
		return agentapi.Command{}, err
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if c := a.r.commands[id]; c != nil {
		return c.Command, nil
	}
	if n := len(a.r.given); a.r.OwnIDs && n > 0 && a.r.commands[a.r.given[n-1]].Status == agentapi.CommandRunning {
		return agentapi.Command{}, errors.New("the agent is busy")
	}
	a.r.Log = append(a.r.Log, "agent "+name+" "+string(raw))
	if a.r.OwnIDs {
		id = fmt.Sprintf("own-%d", len(a.r.commands))
	}
	c := &command{Command: agentapi.Command{ID: id, Name: name, Status: agentapi.CommandRunning}}
	a.r.commands[id] = c
	a.r.given = append(a.r.given, id)
	a.r.end(c)
	return c.Command, nil
}

// end ends c when it was asked for often enough.
func (r *Rig) end(c *command) {
	if c.asked < r.Runs {
		c.Progress = &agentapi.Progress{DoneBytes: int64(c.asked + 1), TotalBytes: int64(r.Runs + 1)}
		return
	}
	var result any
	failure := ""
	if r.Answer != nil {
		result, failure = r.Answer(c.Name)
	}
	if c.Status = agentapi.CommandSucceeded; failure != "" {
		c.Status, c.Error = agentapi.CommandFailed, &agentapi.CommandError{Type: r.Fault, Message: "failed", Details: failure}
		return
	}
	c.Result, _ = json.Marshal(result)
}

func (a rigAgent) Command(_ context.Context, id string) (agentapi.Command, bool, error) {
	if err := a.r.fail("command"); err != nil {
		return agentapi.Command{}, false, err
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	c := a.r.commands[id]
	if c == nil {
		return agentapi.Command{}, false, nil
	}
	c.asked++
	a.r.end(c)
	return c.Command, true, nil
}

func (a rigAgent) Commands(context.Context) (list []agentapi.Command, err error) {
	if err := a.r.fail("commands"); err != nil {
		return nil, err
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	for _, id := range a.r.given {
		c := *a.r.commands[id]
		if _, short, dotted := strings.Cut(c.Name, "."); dotted && a.r.OwnIDs {
			c.Name = short
		}
		list = append(list, c.Command)
	}
	return list, nil
}

func (a rigAgent) Call(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	c, err := a.Start(ctx, f, id, name, params)
	for err == nil && c.Status == agentapi.CommandRunning {
		c, _, err = a.Command(ctx, c.ID)
	}
	if err != nil {
		return c, err
	}
	return c, driver.CommandFailure(c)
}
