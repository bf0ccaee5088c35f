// Package agentapi is what the agent in the ramdisk and the rackd of its rack
// say to each other: lookup and heartbeat (agent → rackd), commands and their
// results (rackd → agent), and the inventory.
//
// The shapes are those of ironic-python-agent, API 1.68 (ironic-facts §5), so
// that either side can be exchanged for the Python one. It may import nothing of
// the project. Fields that only Ironyard knows start with "ironyard_".
package agentapi

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"time"
)

// Paths and ports of the two APIs.
const (
	LookupPath    = "/v1/lookup"        // GET ?addresses=mac,mac&node_uuid=
	HeartbeatPath = "/v1/heartbeat/"    // POST + node UUID
	LogPath       = "/v1/ironyard/log/" // POST + node UUID, text lines
	CommandsPath  = "/v1/commands/"
	StatusPath    = "/v1/status"
	AgentPort     = 9999
	// APIVersionHeader carries APIVersion on every request of the agent.
	APIVersionHeader = "X-OpenStack-Ironic-API-Version"
	APIVersion       = "1.68"
	// Masked is what a lookup answers instead of a token that was given before.
	Masked = "******"
)

// Kernel parameters of the ramdisk.
const (
	ParamAPIURL = "ipa-api-url" // comma-separated base URLs of rackds
	// ParamAPIFingerprint is the hex SHA-256 of the DER certificate that the
	// rackd at ipa-api-url presents; the agent trusts no other.
	ParamAPIFingerprint = "ironyard-api-fingerprint"
	ParamDebug          = "ipa-debug"
	ParamBootMAC        = "BOOTIF"
	// ParamGuardShared is off where also disks are to be erased that other machines may be
	// using; its name is ironic-python-agent's.
	ParamGuardShared = "ipa-guard-special-filesystems"
	// ParamInsecure lets ironic-python-agent call an API whose certificate it cannot check.
	ParamInsecure = "ipa-insecure"
	// ParamInspection is where ironic-python-agent sends what it has found, of its own accord.
	ParamInspection = "ipa-inspection-callback-url"
	// ParamNode is the node's UUID, when the boot script knew it.
	ParamNode = "ironyard-node"
	// ParamBootServer is where a ramdisk that comes without a boot script asks for its parameters: comma-separated base URLs of
	// rackds' web servers, or BootServerDHCP.
	ParamBootServer = "ironyard-boot-server"
	// ParamBootMethod has a ramdisk look for its parameters on a second virtual medium, where it is BootMethodMedium. Both
	// names are Ironic's.
	ParamBootMethod  = "boot_method"
	BootMethodMedium = "vmedia"
)

// DoorName is the TLS server name by which an agent asks a rackd for the certificate
// with a fingerprint: one that stands in for other conductor groups has several.
func DoorName(fingerprint string) string {
	return "agents-" + strings.ToLower(fingerprint[:min(len(fingerprint), 32)]) + ".ironyard" // a label holds 63 bytes
}

// LookupReply answers GET /v1/lookup.
type LookupReply struct {
	Node   LookupNode   `json:"node"`
	Config LookupConfig `json:"config"`
}

// LookupNode is what the agent is told about its node.
type LookupNode struct {
	UUID               string         `json:"uuid"`
	Properties         map[string]any `json:"properties"`
	InstanceInfo       map[string]any `json:"instance_info"`
	DriverInternalInfo map[string]any `json:"driver_internal_info"`
}

// LookupConfig configures the agent.
type LookupConfig struct {
	HeartbeatTimeout   int    `json:"heartbeat_timeout"` // seconds
	AgentToken         string `json:"agent_token"`
	AgentTokenRequired bool   `json:"agent_token_required"`
	// SkipBMCDetect: the agent need not look for its BMC's address, which the node has.
	SkipBMCDetect bool `json:"agent_skip_bmc_detect,omitempty"`
}

// Heartbeat is the body of POST /v1/heartbeat/{uuid}.
type Heartbeat struct {
	CallbackURL   string `json:"callback_url"`
	AgentVersion  string `json:"agent_version"`
	AgentToken    string `json:"agent_token"`
	AgentVerifyCA string `json:"agent_verify_ca,omitempty"` // PEM
	// Status is how far an installer that is no agent has come: start, end or error. It
	// has no callback URL. A flow whose ramdisk is no installer refuses it.
	Status        string `json:"agent_status,omitempty"`
	StatusMessage string `json:"agent_status_message,omitempty"`
	// Command is the newest command in brief (Command.Brief), so that progress costs no request of
	// its own.
	Command *Command `json:"ironyard_command,omitempty"`
	// BootID changes with each boot of the ramdisk.
	BootID string `json:"ironyard_boot_id,omitempty"`
}

