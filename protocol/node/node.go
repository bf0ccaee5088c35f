// Package node is the node document: what central tells a rack about a node, kept
// under <group>.<uuid> in the NODES bucket and held in memory by every rackd of
// the node's conductor group.
//
// It may import protocol/jsontext, protocol/provision, protocol/seal and protocol/smbios only. Only central writes the document.
// It is JSON: people read it on the bus, and programs of other versions skip the fields that they do not know (document.go).
// Secrets inside DriverInfo, InstanceInfo and the properties of Targets are sealed for the group (protocol/seal), and the whole
// document bears a code made with the group's key (AppendSigned).
package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/smbios"
)

// The kinds of hardware interface, in Ironic's alphabetical order. A node's
// "<kind>_interface" names the implementation.
var InterfaceKinds = []string{"bios", "boot", "console", "deploy", "firmware", "inspect", "management",
	"network", "power", "raid", "rescue", "storage", "vendor"}

// PowerFailure is the fault of a node whose power state cannot be read. It is the
// only one that ends by itself.
const PowerFailure = "power failure"

// Attended reports whether a person may be at the machine of a node in maintenance, so that no flow may
// surprise them. The fault "power failure" does not say so: a rackd has set it, and looks whether it
// is over only while the node has no work.
func Attended(maintenance bool, fault string) bool { return maintenance && fault != PowerFailure }

// Document is a node as its rack needs it.
type Document struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name,omitempty"`
	Group  string `json:"group,omitempty"` // conductor group, lower case
	Driver string `json:"driver"`          // hardware type
	// ResourceClass is the node's class for schedulers, by which a rack may choose its ramdisk.
	ResourceClass string `json:"resource_class,omitempty"`
	// Generation counts accepted requests; it equals that of the newest work.
	Generation int64 `json:"generation"`
	// Revision is that of the node in central, which grows with every write, also with those of
	// which the rack sees nothing and is not told; a document never takes the place of one with a
	// higher revision. It tells whether the rack has heard of a change (ask.Request).
	Revision int64 `json:"revision"`
	// Interfaces maps a kind to an implementation; a missing kind means the
	// hardware type's first.
	Interfaces   map[string]string `json:"interfaces,omitempty"`
	DriverInfo   map[string]any    `json:"driver_info,omitempty"`
	Properties   map[string]any    `json:"properties,omitempty"`
	InstanceInfo map[string]any    `json:"instance_info,omitempty"`
	InstanceUUID string            `json:"instance_uuid,omitempty"`
	Traits       []string          `json:"traits,omitempty"`
	Ports        []Port            `json:"ports,omitempty"`
	State        provision.State   `json:"provision_state"`
	Maintenance  bool              `json:"maintenance,omitempty"`
	// Fault is why a rackd put the node into maintenance; empty when none did.
	Fault           string `json:"fault,omitempty"`
	AutomatedClean  *bool  `json:"automated_clean,omitempty"`
	DisablePowerOff bool   `json:"disable_power_off,omitempty"`
	Retired         bool   `json:"retired,omitempty"`
	// Protected nodes run an instance that no step of another node's flow may touch.
	Protected bool `json:"protected,omitempty"`
	// ConsoleEnabled: the rackd that owns the node holds its console open.
	ConsoleEnabled bool `json:"console_enabled,omitempty"`
	// Tenancy changes when the node gets another owner or lessee, and tells neither. What a machine wrote to its console
	// before is not for whom it belongs to now.
	Tenancy string `json:"tenancy,omitempty"`
	// TargetRAID is the RAID configuration that was asked for last.
	TargetRAID map[string]any `json:"target_raid_config,omitempty"`
	// Kept is what the node's drivers reported to keep (hardware.Observation): whatever
	// rackd asks them next, they find it here.
	Kept json.RawMessage `json:"kept,omitempty"`
	// PinnedSince is the node's revision at which an operator last asked to pin the BMC's key again (PinKey): keys that were pinned before
	// do not count. 0: never.
	PinnedSince int64 `json:"pinned_since,omitempty"`
	// BootSet is the boot device that was set for all starts, by a flow for the instance or by a request; empty: none. Rackds look
	// whether the BMC has it still.
	BootSet string `json:"boot_set,omitempty"`
	// LogMark is up to where the machine's event log is in the node's history; empty: nothing of it was told.
	LogMark string `json:"log_mark,omitempty"`
	// InstanceFiles are the files that rackds serve to the machine of the node's instance: for each field of instance_info that
	// names one, its id in the caches of the rack, so that it boots the same each time. Of media that rackds serve there are
	// more (FileMedium). Under "root_uuid" is the file system that their kernel mounts as root, where that is on a disk. Empty: the
	// instance boots from a disk, or from a medium that no rackd serves.
	InstanceFiles map[string]string `json:"instance_files,omitempty"`
	// DeployBootMode is the boot mode in which a flow has found the machine of a node that asks for none; empty: not known.
	DeployBootMode string `json:"deploy_boot_mode,omitempty"`
	// SecureBootBefore is "on" or "off", as secure boot was on the machine before an instance that asks for it; empty: not known.
	SecureBootBefore string `json:"secure_boot_before,omitempty"`
	// Machine is the one that the node's last inspection has found; empty before.
	Machine smbios.System `json:"machine,omitzero"`
	// Disks is what the machine's ramdisk found of disks in the last inspection, JSON of a list of
	// agentapi.KnownDisk; empty: it was not inspected that way, or its RAID has changed since.
	Disks json.RawMessage `json:"disks,omitempty"`
	// AgentSteps is what the agent of the node's ramdisk has last told of its steps, JSON whose form is the deploy interface's.
	// Empty: it has told nothing yet.
	AgentSteps json.RawMessage `json:"agent_steps,omitempty"`
	// NetworkData is the node's network_data, JSON of Nova's network metadata; empty: none. Boot interfaces that make
	// their medium give it to the ramdisk.
	NetworkData json.RawMessage `json:"network_data,omitempty"`
	// Connectors and Targets are the node's names towards storage systems, and its volumes there.
	Connectors []Connector `json:"volume_connectors,omitempty"`
	Targets    []Target    `json:"volume_targets,omitempty"`
}

