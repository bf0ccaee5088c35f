package provision

import "fmt"

// Event moves a node from one state to another.
type Event string

// The events. Those an operator can cause are listed in Verbs.
const (
	EventManage   Event = "manage"
	EventProvide  Event = "provide"
	EventInspect  Event = "inspect"
	EventClean    Event = "clean"
	EventDeploy   Event = "deploy"
	EventRebuild  Event = "rebuild"
	EventDelete   Event = "delete"
	EventAbort    Event = "abort"
	EventAdopt    Event = "adopt"
	EventRescue   Event = "rescue"
	EventUnrescue Event = "unrescue"
	EventUnhold   Event = "unhold"
	EventService  Event = "service"

	EventDone   Event = "done"
	EventFail   Event = "fail"
	EventWait   Event = "wait"
	EventResume Event = "resume"
	EventHold   Event = "hold"
)

// Cause says who may apply a transition.
type Cause string

// The causes.
const (
	ByUser  Cause = "user"  // central, on an operator's verb
	ByRackd Cause = "rackd" // the owner of the node's work
)

// Transition is one row of the state machine.
type Transition struct {
	From  State
	Event Event
	To    State
	Cause Cause
}

// Table is the whole state machine.
var Table = []Transition{
	{Enroll, EventManage, Verifying, ByUser},
	{Verifying, EventDone, Manageable, ByRackd},
	{Verifying, EventFail, Enroll, ByRackd},

	{Manageable, EventProvide, Cleaning, ByUser},
	{Manageable, EventClean, Cleaning, ByUser},
	{Manageable, EventInspect, Inspecting, ByUser},
	{Manageable, EventAdopt, Adopting, ByUser},

	{Available, EventDeploy, Deploying, ByUser},
	{Available, EventManage, Manageable, ByUser},

	{Cleaning, EventDone, Available, ByRackd},
	{Cleaning, EventManage, Manageable, ByRackd},
	{Cleaning, EventFail, CleanFail, ByRackd},
	{Cleaning, EventWait, CleanWait, ByRackd},
	{Cleaning, EventHold, CleanHold, ByRackd},
	{CleanWait, EventResume, Cleaning, ByRackd},
	{CleanWait, EventFail, CleanFail, ByRackd},
	{CleanWait, EventHold, CleanHold, ByRackd},
	{CleanWait, EventAbort, CleanFail, ByUser},
	{CleanHold, EventUnhold, CleanWait, ByUser},
	{CleanHold, EventAbort, CleanFail, ByUser},
	{CleanFail, EventManage, Manageable, ByUser},

	{Deploying, EventDone, Active, ByRackd},
	{Deploying, EventFail, DeployFail, ByRackd},
	{Deploying, EventWait, DeployWait, ByRackd},
	{Deploying, EventHold, DeployHold, ByRackd},
	{DeployWait, EventResume, Deploying, ByRackd},
	{DeployWait, EventFail, DeployFail, ByRackd},
	{DeployWait, EventHold, DeployHold, ByRackd},
	{DeployWait, EventAbort, DeployFail, ByUser},
	{DeployWait, EventDelete, Deleting, ByUser},
	{DeployHold, EventUnhold, DeployWait, ByUser},
	{DeployHold, EventAbort, DeployFail, ByUser},
	{DeployFail, EventDeploy, Deploying, ByUser},
	{DeployFail, EventRebuild, Deploying, ByUser},
	{DeployFail, EventDelete, Deleting, ByUser},

	{Active, EventRebuild, Deploying, ByUser},
	{Active, EventDelete, Deleting, ByUser},
	{Active, EventRescue, Rescuing, ByUser},
	{Active, EventService, Servicing, ByUser},
	{Error, EventRebuild, Deploying, ByUser},
	{Error, EventDelete, Deleting, ByUser},

	{Deleting, EventClean, Cleaning, ByRackd},
	{Deleting, EventFail, Error, ByRackd},

	{Inspecting, EventDone, Manageable, ByRackd},
	{Inspecting, EventWait, InspectWait, ByRackd},
	{Inspecting, EventFail, InspectFail, ByRackd},
	{InspectWait, EventResume, Inspecting, ByRackd},
	{InspectWait, EventDone, Manageable, ByRackd},
	{InspectWait, EventFail, InspectFail, ByRackd},
	{InspectWait, EventAbort, InspectFail, ByUser},
	{InspectFail, EventManage, Manageable, ByUser},
	{InspectFail, EventInspect, Inspecting, ByUser},

	{Adopting, EventDone, Active, ByRackd},
	{Adopting, EventFail, AdoptFail, ByRackd},
	{AdoptFail, EventAdopt, Adopting, ByUser},
	{AdoptFail, EventManage, Manageable, ByUser},

	{Rescuing, EventDone, Rescue, ByRackd},
	{Rescuing, EventWait, RescueWait, ByRackd},
	{Rescuing, EventFail, RescueFail, ByRackd},
	{RescueWait, EventResume, Rescuing, ByRackd},
	{RescueWait, EventFail, RescueFail, ByRackd},
	{RescueWait, EventAbort, RescueFail, ByUser},
	{RescueWait, EventDelete, Deleting, ByUser},
	{Rescue, EventRescue, Rescuing, ByUser},
	{Rescue, EventUnrescue, Unrescuing, ByUser},
	{Rescue, EventDelete, Deleting, ByUser},
	{RescueFail, EventRescue, Rescuing, ByUser},
	{RescueFail, EventUnrescue, Unrescuing, ByUser},
	{RescueFail, EventDelete, Deleting, ByUser},
	{Unrescuing, EventDone, Active, ByRackd},
	{Unrescuing, EventFail, UnrescueFail, ByRackd},
	{UnrescueFail, EventRescue, Rescuing, ByUser},
	{UnrescueFail, EventUnrescue, Unrescuing, ByUser},
	{UnrescueFail, EventDelete, Deleting, ByUser},

	{Servicing, EventDone, Active, ByRackd},
	{Servicing, EventFail, ServiceFail, ByRackd},
	{Servicing, EventWait, ServiceWait, ByRackd},
	{Servicing, EventHold, ServiceHold, ByRackd},
	{ServiceWait, EventResume, Servicing, ByRackd},
	{ServiceWait, EventFail, ServiceFail, ByRackd},
	{ServiceWait, EventHold, ServiceHold, ByRackd},
	{ServiceWait, EventAbort, ServiceFail, ByUser},
	{ServiceWait, EventDelete, Deleting, ByUser},
	{ServiceHold, EventService, Servicing, ByUser},
	{ServiceHold, EventUnhold, ServiceWait, ByUser},
	{ServiceHold, EventFail, ServiceFail, ByRackd},
	{ServiceHold, EventAbort, ServiceFail, ByUser},
	{ServiceFail, EventService, Servicing, ByUser},
	{ServiceFail, EventRescue, Rescuing, ByUser},
	{ServiceFail, EventAbort, Active, ByUser},
	{ServiceFail, EventWait, ServiceWait, ByRackd},
	{ServiceFail, EventHold, ServiceHold, ByRackd},
	{ServiceFail, EventDelete, Deleting, ByUser},
}

type edge struct {
	from  State
	event Event
}

var edges = func() map[edge]Transition {
	m := make(map[edge]Transition, len(Table))
	for _, t := range Table {
		e := edge{t.From, t.Event}
		if _, twice := m[e]; twice {
			panic(fmt.Sprintf("provision: two transitions from %q on %q", t.From, t.Event))
		}
		m[e] = t
	}
	return m
}()

// Next returns the transition that e causes in state from; ok is false when the
// state machine has none.
func Next(from State, e Event) (t Transition, ok bool) {
	t, ok = edges[edge{from, e}]
	return t, ok
}
