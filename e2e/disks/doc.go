// Package disks shows what the agent does with disks that fail, lie and are not what they seem, on a
// real kernel with its drivers: the machine is QEMU, its disks are broken by QEMU's block layer.
//
// It holds tests only. It may import ops/virtual/agentvm and protocol. The verdicts are those of
// docs/disks.md: a deploy or an erasure ends well with the right bytes on the right disk, or it fails
// and names the disk.
package disks
