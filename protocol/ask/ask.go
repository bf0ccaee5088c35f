// Package ask is how central asks a rackd something that is answered at once and is no
// work: validate a node, read or set its boot device, list what a driver needs; and
// how a rackd hands on what an agent or a machine told it about a node whose work
// another rackd runs. A question travels by NATS request to the rackd that the ring
// names, or that holds the work; what is handed on has subjects of its own, so that a
// rackd may do that and nothing else.
//
// It may import protocol packages. Questions are bounded by Timeout, and one that is older
// is never carried out (Clock); a rackd refuses one about a node that it does not own or that has open work, when the
// question would write to the BMC.
package ask

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/smbios"
	"github.com/ironyard/ironyard/protocol/work"
)

// Timeout bounds a question from asking to answer.
const Timeout = 20 * time.Second

// Method names a question.
type Method string

// The questions.
const (
	Validate             Method = "validate"               // Flow, or nothing → map[kind]Validation
	GetBootDevice        Method = "get_boot_device"        // → BootDevice
	SetBootDevice        Method = "set_boot_device"        // BootDevice →
	SupportedBootDevices Method = "supported_boot_devices" // → []string
	DriverProperties     Method = "driver_properties"      // Driver set → map[string]string
	InjectNMI            Method = "inject_nmi"
	Console              Method = "console"         // → map[string]any
	ReadConsole          Method = "read_console"    // ConsoleRead → ConsoleOutput
	WriteConsole         Method = "write_console"   // ConsoleInput →
	OpenViewer           Method = "open_viewer"     // Viewer →
	ReadViewer           Method = "read_viewer"     // ViewerRead → ViewerOutput
	WriteViewer          Method = "write_viewer"    // ViewerInput →
	CloseViewer          Method = "close_viewer"    // Viewer →
	Indicators           Method = "indicators"      // → []hardware.Indicator
	GetIndicator         Method = "get_indicator"   // Indicator → Indicator
	SetIndicator         Method = "set_indicator"   // Indicator →
	VirtualMedia         Method = "virtual_media"   // → []hardware.Media
	CheckRAID            Method = "check_raid"      // map[string]any →
	RAIDProperties       Method = "raid_properties" // Driver set → map[string]string
	CheckChange          Method = "check_change"    // work.Change, no vendor call →
	VendorMethods        Method = "vendor_methods"  // → map[string]VendorMethod
	CallVendor           Method = "call_vendor"     // VendorCall → VendorReply
	DriverVendorMethods  Method = "driver_methods"  // Driver set → map[string]VendorMethod
	CallDriver           Method = "call_driver"     // Driver set; VendorCall → VendorReply
	GetBootScript        Method = "boot_script"     // BootScript → string
)

// What an agent that talks to central says; the rackd that runs the node's work answers,
// from memory.
const (
	RamdiskLookup    Method = "ramdisk_lookup"    // Lookup → agentapi.LookupReply
	RamdiskHeartbeat Method = "ramdisk_heartbeat" // agentapi.Heartbeat →
	RamdiskInspected Method = "ramdisk_inspected" // Inspected →
)

// What rackds hand on to the one that runs a node's work. It is answered from memory.
const (
	AgentLookup    Method = "agent_lookup"    // Lookup → agentapi.LookupReply
	AgentHeartbeat Method = "agent_heartbeat" // Heartbeat →
	MachineSeen    Method = "machine_seen"    // Sign → (no reply)
)

// HandedOn reports whether m is handed on by rackds, rather than asked by central.
func (m Method) HandedOn() bool { return m == AgentLookup || m == AgentHeartbeat || m == MachineSeen }

// HandOnTimeout bounds what is handed on, from sending to answer.
const HandOnTimeout = 3 * time.Second

// Lookup is what an agent asked: which node has these addresses.
type Lookup struct {
	Addresses []string `json:"addresses,omitempty"`
	Node      string   `json:"node,omitempty"`
	Caller
	// System is the machine that the agent runs on, as its firmware says.
	System smbios.System `json:"system,omitzero"`
}

