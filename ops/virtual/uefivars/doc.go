// Package uefivars reads and writes the variable store of OVMF and, on arm64, AAVMF: a file that holds
// what a real board keeps in flash: boot order, iSCSI targets, keys of secure boot.
//
// It owns the store's layout (edk2, MdeModulePkg/Include/Guid/VariableFormat.h) and
// the contents of the variables that management sets (UEFI 2.10, sections 3, 10 and
// 32). It may import nothing of the project. The machine must be off: firmware keeps
// a copy in memory. Invariants:
//
//   - a layout that the package does not know is refused, before any change;
//   - a change does what the firmware does: it appends the new variable, marks the
//     old one deleted, and compacts the store when it is full;
//   - structures of edk2's own, whose size changes with its version, are written only
//     over one of the same size that the firmware wrote itself.
package uefivars
