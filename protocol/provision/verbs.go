package provision

import "fmt"

// Verb is a word of the API: the "target" of PUT …/states/provision.
type Verb struct {
	Name  string
	Event Event
	// Since is the API minor version that brought the verb.
	Since int
}

// Verbs lists every verb the API accepts.
var Verbs = []Verb{
	{"active", EventDeploy, 1},
	{"deploy", EventDeploy, 73},
	{"rebuild", EventRebuild, 1},
	{"deleted", EventDelete, 1},
	{"undeploy", EventDelete, 1}, // 73 by Ironic's documents, which its API does not ask about
	{"manage", EventManage, 4},
	{"provide", EventProvide, 4},
	{"inspect", EventInspect, 6},
	{"abort", EventAbort, 13},
	{"clean", EventClean, 15},
	{"adopt", EventAdopt, 17},
	{"rescue", EventRescue, 38},
	{"unrescue", EventUnrescue, 38},
	{"unhold", EventUnhold, 85},
	{"service", EventService, 87},
}

// abortSince are the states in which abort came later than the verb itself.
var abortSince = map[State]int{InspectWait: 41, DeployWait: 110}

// LookupVerb returns the verb with that name.
func LookupVerb(name string) (Verb, bool) {
	for _, v := range Verbs {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}

// SinceIn returns the API minor version from which v may be used on a node in s.
func (v Verb) SinceIn(s State) int {
	if v.Event == EventAbort && abortSince[s] > v.Since {
		return abortSince[s]
	}
	return v.Since
}

// InvalidStateError says that a verb is not allowed in a state.
type InvalidStateError struct {
	Verb string
	From State
}

func (e *InvalidStateError) Error() string {
	return fmt.Sprintf("The requested action %q can not be performed on a node in state %q.", e.Verb, e.From)
}

// Request returns the transition that verb v asks for on a node in state from,
// or an *InvalidStateError.
func Request(from State, v Verb) (Transition, error) {
	t, ok := Next(from, v.Event)
	if !ok || t.Cause != ByUser {
		return Transition{}, &InvalidStateError{Verb: v.Name, From: from}
	}
	return t, nil
}

// TargetOf returns the target provision state of a node that has entered to by
// event e, empty when it rests there. previous is the target it had before; a
// node on its way to something keeps that (a manual clean stays bound for
// manageable through waiting, holding and failing).
func TargetOf(to State, e Event, previous State) State {
	info, _ := Describe(to)
	switch {
	case info.Kind == Stable:
		return NoState
	case e == EventClean && to == Cleaning && previous == NoState:
		return Manageable
	case (e == EventWait || e == EventResume || e == EventHold || e == EventUnhold || e == EventFail || e == EventAbort) && previous != NoState:
		return previous
	}
	return info.Target
}
