package provision

import "slices"

// Sets of states that gate behaviour (Ironic: states.py and the API's checks).
var (
	// UpdateAllowed: PATCH works although the node has a target state.
	UpdateAllowed = []State{DeployFail, InspectFail, InspectWait, CleanFail, Error, Verifying,
		AdoptFail, RescueFail, UnrescueFail, ServiceHold, ServiceFail}
	// DeleteAllowed: the node may be deleted while not in maintenance.
	DeleteAllowed = []State{Manageable, Enroll, AdoptFail, Available}
	// LookupAllowed: an agent on such a node is told who it is. In a hold too, which Ironic does not do: an
	// operator may restart the machine there.
	LookupAllowed = []State{Deploying, DeployWait, DeployHold, Cleaning, CleanWait, CleanHold, Inspecting, InspectWait,
		Rescuing, RescueWait, ServiceWait, ServiceHold}
	// HeartbeatResumes: a heartbeat moves the work on.
	HeartbeatResumes = []State{DeployWait, CleanWait, RescueWait, ServiceWait}
	// PowerSyncExcluded: the periodic power sync leaves the node alone.
	PowerSyncExcluded = []State{DeployWait, CleanWait, Enroll, AdoptFail}
	// InterfaceChangeAllowed: driver, *_interface and resource_class may change.
	InterfaceChangeAllowed = []State{Enroll, Inspecting, InspectWait, Manageable, Available}
	// PowerForced: a machine may be brought back into the power state on record, where a rackd is told to force it. A machine
	// whose flow has failed is left as it is, for a person to look at.
	PowerForced = []State{Manageable, Available, Active, Rescue}
	// BootHeld: a boot device that was set for all starts is held, where the BMC forgets it. No flow is at work there, and none has left the
	// machine in a ramdisk or with half an instance.
	BootHeld = []State{Enroll, Manageable, Available, Active, InspectFail, CleanFail, AdoptFail}
	// PowerRefused: power requests are refused by the API.
	PowerRefused = []State{Cleaning, CleanWait}
	// ProtectAllowed: protected may be set.
	ProtectAllowed = []State{Active, Rescue}
	// RetireRefused: retired may not be set.
	RetireRefused = []State{Available}
)

// In reports whether s is one of set.
func (s State) In(set []State) bool { return slices.Contains(set, s) }
