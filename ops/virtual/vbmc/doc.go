// Package vbmc is a virtual BMC: a Redfish service over HTTPS that controls one
// computer and behaves like an ordinary server's, sessions, ETags and all.
//
// It owns the wire: resources, authentication, the journal of writes and the
// faults that a test injects. What a power action does is the Computer's affair, and
// so is what a setting does; a Computer shows by further interfaces what it can.
// It may import nothing of the project. Invariants:
//
//   - every write that reaches the service is in the journal, refused or not, without secrets;
//   - nothing but the service root and its version list is readable without credentials;
//   - no secret is readable at all, but for one in the URL of a firmware's file: a task that could not fetch it repeats it;
//   - what is patched is taken as a whole, or refused by a property's name.
package vbmc
