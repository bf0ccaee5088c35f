package provision

import "time"

// State is a provision state, spelled as in Ironic's API.
type State string

// The provision states.
const (
	Enroll          State = "enroll"
	Verifying       State = "verifying"
	Manageable      State = "manageable"
	Available       State = "available"
	Active          State = "active"
	Error           State = "error"
	Deploying       State = "deploying"
	DeployWait      State = "wait call-back"
	DeployFail      State = "deploy failed"
	DeployHold      State = "deploy hold"
	Deleting        State = "deleting"
	Cleaning        State = "cleaning"
	CleanWait       State = "clean wait"
	CleanFail       State = "clean failed"
	CleanHold       State = "clean hold"
	Inspecting      State = "inspecting"
	InspectWait     State = "inspect wait"
	InspectFail     State = "inspect failed"
	Adopting        State = "adopting"
	AdoptFail       State = "adopt failed"
	Rescue          State = "rescue"
	Rescuing        State = "rescuing"
	RescueWait      State = "rescue wait"
	RescueFail      State = "rescue failed"
	Unrescuing      State = "unrescuing"
	UnrescueFail    State = "unrescue failed"
	Servicing       State = "servicing"
	ServiceWait     State = "service wait"
	ServiceFail     State = "service failed"
	ServiceHold     State = "service hold"
	NoState         State = ""
	defaultDeadline       = 30 * time.Minute
)

// Kind says what a node in a state is waiting for.
type Kind string

// The kinds of state.
const (
	// Stable: the node rests; only an operator moves it.
	Stable Kind = "stable"
	// Busy: a rackd is running steps on the node.
	Busy Kind = "busy"
	// Waiting: a rackd waits for the agent or the BMC to report.
	Waiting Kind = "waiting"
	// Failed: work ended with an error; an operator decides.
	Failed Kind = "failed"
	// Held: a step asked to hold; an operator releases or aborts.
	Held Kind = "held"
)

// Info describes a state.
type Info struct {
	State State
	Kind  Kind
	// Target is the state the node is on its way to, empty for none. A manual
	// clean overrides it with manageable.
	Target State
	// Deadline is how long a Busy or Waiting state may last before EventFail is
	// applied. Operators may set another; zero means no deadline (never for
	// Busy and Waiting).
	Deadline time.Duration
	// Enforcer says who applies the deadline.
	Enforcer string
}

const byOwner = "the owning rackd; if it is dead, the rackd that takes the work over"

// States describes every state, in the order of a node's life.
var States = []Info{
	{State: Enroll, Kind: Stable},
	{State: Verifying, Kind: Busy, Target: Manageable, Deadline: 5 * time.Minute, Enforcer: byOwner},
	{State: Manageable, Kind: Stable},
	{State: Inspecting, Kind: Busy, Target: Manageable, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: InspectWait, Kind: Waiting, Target: Manageable, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: InspectFail, Kind: Failed, Target: Manageable},
	{State: Cleaning, Kind: Busy, Target: Available, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: CleanWait, Kind: Waiting, Target: Available, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: CleanFail, Kind: Failed, Target: Available},
	{State: CleanHold, Kind: Held, Target: Available},
	{State: Available, Kind: Stable},
	{State: Deploying, Kind: Busy, Target: Active, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: DeployWait, Kind: Waiting, Target: Active, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: DeployFail, Kind: Failed, Target: Active},
	{State: DeployHold, Kind: Held, Target: Active},
	{State: Active, Kind: Stable},
	{State: Deleting, Kind: Busy, Target: Available, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: Error, Kind: Failed, Target: Available},
	{State: Adopting, Kind: Busy, Target: Active, Deadline: 5 * time.Minute, Enforcer: byOwner},
	{State: AdoptFail, Kind: Failed, Target: Active},
	{State: Rescuing, Kind: Busy, Target: Rescue, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: RescueWait, Kind: Waiting, Target: Rescue, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: RescueFail, Kind: Failed, Target: Rescue},
	{State: Rescue, Kind: Stable},
	{State: Unrescuing, Kind: Busy, Target: Active, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: UnrescueFail, Kind: Failed, Target: Active},
	{State: Servicing, Kind: Busy, Target: Active, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: ServiceWait, Kind: Waiting, Target: Active, Deadline: defaultDeadline, Enforcer: byOwner},
	{State: ServiceFail, Kind: Failed, Target: Active},
	{State: ServiceHold, Kind: Held, Target: Active},
}

// Describe returns what is known of s; ok is false for a word that is no state.
func Describe(s State) (info Info, ok bool) {
	for _, i := range States {
		if i.State == s {
			return i, true
		}
	}
	return Info{}, false
}

// Transient reports whether a rackd has, or should have, work on a node in s.
func Transient(s State) bool {
	i, _ := Describe(s)
	return i.Kind == Busy || i.Kind == Waiting
}