// CommandRequest is the body of POST /v1/commands/.
type CommandRequest struct {
	Name   string          `json:"name"` // "extension.command"
	Params json.RawMessage `json:"params"`
	// ID makes the request repeatable: an agent that already has a command with
	// this id answers with that one and starts nothing.
	ID string `json:"ironyard_id,omitempty"`
	// From is the address that the request came from; it does not travel.
	From netip.Addr `json:"-"`
	// Work and Epoch are those of who gave the command, from the request's headers. Empty and 0: it did not say.
	Work  string `json:"-"`
	Epoch uint64 `json:"-"`
}

// Headers of each command: the id of the work that it is of, and the epoch under which its rackd holds that. An agent refuses a
// command of an older epoch than one that it has had of the same work. What a rackd had confirmed and not sent when its machine
// stood still goes out when that goes on, and its successor has given commands by then.
const (
	WorkHeader  = "X-Ironyard-Work"
	EpochHeader = "X-Ironyard-Epoch"
)

// CommandStatus is the state of a command.
type CommandStatus string

// The states of a command.
const (
	CommandRunning   CommandStatus = "RUNNING"
	CommandSucceeded CommandStatus = "SUCCEEDED"
	CommandFailed    CommandStatus = "FAILED"
)

// Command is a command and what became of it.
type Command struct {
	ID     string          `json:"id"`
	Name   string          `json:"command_name"`
	Status CommandStatus   `json:"command_status"`
	Error  *CommandError   `json:"command_error"`
	Result json.RawMessage `json:"command_result"`
	// Progress is set while an image is being written.
	Progress *Progress `json:"ironyard_progress,omitempty"`
}

