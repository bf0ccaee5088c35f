// Package driver is the contract between the conductor and the hardware: Ironic's
// interfaces of a hardware type, the steps they contribute, and the registry of
// hardware types.
//
// It may import protocol only. Implementations live in one folder each below this
// one and import this package; the conductor imports this package and never an
// implementation. Adding one is a new folder and one line in rackd/drivers.
//
// Rules for implementations:
//   - All methods may be called from several goroutines, for different nodes.
//   - Every call honours its context and has a timeout of its own.
//   - Before each write to a BMC or an agent, and once more before each retry of
//     it, Fence.Check is called; its error is returned unchanged.
//   - A write whose outcome is not known returns an error that wraps ErrUnknown;
//     the caller reads back before it does anything else.
//   - A write reads first, and what is already so is not written. A reboot of a machine that is off switches it on.
//   - drivertest.Conformance holds power and management interfaces to these rules; rackd/driver/bmc keeps most of them
//     for drivers of BMCs.
//   - The node document is read-only and its secrets are open: never log it.
package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/driverinfo"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
)

// Sentinel errors of implementations; wrap them with what was tried and what came back.
var (
	// ErrUnsupported: the hardware or the implementation cannot do it.
	ErrUnsupported = errors.New("not supported")
	// ErrInvalid: the node's fields are missing or wrong; an operator must act.
	ErrInvalid = errors.New("invalid parameters")
	// ErrUnknown: a write may or may not have taken effect; read back.
	ErrUnknown = errors.New("outcome unknown")
	// ErrUnreachable: the BMC or agent does not answer; trying again may help.
	ErrUnreachable = errors.New("unreachable")
	// ErrBusy: the agent still runs another command, and has refused this one.
	ErrBusy = errors.New("busy")
	// ErrAwaited: something that another program is to bring is not there yet. The step is run again until it
	// is, for as long as the node's state may last.
	ErrAwaited = errors.New("not there yet")
	// ErrDenied: the credentials are refused; trying again does not help.
	ErrDenied = errors.New("credentials refused")
	// ErrFenced: the lease or the epoch is no longer ours; stop at once.
	ErrFenced = errors.New("no longer the owner of this node")
	// ErrContinued comes with ErrFenced: this rackd has the node, and another request goes on with the flow. Its step has a fence of its own.
	ErrContinued = errors.New("another request goes on with the flow here")
)

// UnsupportedError says that a hardware type cannot do what it is asked with the
// interfaces that a node has. It is an ErrUnsupported.
type UnsupportedError struct {
	Driver, What string
	// Kind of interface of which another implementation may do it; Node, both may be empty.
	Kind, Node string
}

// Error begins with the sentence that Ironic has for it, which clients look for.
func (e *UnsupportedError) Error() string {
	text := fmt.Sprintf("Driver %s does not support %s (disabled or not implemented).", e.Driver, e.What)
	if e.Node != "" {
		text += fmt.Sprintf(" For node %s, another %s_interface may.", e.Node, e.Kind)
	}
	return text
}

