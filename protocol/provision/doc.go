// Package provision is the provision state machine of a node: its states, the
// verbs an operator may ask for, the events that move a node, and the sets of
// states that gate what else may be done to it.
//
// Everything is data: Table holds the transitions, States describes the states,
// Verbs maps the API's words to events. The functions here only look things up.
// The behaviour matches OpenStack Ironic's ironic/common/states.py, API 1.115.
//
// It may import nothing of the project. Invariants, each held by a test: no
// state is a dead end, each transient state has a deadline and a failure
// transition, and a verb is refused wherever the table has no row for it.
package provision
