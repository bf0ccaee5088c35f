package journal

import "time"

// Kind says what a record is about.
type Kind string

// The kinds.
const (
	// BMCWrite: somebody asked the BMC to change something. Detail is the request.
	BMCWrite Kind = "bmc-write"
	// PowerOn, PowerOff and Reset: the machine's power changed. Detail says by whom.
	PowerOn  Kind = "power-on"
	PowerOff Kind = "power-off"
	Reset    Kind = "reset"
	// BootScript: a boot script was answered. Detail is the order and who gave it.
	BootScript Kind = "boot-script"
	// BootFailed: there was nothing to boot, or it could not be loaded.
	BootFailed Kind = "boot-failed"
	// AgentUp: the ramdisk's agent knows its node and takes commands.
	AgentUp Kind = "agent-up"
	// LookupFailed: the ramdisk's agent asked a rackd for its node and was not told it. It asks again.
	LookupFailed Kind = "lookup-failed"
	// AgentFailed: the agent gave up; the machine starts again.
	AgentFailed Kind = "agent-failed"
	// CommandAsked: somebody posted a command to the agent, new or known already.
	CommandAsked Kind = "command-asked"
	// CommandBegun and CommandEnded frame a command of the agent. A command that the
	// machine's power cuts short has no end.
	CommandBegun Kind = "command-begun"
	CommandEnded Kind = "command-ended"
	// WriteBegun, and one of WriteEnded, WriteFailed and WriteTorn, frame the writing of an image
	// to the disk; torn is a write that the machine's power cut short.
	WriteBegun  Kind = "write-begun"
	WriteEnded  Kind = "write-ended"
	WriteFailed Kind = "write-failed"
	WriteTorn   Kind = "write-torn"
	// TargetDied: the agent's iSCSI target dies while an image is written to it.
	TargetDied Kind = "target-died"
	// Erased: the disk is empty.
	Erased Kind = "erased"
	// InstanceUp: the machine runs what is on its disk.
	InstanceUp Kind = "instance-up"
	// Violation: something happened that never may. Detail says what.
	Violation Kind = "violation"
)

// ByBMC is the Detail of a power change that the BMC was asked for.
const ByBMC = "by the BMC"

// Record is one line of a journal. Fields that do not apply are empty.
type Record struct {
	// Seq counts from 1 over all machines: the order in which things happened.
	Seq uint64 `json:"seq"`
	// At is the time since the journal began, by the monotonic clock.
	At   time.Duration `json:"at_ns"`
	Time time.Time     `json:"time"`

	Machine string `json:"machine"`
	Kind    Kind   `json:"kind"`
	// Boot is the boot id that the agent tells its rackd.
	Boot string `json:"boot,omitempty"`
	// Work and Epoch are who a BMC write or a command says it is from.
	Work  string `json:"work,omitempty"`
	Epoch string `json:"epoch,omitempty"`
	// Command is the id of the agent's command.
	Command string `json:"command,omitempty"`
	Image   string `json:"image,omitempty"` // checksum
	// Status is what BMC or agent answered; 0 as long as it has not.
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
}