// Caller is what shows that a call comes from the machine that a rackd has booted.
type Caller struct {
	// BootID is the id in the URL that the call came to; empty: there was none.
	BootID string `json:"boot_id,omitempty"`
	// From is the address of the peer. Through central that may be a proxy's: an address that
	// a node's machine was given speaks for the caller then, and no other against it.
	From    netip.Addr `json:"from,omitzero"`
	Central bool       `json:"central,omitempty"`
}

// Heartbeat is a heartbeat, and where it came from.
type Heartbeat struct {
	agentapi.Heartbeat
	Caller
}

// Inspected is an inventory that a ramdisk has sent of its own accord.
type Inspected struct {
	agentapi.Inventory
	Caller
}

// SignVolume is the phase of a sign that says that a machine has not booted its volume.
const SignVolume = "volume"

// Sign is what a machine was seen to do.
type Sign struct {
	Address string `json:"address"`
	Phase   string `json:"phase"`
	Detail  string `json:"detail,omitempty"`
	// Leased is the address that DHCP gave the machine then.
	Leased netip.Addr `json:"leased,omitzero"`
}

// Request is a question.
type Request struct {
	Method Method `json:"method"`
	Node   string `json:"node,omitempty"`
	// Group is the conductor group of a node that is handed on; the receiver takes it
	// from the subject, which is what the sender may be refused.
	Group  string          `json:"-"`
	Driver string          `json:"driver,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	// NodeRevision is the least revision of the node's document that will do: that of the newest
	// change which the asker knows and the document shows. A rackd that has not heard of it yet
	// waits a little, then says so with 503. Zero: whatever the rackd knows will do.
	NodeRevision int64 `json:"node_revision,omitempty"`
	// Until is when, by the rackd's own clock, the question is too old to be carried out. Zero:
	// Timeout after the rackd has received it.
	Until Clock `json:"until,omitzero"`
}

// Reply is the answer; Error is nil when it worked.
type Reply struct {
	Error *Error          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	// Clock is the rackd's, as it answered; zero from one that has none.
	Clock Clock `json:"clock,omitzero"`
}

// Error is why a question was not answered.
type Error struct {
	// Status is the HTTP status that central answers with.
	Status  int    `json:"status"`
	Message string `json:"message"`
	// Unsupported: the hardware, or the interfaces that the node has, cannot do it.
	Unsupported bool `json:"unsupported,omitempty"`
	// Locked: the node's open work is in the way. Nothing was done, so that the same may be
	// asked again when the work has ended.
	Locked bool `json:"locked,omitempty"`
	// Late: the question was too old. Nothing was done.
	Late bool `json:"late,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Flow is the flow that a node is to be judged for before central accepts it.
type Flow struct {
	Verb work.Verb `json:"verb"`
	// Steps are those of the request and of what it names.
	Steps []work.Step `json:"steps,omitempty"`
	// Whole: the arguments of Steps are as they were given, but for secrets: seal.Withheld stands for what is or may hold a
	// text, and 0 for a number that is no length. Unset, by a central of before: null stands for all that is or may hold a text.
	Whole          bool `json:"arguments_whole,omitempty"`
	DisableRamdisk bool `json:"disable_ramdisk,omitempty"`
	// RescuePassword says that the request brings the password of a rescue, which the node's document does not have yet. A
	// rackd that does not know the field finds no password, and says so.
	RescuePassword bool `json:"rescue_password,omitempty"`
}

// Steps is the key of the answer to Validate below which stands what speaks against the
// flow's steps. It is missing where no flow was asked about, and in answers of older rackds.
const Steps = "steps"

// Validation is the outcome for one interface. Result nil: not supported.
type Validation struct {
	Result *bool  `json:"result"`
	Reason string `json:"reason,omitempty"`
}

// BootDevice is a boot device of Ironic's list.
type BootDevice struct {
	Device     string `json:"boot_device"`
	Persistent *bool  `json:"persistent"`
}
