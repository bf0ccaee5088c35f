package hardware

import (
	"encoding/json"
	"strings"
)

// Observation is what was read from a machine at one moment. A nil field was not read,
// and what was known of it before holds.
type Observation struct {
	BootMode       *string `json:"boot_mode,omitempty"` // uefi, bios or empty
	SecureBoot     *bool   `json:"secure_boot,omitempty"`
	Health         *string `json:"health,omitempty"` // OK, Warning, Critical or empty
	ConsoleEnabled *bool   `json:"console_enabled,omitempty"`
	// RAID is the whole configuration; empty, not nil, where there is none.
	RAID map[string]any `json:"raid,omitzero"`
	// BIOS and Firmware are whole lists: what is not in them is gone.
	BIOS     []Setting   `json:"bios,omitzero"`
	Firmware []Component `json:"firmware,omitzero"`
	// Kept is what the node's drivers keep between calls, see node.Document.
	Kept json.RawMessage `json:"kept,omitempty"`
	// BootSet is the boot device that was set for all starts; empty: none is to be held any more.
	BootSet *string `json:"boot_set,omitempty"`
	// LogMark is up to where the machine's event log was told (driver.EventLog).
	LogMark *string `json:"log_mark,omitempty"`
	// DeployBootMode is the boot mode that flows go by, of a node that asks for none (node.Document).
	DeployBootMode *string `json:"deploy_boot_mode,omitempty"`
	// SecureBootBefore is how secure boot was before the instance (node.Document).
	SecureBootBefore *string `json:"secure_boot_before,omitempty"`
	// InstanceFiles are the files that the instance boots over the network (node.Document); empty, not nil: none any more.
	InstanceFiles map[string]string `json:"instance_files,omitzero"`
	// Vendor is who made the machine, empty: not read. It is told as one of the node's properties.
	Vendor string `json:"-"`
}

// Merge takes over what o has read, as the newer of the two.
func (was *Observation) Merge(o Observation) {
	take(&was.BootMode, o.BootMode)
	take(&was.SecureBoot, o.SecureBoot)
	take(&was.Health, o.Health)
	take(&was.ConsoleEnabled, o.ConsoleEnabled)
	take(&was.BootSet, o.BootSet)
	take(&was.LogMark, o.LogMark)
	take(&was.DeployBootMode, o.DeployBootMode)
	take(&was.SecureBootBefore, o.SecureBootBefore)
	if o.InstanceFiles != nil {
		was.InstanceFiles = o.InstanceFiles
	}
	if o.RAID != nil {
		was.RAID = o.RAID
	}
	if o.BIOS != nil {
		was.BIOS = o.BIOS
	}
	if o.Firmware != nil {
		was.Firmware = o.Firmware
	}
	if o.Kept != nil {
		was.Kept = o.Kept
	}
	if o.Vendor != "" {
		was.Vendor = o.Vendor
	}
}

func take[T any](into **T, v *T) {
	if v != nil {
		*into = v
	}
}

// Empty reports whether nothing was read.
func (was *Observation) Empty() bool {
	return was.BootMode == nil && was.SecureBoot == nil && was.Health == nil && was.ConsoleEnabled == nil &&
		was.RAID == nil && was.BIOS == nil && was.Firmware == nil && was.Kept == nil && was.BootSet == nil && was.LogMark == nil && was.DeployBootMode == nil && was.SecureBootBefore == nil && was.InstanceFiles == nil && was.Vendor == ""
}

// Setting is a BIOS setting. All but name and value come from the BIOS's registry and
// are null where it says nothing.
type Setting struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
	// Type is Enumeration, String, Integer, Boolean or Password.
	Type          *string  `json:"attribute_type,omitempty"`
	Allowed       []string `json:"allowable_values,omitempty"`
	Lower         *int64   `json:"lower_bound,omitempty"`
	Upper         *int64   `json:"upper_bound,omitempty"`
	MinLength     *int64   `json:"min_length,omitempty"`
	MaxLength     *int64   `json:"max_length,omitempty"`
	ReadOnly      *bool    `json:"read_only,omitempty"`
	ResetRequired *bool    `json:"reset_required,omitempty"`
	Unique        *bool    `json:"unique,omitempty"`
}

// Component is a part of a machine that has firmware of its own.
type Component struct {
	Name    string `json:"component"` // bios, bmc, nic:SERIAL, nic:ID, drive:ID or psu:ID
	Current string `json:"current_version"`
	// Flashed is the version that an update by us has written last; empty: none.
	Flashed string `json:"last_version_flashed,omitempty"`
	Vendor  string `json:"vendor,omitempty"`
	Model   string `json:"model,omitempty"`
	Serial  string `json:"serial_number,omitempty"`
}

// IsPart: the component is none of BIOS and BMC, which show whether or not the machine runs.
func (c Component) IsPart() bool { return strings.Contains(c.Name, ":") }

// The values of health.
const (
	OK       = "OK"
	Warning  = "Warning"
	Critical = "Critical"
)

// The states of an indicator.
var IndicatorStates = []string{"on", "off", "blinking", "unknown"}

// Indicator is a light that a machine shows to whoever stands before it.
type Indicator struct {
	Name      string   `json:"name"`
	Component string   `json:"component"` // chassis, system, disk, power or nic
	ReadOnly  bool     `json:"readonly"`
	States    []string `json:"states"`
}

// The kinds of virtual media.
var MediaTypes = []string{"disk", "cdrom", "floppy"}

// Media is a virtual drive of a BMC.
type Media struct {
	Types    []string `json:"media_types"`
	Inserted bool     `json:"inserted"`
	Image    string   `json:"image"`
	// Problem is why the machine cannot read the image, as the BMC says; empty: it says nothing. It stays in rackd.
	Problem string `json:"-"`
}