// KeptKey is where driver_internal_info has what a node's drivers keep.
const KeptKey = "driver_state"

// PinKey is what driver_info says, as in redfish_verify_ca, to have the public key pinned that the BMC shows at first use.
const PinKey = "pin"

// PinnedSinceKey is where driver_internal_info has Document.PinnedSince, as text.
const PinnedSinceKey = "bmc_keys_since"

// MachineKey is where driver_internal_info has the machine that the last inspection has found (Document.Machine).
const MachineKey = "machine"

// DisksKey is where driver_internal_info has what Document.Disks says.
const DisksKey = "inspected_disks"

// AgentStepsKey is where driver_internal_info has what Document.AgentSteps says.
const AgentStepsKey = "agent_steps"

// BootSetKey and LogMarkKey are where driver_internal_info has Document.BootSet and Document.LogMark.
const BootSetKey, LogMarkKey = "boot_device_set", "event_log_mark"

// ClearedByKey is where driver_internal_info has the work with which the undeploy began that took the last instance off the node.
const ClearedByKey = "instance_cleared_by"

// These are where driver_internal_info has Document.InstanceFiles, Document.DeployBootMode and Document.SecureBootBefore.
const InstanceFilesKey, DeployBootModeKey, SecureBootBeforeKey = "instance_files", "deploy_boot_mode", "secure_boot_before"

// Keys of Document.InstanceFiles beside the fields of instance_info.
const (
	// FileMedium is the work that deployed an instance whose machine reads media from rackds. The addresses of these media are
	// made of it.
	FileMedium = "medium"
	// FileMediumAt is the base URL of those media, as the BMC was told it last; empty: it was told none yet.
	FileMediumAt = "medium_at"
	// FileDrive is the SHA-256 of the instance's config drive, where that is one of those media.
	FileDrive = "configdrive"
	// FileDriveOf and FileDriveName are the UUID and the name that the config drive was made with: the node may get others since.
	FileDriveOf, FileDriveName = "configdrive_of", "configdrive_name"
)

// DriveObject is the name that the instance's config drive has in the site's store for as long as the instance needs it there;
// empty: it needs none. It is the name under which the work that deployed the instance has it.
func DriveObject(files map[string]string) string {
	if files[FileDrive] == "" {
		return ""
	}
	return files[FileMedium]
}

// Port is a network interface of a node.
type Port struct {
	UUID       string `json:"uuid"`
	Address    string `json:"address"` // MAC, lower case, colons
	PXEEnabled bool   `json:"pxe_enabled"`
}

// Connector is a name under which a node shows itself to a storage system.
type Connector struct {
	Type string `json:"type"` // iqn, ip, mac, wwnn, wwpn, port
	ID   string `json:"connector_id"`
}

// Target is a volume of a node.
type Target struct {
	UUID string `json:"uuid"`
	// Type is iscsi or fibre_channel, VolumeID the storage system's own name.
	Type     string `json:"volume_type"`
	VolumeID string `json:"volume_id"`
	// BootIndex is 0 for the volume that the node boots from.
	BootIndex int64 `json:"boot_index"`
	// Properties say where the volume is; their secrets are sealed for the group (seal.Volume, of the target's UUID).
	Properties map[string]any `json:"properties,omitempty"`
}

// Interface returns the implementation the node asks for, empty for the default.
func (d *Document) Interface(kind string) string { return d.Interfaces[kind] }

// DriverString returns driver_info[key] as text, empty when it is missing.
func (d *Document) DriverString(key string) string { return text(d.DriverInfo[key]) }

// Instance is the UUID of the node's instance, which has the node's own where it was given none.
func (d *Document) Instance() string { return cmp.Or(d.InstanceUUID, d.UUID) }

// InstanceString returns instance_info[key] as text, empty when it is missing.
func (d *Document) InstanceString(key string) string { return text(d.InstanceInfo[key]) }

// BootMode returns uefi or bios: the mode that the node or its instance asks for, else that in which its machine was found, else uefi
// (Ironic's default since 2023.1).
func (d *Document) BootMode() string {
	return cmp.Or(d.AskedBootMode(), d.DeployBootMode, "uefi")
}

// AskedBootMode returns uefi or bios, empty where neither the node nor its instance says which. In Ironic's order that is the
// instance's capability boot_mode, its former name, the node's capability; secure boot needs UEFI.
func (d *Document) AskedBootMode() string {
	for _, text := range []string{d.InstanceCapability("boot_mode"), d.InstanceString("deploy_boot_mode"), d.Capability("boot_mode")} {
		if m := strings.ToLower(text); m == "bios" || m == "uefi" {
			return m
		}
	}
	if strings.EqualFold(d.InstanceCapability("secure_boot"), "true") {
		return "uefi"
	}
	return ""
}

// HasMAC reports whether one of the node's ports has the address (lower case).
func (d *Document) HasMAC(mac string) bool {
	for _, p := range d.Ports {
		if p.Address == mac {
			return true
		}
	}
	return false
}

// Label names the node for people: its name and UUID.
func (d *Document) Label() string {
	if d.Name == "" {
		return d.UUID
	}
	return d.Name + " (" + d.UUID + ")"
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(v)
}
