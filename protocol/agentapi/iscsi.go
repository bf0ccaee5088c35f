package agentapi

// DefaultISCSIPort is the port of an agent's iSCSI target.
const DefaultISCSIPort = 3260

// StartISCSIParams are the params of iscsi.start_iscsi_target. The first three are ironic-python-agent's.
type StartISCSIParams struct {
	IQN              string `json:"iqn"`
	WipeDiskMetadata bool   `json:"wipe_disk_metadata"`
	PortalPort       int    `json:"portal_port"`
	// Image says which disk is meant, as for standby.prepare_image; its URLs are empty.
	Image ImageInfo `json:"ironyard_image"`
	// ImageBytes is the size of the disk in the image; 0: not known yet.
	ImageBytes int64 `json:"ironyard_image_bytes,omitempty"`
	// ConfigDrive is that of FinishISCSIParams where the image is a partition image: its size says where the root partition lies.
	ConfigDrive string `json:"ironyard_configdrive,omitempty"`
	// Initiator is the one name that may log in; the others are the names and secrets of CHAP, for one session.
	Initiator    string `json:"ironyard_initiator"`
	User         string `json:"ironyard_user"`
	Secret       string `json:"ironyard_secret"`
	TargetUser   string `json:"ironyard_target_user"`
	TargetSecret string `json:"ironyard_target_secret"`
}

// StartISCSIResult is its result. Of ironic-python-agent it has the name only.
type StartISCSIResult struct {
	IQN        string `json:"iscsi_target_iqn"`
	RootDevice string `json:"ironyard_root_device"`
	// Disk tells this disk in this run of the agent from any other.
	Disk string `json:"ironyard_disk"`
	Port int    `json:"ironyard_port"`
	LUN  int    `json:"ironyard_lun"`
	// RootOffset and RootBytes say where the root partition of a partition image lies. Both are 0 for an image of a whole disk.
	RootOffset int64 `json:"ironyard_root_offset,omitempty"`
	RootBytes  int64 `json:"ironyard_root_bytes,omitempty"`
}

// FinishISCSIParams are the params of iscsi.ironyard_finish, which ends the target, makes the partition table fit the disk,
// adds the config drive, and reads back both. Around a partition image it makes the other partitions and the table. Its result is a
// PrepareImageResult.
type FinishISCSIParams struct {
	// Disk is that of the StartISCSIResult.
	Disk        string `json:"disk"`
	ConfigDrive string `json:"configdrive,omitempty"`
	// ImageBytes is the size of the disk in the image that was written; 0: not known.
	ImageBytes int64 `json:"image_bytes,omitempty"`
}

// StopISCSIParams are the params of iscsi.ironyard_stop, which ends the target.
type StopISCSIParams struct {
	// Disk is to be wiped at both ends, so that it does not boot; empty: none is.
	Disk string `json:"disk,omitempty"`
}

// FaultISCSIGone is the type of the error that says that the agent has started again since it exported a disk.
const FaultISCSIGone = "ISCSITargetGoneError"