// CommandError says why a command failed.
type CommandError struct {
	Type    string `json:"type"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details string `json:"details"`
}

// Progress of a write, in bytes of the virtual disk.
type Progress struct {
	DoneBytes  int64   `json:"done_bytes"`
	TotalBytes int64   `json:"total_bytes"` // 0: not known
	MBPerSec   float64 `json:"mb_per_s"`
	Seconds    float64 `json:"seconds"`
}

// CommandList answers GET /v1/commands/.
type CommandList struct {
	Commands []Command `json:"commands"`
}

// Status answers GET /v1/status.
type Status struct {
	StartedAt time.Time `json:"started_at"`
	Version   string    `json:"version"`
}

// Fault is the error body of the agent's API.
type Fault struct {
	Code   string `json:"faultcode"`
	String string `json:"faultstring"`
}

// Busy is how the agent's refusal begins while another command runs.
const Busy = "agent is busy"

// StepManager is what our agent calls the hardware manager that offers its steps.
const StepManager = "IronyardAgent"

// The commands that rackd sends.
const (
	CmdGetDeploySteps  = "deploy.get_deploy_steps"
	CmdExecDeployStep  = "deploy.execute_deploy_step"
	CmdGetCleanSteps   = "clean.get_clean_steps"
	CmdExecCleanStep   = "clean.execute_clean_step"
	CmdGetServiceSteps = "service.get_service_steps"
	CmdExecServiceStep = "service.execute_service_step"
	CmdPrepareImage    = "standby.prepare_image"
	CmdRunImage        = "standby.run_image" // reboot
	CmdPowerOff        = "standby.power_off"
	CmdSync            = "standby.sync"
	CmdPartitionUUIDs  = "standby.get_partition_uuids"
	CmdInstallBoot     = "image.install_bootloader"
	CmdGetInventory    = "poll.get_hardware_info"
	CmdCollectLogs     = "log.collect_system_logs"
	CmdFinalizeRescue  = "rescue.finalize_rescue"
	CmdStartISCSI      = "iscsi.start_iscsi_target"
	// The others of the extension are ours alone.
	CmdFinishISCSI = "iscsi.ironyard_finish"
	CmdStopISCSI   = "iscsi.ironyard_stop"
)

// FinalizeRescueParams are the params of rescue.finalize_rescue.
type FinalizeRescueParams struct {
	// Password is that of the user "rescue"; Hashed: in the form of /etc/shadow.
	Password string `json:"rescue_password"`
	Hashed   bool   `json:"hashed"`
}

// FinalizeRescueResult is what our agent answers to it; ironic-python-agent answers nothing.
type FinalizeRescueResult struct {
	// SSH are the addresses at which the ramdisk accepts SSH, as host:port.
	SSH []string `json:"ironyard_ssh"`
	// HostKey is the fingerprint of its host key as ssh-keygen writes it, SHA256:….
	HostKey string `json:"ironyard_ssh_host_key"`
}

// PrepareImageParams are the params of standby.prepare_image.
type PrepareImageParams struct {
	ImageInfo ImageInfo `json:"image_info"`
	// ConfigDrive is base64 of a gzipped ISO 9660 or VFAT image, or empty.
	ConfigDrive string `json:"configdrive,omitempty"`
}

// ImageInfo says what to write and where from.
type ImageInfo struct {
	ID          string   `json:"id"`
	URLs        []string `json:"urls"`
	HashAlgo    string   `json:"os_hash_algo"`                   // sha256 or sha512
	HashValue   string   `json:"os_hash_value"`                  // hex, of the file as served
	DiskFormat  string   `json:"disk_format"`                    // raw or qcow2
	Compression string   `json:"ironyard_compression,omitempty"` // "", gzip, zstd
	ImageType   string   `json:"image_type"`                     // whole-disk or partition
	// BootMode is uefi or bios.
	BootMode string `json:"deploy_boot_mode"`
	NodeUUID string `json:"node_uuid"`
	// RootDeviceHints choose the disk (ironic-facts §5.6); nil: smallest ≥ 4 GiB.
	RootDeviceHints map[string]any `json:"ironyard_root_device,omitempty"`
	// RootByInstance: the hints are the instance's, and choose no removable disk.
	RootByInstance bool `json:"ironyard_root_by_instance,omitempty"`
	// SkipBlockDevices are hints for the disks that are never written to.
	SkipBlockDevices any `json:"ironyard_skip_block_devices,omitempty"`
	// KnownDisks is what the node's last inspection found; nothing is written while one is missing.
	KnownDisks []KnownDisk `json:"ironyard_known_disks,omitempty"`
	// VolumesChanged: the work has changed the machine's RAID, so disks that the agent has shown before may be gone on purpose.
	VolumesChanged bool `json:"ironyard_volumes_changed,omitempty"`
	// MinDiskBytes lets tests deploy to disks below 4 GiB; zero means 4 GiB.
	MinDiskBytes int64 `json:"ironyard_min_disk_bytes,omitempty"`
	// Partitions is nil where the image holds a whole disk. Its fields are members of this object, with Ironic's names.
	*Partitions
}

// Partitions are what a disk gets that a partition image is written to. Sizes are in MiB.
type Partitions struct {
	RootMB      int64 `json:"root_mb"`
	SwapMB      int64 `json:"swap_mb"`
	EphemeralMB int64 `json:"ephemeral_mb"`
	// EphemeralFormat is the file system of the ephemeral partition.
	EphemeralFormat string `json:"ephemeral_format,omitempty"`
	// PreserveEphemeral: the ephemeral partition is there, and stays as it is.
	PreserveEphemeral bool `json:"preserve_ephemeral"`
	// DiskLabel is gpt, msdos or empty: then it is gpt on UEFI and msdos on BIOS.
	DiskLabel string `json:"disk_label,omitempty"`
}

// The types of images.
const (
	ImageWholeDisk = "whole-disk"
	ImagePartition = "partition"
)

// PrepareImageResult is the result of standby.prepare_image.
type PrepareImageResult struct {
	RootDevice string `json:"root_device"`
	// RootUUID is the identifier of the disk's partition table; of a partition image, that of the root file system.
	RootUUID string   `json:"root_uuid,omitempty"`
	Written  Progress `json:"ironyard_written"`
	// PartitionUUIDs is set where a partition image was written.
	*PartitionUUIDs
}

// PartitionUUIDs is the result of standby.get_partition_uuids: the file systems by which a boot loader finds its partitions.
type PartitionUUIDs struct {
	// Partitions are the device files by what they are for.
	Partitions map[string]string `json:"partitions"`
	Root       string            `json:"root uuid"`
	ESP        string            `json:"efi system partition uuid,omitempty"`
}

// StepParams are the params of clean.execute_clean_step and its kin.
type StepParams struct {
	// Step is left out of the questions for steps: ironic-python-agent refuses arguments
	// that it does not know.
	Step  map[string]any `json:"step,omitempty"`
	Node  map[string]any `json:"node"`
	Ports []any          `json:"ports"`
}

// StepKnownDisks is the key of StepParams.Node that says what ImageInfo.KnownDisks does.
const StepKnownDisks = "ironyard_known_disks"

// StepVolumesChanged is the key of StepParams.Node that says what ImageInfo.VolumesChanged does.
const StepVolumesChanged = "ironyard_volumes_changed"

// Keys of StepParams.Node for steps that make a boot entry. By StepNetworkFirst the machine is to ask the network at each start, for
// nothing can tell it to. By StepUEFI the node asks for UEFI.
const (
	StepNetworkFirst = "ironyard_network_first"
	StepUEFI         = "ironyard_uefi"
)

// Inventory is what the agent found (ironic-facts §5.7).
type Inventory struct {
	Interfaces   []NIC        `json:"interfaces"`
	CPU          CPU          `json:"cpu"`
	Disks        []Disk       `json:"disks"`
	Memory       Memory       `json:"memory"`
	BMCAddress   string       `json:"bmc_address"`
	BMCV6Address string       `json:"bmc_v6address"`
	SystemVendor SystemVendor `json:"system_vendor"`
	Boot         Boot         `json:"boot"`
	Hostname     string       `json:"hostname"`

	// Sent is the inventory as the ramdisk sent it, a JSON object with what is not known
	// here too; empty: nothing but the fields above. PluginData is what it sent beside it, for
	// hooks and rules: a JSON object, or empty. Neither is of the ramdisk's own JSON: who
	// reads that sets them.
	Sent       json.RawMessage `json:"sent,omitempty"`
	PluginData json.RawMessage `json:"plugin_data,omitempty"`
}

// Carried is the inventory as it travels from rack to central: once, where it is there as it
// was sent.
func (i *Inventory) Carried() *Inventory {
	if len(i.Sent) == 0 {
		return i
	}
	return &Inventory{Sent: i.Sent, PluginData: i.PluginData}
}

// Read reads an inventory as a ramdisk has sent it, and what it sent beside it. A field that
// is of another type than here stays empty, for ramdisks differ and the whole is kept in Sent;
// but an inventory is an object, and its interfaces are a list.
func (i *Inventory) Read(sent, plugin json.RawMessage) error {
	*i = Inventory{}
	err := json.Unmarshal(sent, i)
	if odd, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && odd.Field != "" && odd.Field != "interfaces" {
		err = nil
	}
	i.Sent, i.PluginData = sent, plugin
	return err
}

// NIC is a network interface.
type NIC struct {
	Name        string `json:"name"`
	MACAddress  string `json:"mac_address"`
	IPv4Address string `json:"ipv4_address"`
	IPv6Address string `json:"ipv6_address"`
	HasCarrier  bool   `json:"has_carrier"`
	Vendor      string `json:"vendor"`
	Product     string `json:"product"`
	SpeedMbps   int    `json:"speed_mbps"`
	PCIAddress  string `json:"pci_address"`
	Driver      string `json:"driver"`
}

// CPU describes all processors.
type CPU struct {
	ModelName    string   `json:"model_name"`
	Frequency    string   `json:"frequency"` // MHz
	Count        int      `json:"count"`
	Architecture string   `json:"architecture"`
	Flags        []string `json:"flags"`
	SocketCount  int      `json:"socket_count"`
}

// Disk is a block device.
type Disk struct {
	Name               string `json:"name"` // /dev/…
	Model              string `json:"model"`
	Size               int64  `json:"size"` // bytes
	Rotational         bool   `json:"rotational"`
	WWN                string `json:"wwn"`
	Serial             string `json:"serial"`
	Vendor             string `json:"vendor"`
	WWNWithExtension   string `json:"wwn_with_extension"`
	WWNVendorExtension string `json:"wwn_vendor_extension"`
	HCTL               string `json:"hctl"`
	ByPath             string `json:"by_path"`
	LogicalSectors     int    `json:"logical_sectors"`
	PhysicalSectors    int    `json:"physical_sectors"`
	Tran               string `json:"tran"`
	// Removable: a stick, a card or a drive that a BMC shows. It is used only where a hint names it.
	Removable bool `json:"ironyard_removable,omitempty"`
}

// Memory of the machine.
type Memory struct {
	Total      int64 `json:"total"` // bytes
	PhysicalMB int64 `json:"physical_mb"`
}

// SystemVendor comes from DMI.
type SystemVendor struct {
	ProductName  string   `json:"product_name"`
	SerialNumber string   `json:"serial_number"`
	Manufacturer string   `json:"manufacturer"`
	Firmware     Firmware `json:"firmware"`
	// SystemUUID is told by Ironyard's agent and by BMCs; Ironic's agent does not tell it.
	SystemUUID string `json:"system_uuid,omitempty"`
}

// Firmware of the machine, from DMI.
type Firmware struct {
	Vendor    string `json:"vendor"`
	Version   string `json:"version"`
	BuildDate string `json:"build_date"`
}

// Boot says how the ramdisk was booted.
type Boot struct {
	CurrentBootMode string `json:"current_boot_mode"` // uefi or bios
	PXEInterface    string `json:"pxe_interface"`     // MAC
}
