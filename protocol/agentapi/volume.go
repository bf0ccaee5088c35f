package agentapi

// StepExportVolume is our agent's step that makes a disk of its machine an iSCSI volume, for another machine to boot from.
const StepExportVolume = "export_volume"

// ExportVolumeArgs are the step's arguments. Those that a volume target has too bear the names of its properties.
type ExportVolumeArgs struct {
	// Initiator is the name of the machine that may log in: its volume connector of type iqn.
	Initiator string `json:"initiator"`
	// User and Secret are what it shows, by CHAP.
	User   string `json:"auth_username"`
	Secret string `json:"auth_password"`
	// TargetUser and TargetSecret are what the volume shows in its turn; both empty: nothing.
	TargetUser   string `json:"mutual_auth_username,omitempty"`
	TargetSecret string `json:"mutual_auth_password,omitempty"`
	// IQN is the target's name; empty: one of the node's UUID.
	IQN string `json:"target_iqn,omitempty"`
	// Port of the target; 0: DefaultISCSIPort.
	Port int `json:"target_portal_port,omitempty"`
	// From are addresses and networks that may connect, divided by commas; empty: any.
	From string `json:"from,omitempty"`
	// Disk has hints as the property root_device has; empty: the node's root device.
	Disk map[string]any `json:"disk,omitempty"`
}

// ExportedVolume is the step's result: what a volume target of the other machine needs, besides its account.
type ExportedVolume struct {
	Portal string `json:"target_portal"` // address and port, as the conductor's machine reaches it
	IQN    string `json:"target_iqn"`
	LUN    int    `json:"target_lun"`
	Disk   string `json:"disk"` // the kernel's name
	Bytes  int64  `json:"bytes"`
}
