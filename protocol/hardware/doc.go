// Package hardware is what racks tell central of a machine besides its inventory: the
// settings, firmware, boot mode and health that its BMC reports, and what its drivers
// keep; and the rules for RAID configurations, which both sides know.
//
// It imports nothing of the project. Values are immutable once they are sent.
package hardware