// Is makes errors.Is find ErrUnsupported.
func (*UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Unsupported returns an *UnsupportedError for n and one of its interfaces.
func Unsupported(n *node.Document, kind, what string) error {
	return &UnsupportedError{Driver: n.Driver, What: what, Kind: kind, Node: n.Label()}
}

// RefusedError is an ErrInvalid whose text is Ironic's own, which clients read.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// Is makes errors.Is find ErrInvalid.
func (*RefusedError) Is(target error) bool { return target == ErrInvalid }

// Refuse returns a *RefusedError.
func Refuse(format string, args ...any) error {
	return &RefusedError{driverinfo.OneLine(fmt.Sprintf(format, args...))}
}

// Fence says whether its holder still owns the node.
type Fence interface {
	// Check returns nil, or an error that wraps ErrFenced. It asks the bus, so that it takes a
	// round trip there, and some seconds while the bus is silent: call it without locks.
	Check() error
	// Work is the id of the work and Epoch its epoch, for the records of BMC and
	// agent; empty and 0 outside of work.
	Work() string
	Epoch() uint64
}

// Interface is what every implementation of every kind can do.
type Interface interface {
	// Properties names the fields of the node it reads, with a sentence on each.
	Properties() map[string]string
	// Validate looks at the node's fields only; it wraps ErrInvalid and never
	// touches the hardware.
	Validate(n *node.Document) error
}

// PowerState is what a BMC reports.
type PowerState string

// Power states and, with the rest, power targets (Ironic's words).
const (
	PowerOn      PowerState = "power on"
	PowerOff     PowerState = "power off"
	PowerError   PowerState = "error"
	Rebooting    PowerState = "rebooting"
	SoftReboot   PowerState = "soft rebooting"
	SoftPowerOff PowerState = "soft power off"
)

// Power switches a machine on and off.
type Power interface {
	Interface
	// PowerState is empty where nothing tells it: the power interface then knows no PowerOff (Hardware.Can).
	PowerState(ctx context.Context, n *node.Document) (PowerState, error)
	// SetPower asks for target and returns once the BMC has accepted it; the
	// caller polls PowerState. Asking for the state the machine is in does nothing.
	SetPower(ctx context.Context, f Fence, n *node.Document, target PowerState) error
	// PowerTargets lists the supported targets. Others are refused with ErrUnsupported.
	PowerTargets() []PowerState
}

// Accounted is implemented by power interfaces that log in to BMCs: nodes that share
// a BMC share its account, and failed attempts count together.
type Accounted interface {
	// Account names the BMC and the credentials that n is reached with. It changes
	// with each of them and tells none; it is empty when n names none.
	Account(n *node.Document) string
}

// ByPorts is implemented by power interfaces that find a machine by the addresses of its node's ports. Nodes with the same driver_info
// are of several machines then.
type ByPorts interface{ ByPorts() bool }

// BootDevice of Ironic's list: pxe, disk, cdrom, bios, safe, wanboot, iscsiboot, floppy, uefihttp.
type BootDevice string

// The devices that flows set. BootHTTP is UEFI HTTP: of a URL that the firmware was given, or else of the one that DHCP tells.
const (
	BootPXE  BootDevice = "pxe"
	BootDisk BootDevice = "disk"
	BootHTTP BootDevice = "uefihttp"
	// BootUSB is a USB stick: the drive that a machine boots from whose BMC has none of a CD. Ironic has no name for it.
	BootUSB BootDevice = "usb"
)

// Identity is what the BMC knows of its machine. SKU may hold what the machine itself calls its
// serial number.
type Identity struct {
	UUID, Manufacturer, Model, Serial, SKU string
}

// Management does what is neither power nor boot.
type Management interface {
	Interface
	SupportedBootDevices(ctx context.Context, n *node.Document) ([]BootDevice, error)
	BootDevice(ctx context.Context, n *node.Document) (ask.BootDevice, error)
	SetBootDevice(ctx context.Context, f Fence, n *node.Document, d BootDevice, persistent bool) error
	// BootMode returns uefi or bios, or ErrUnsupported.
	BootMode(ctx context.Context, n *node.Document) (string, error)
	SetBootMode(ctx context.Context, f Fence, n *node.Document, mode string) error
	// Identity reads UUID, vendor, model, serial number and SKU, or ErrUnsupported.
	Identity(ctx context.Context, n *node.Document) (Identity, error)
	InjectNMI(ctx context.Context, f Fence, n *node.Document) error
}

// Boot makes a machine boot the ramdisk or its instance. Nothing is written per
// node: the conductor's netboot reads the task's facts.
type Boot interface {
	Interface
	// RamdiskOrder is what the node's machine is told when it asks the network what to boot, while a flow needs
	// its ramdisk; InstanceOrder while it has its instance. Both only look at the node and the work's facts,
	// which may be nil; they are made for each request. The node's state is that of its work.
	RamdiskOrder(n *node.Document, facts map[string]string) bootorder.Order
	InstanceOrder(n *node.Document, facts map[string]string) bootorder.Order
	PrepareRamdisk(ctx context.Context, t *Task) error
	// CleanUpRamdisk takes back what PrepareRamdisk did in this flow, and nothing that others did. Each flow that may
	// have prepared a boot ends with it; it may be called where nothing was prepared, and again.
	CleanUpRamdisk(ctx context.Context, t *Task) error
	PrepareInstance(ctx context.Context, t *Task) error
	// CleanUpInstance takes back what PrepareInstance did, in this flow or before: medium, volume, and a boot device that is one of
	// these. A machine that asks the network at each start goes on to do so, as in Ironic: it is told nothing there, and its disk, which
	// would be the device instead, may hold the instance until it is cleaned. It may be called where nothing was prepared, and again.
	CleanUpInstance(ctx context.Context, t *Task) error
}

// Deploy puts an instance on a machine and takes it off.
type Deploy interface {
	Interface
	// DeploySteps are the core of a deploy; its other steps are sorted in by priority.
	DeploySteps(n *node.Document) []Step
	TearDownSteps(n *node.Document) []Step
}

// InBand is implemented by deploy interfaces that boot a ramdisk whose agent runs
// steps. A deploy boots it by its DeploySteps, one of which Discovers.
type InBand interface {
	// Up boots the ramdisk for a cleaning or a service; its last step Discovers. Down
	// leaves the machine as the flow found it: off, or with its instance running. It has a
	// step: a list that ends with Up's is one of a rackd that did not know yet what follows.
	Up(n *node.Document, f Flows) []Step
	Down(n *node.Document, f Flows) []Step
	// Offered returns the agent's steps of a flow, from the facts that a step which
	// Discovers has left; ok is false before.
	Offered(facts map[string]string, f Flows) (steps []Step, ok bool, err error)
}

// Remembers is implemented by InBand deploy interfaces that keep on the node which steps its ramdisk's agent has.
type Remembers interface {
	// Remembered returns the names of the agent's steps of a flow, as interface.step. known is false where the ramdisk that
	// would run is none that has told them.
	Remembered(n *node.Document, f Flows) (names []string, known bool)
}

// AskedStep is a step of a request.
type AskedStep struct {
	Interface, Step string
	Args            map[string]any
	Priority        int // of deploy steps
	// OnChildren: run it on the nodes of which Children are the UUIDs instead.
	OnChildren bool
	Children   []string
	// Place in the request's list, counted from 1.
	Place int
}

// PCIDevice is a device of a machine, by the numbers of the PCI SIG.
type PCIDevice struct{ Vendor, Product uint16 }

// Inspect finds out what a machine is made of.
type Inspect interface {
	Interface
	InspectSteps(n *node.Document) []Step
}

// Rescuer boots a machine into a rescue system and back.
type Rescuer interface {
	Interface
	RescueSteps(n *node.Document) []Step
	UnrescueSteps(n *node.Document) []Step
}

// StepSource is any interface, of whatever kind, that contributes named out-of-band
// steps.
type StepSource interface {
	Interface
	// NamedSteps lists the steps that requests, templates and runbooks may name. Those
	// with a priority above 0 run by themselves, in automated cleaning, in deploys and
	// when a node is verified; one step may be listed once for each flow. What a step
	// is asked to do is in Task.Args.
	NamedSteps(n *node.Document) []Step
}
