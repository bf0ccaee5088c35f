package hints

import (
	"fmt"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// UnerasedError says that disks which a cleaning is to erase cannot be erased.
type UnerasedError struct{ Disks []agentapi.UnfitDisk }

func (e *UnerasedError) Error() string {
	return fmt.Sprintf("not erased: %s. What is on them is still there: look at these disks, or name those that may stay as they are in the node's properties/skip_block_devices",
		agentapi.List(e.Disks))
}

// FaultType names the error in the agent's API as ironic-python-agent does.
func (e *UnerasedError) FaultType() string { return "BlockDeviceEraseError" }

// NothingError says that a cleaning has found no disk to erase, and what there was.
type NothingError struct{ Disks []agentapi.Disk }

func (e *NothingError) Error() string {
	return fmt.Sprintf("nothing is erased: this machine shows %s. Look at its disks, their controller and whether the ramdisk has its driver. "+
		"For a machine without disks, inspect the node with the agent first, or leave the erasing steps out of its cleaning", list(e.Disks))
}

// FaultType names the error in the agent's API as ironic-python-agent does.
func (e *NothingError) FaultType() string { return "BlockDeviceEraseError" }
