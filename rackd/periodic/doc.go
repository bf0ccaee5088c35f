// Package periodic does for the idle nodes of this rackd what is due from time to time. Each Task has an interval, a filter and one
// function. One line adds it: of rackd/daemon, or of a hardware type (driver.Type.Periodic).
//
// It may import protocol and rackd/driver; it declares what else it needs.
// Invariants:
//   - A task runs only for nodes that the ring gives to this rackd and that have no open work.
//   - The nodes of a task are spread evenly over its interval, by their key. Two rackds need not agree on the moment.
//   - One call at a time goes to all nodes that share a BMC's account, whichever task makes it.
//   - A node that fails is left alone for a time that grows, with jitter. Refused credentials rest longest, so that no
//     account is locked out, until the node's document changes.
//   - A run that has sent nothing, because a driver holds credentials back (driver.Withheld), is no failure and counts for nothing.
//     The next comes at the usual interval.
//   - What a leading task has found out about a BMC keeps the other tasks from it.
//
// Everything exported is safe for concurrent use.
package periodic
