// Package ipmisim is a BMC of IPMI for a machine of the virtual rack: OpenIPMI's simulator ipmi_sim, which has nothing of this
// project in it.
//
// It owns the simulator's folder, its process, and the pipes through which it controls the machine. It may import ops/virtual/machine,
// ops/virtual/netns and ops/virtual/lab. Invariants:
//   - The simulator's process ends with Serve.
//   - Passwords stand in a file of the folder that its owner alone reads, never in arguments.
//   - A login of IPMI 1.5 needs the password.
//
// ipmi_sim (2.0.33) speaks IPMI 1.5 and 2.0, with the cipher suites 2 and 3. It takes suite 0, which asks for no password, and cannot
// be told not to: each program that reaches it may control the machine. Of the boot flags it keeps the device only, and it has no
// diagnostic interrupt.
package ipmisim

// Packages are the Debian packages whose programs this package runs.
var Packages = []string{"openipmi"}
