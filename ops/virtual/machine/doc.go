// Package machine is one computer of the virtual rack: a QEMU process with real
// firmware (OVMF, SeaBIOS or, on arm64, AAVMF), a network card, a disk and a serial console.
//
// It owns the machine's folder: disk, firmware variables, serial log, power and boot
// state, what management has set for the next start. It may import ops/virtual/uefivars, and its own client for QMP.
//
// A machine outlives the program that controls it. QEMU runs on when the
// controller closes or dies, and Open finds it again by its QMP socket. Invariants:
//
//   - UEFI variables are changed only while no QEMU runs. What management sets is kept
//     in the state's file, tried on a copy, and written at the next start; what cannot be
//     written then is told in the log and waits on;
//   - what a machine does not take is errors.ErrUnsupported, with the reason as text;
//   - a medium is read by QEMU itself, and not before the machine is on;
//   - at most one QEMU runs per folder, held by a lock that QEMU itself carries;
//   - every start of the firmware is a fresh QEMU process with the boot order of that
//     moment, also after the guest's own reboot, because QEMU fixes the order when it
//     starts. So a one-shot override works as on a real board: next boot, any cause;
//   - the machine is on exactly when its QEMU process lives; a controller that
//     opens a machine which was on and lost its process turns it on again, as a
//     board does that is set to restore its power state.
package machine
