// Package testimage builds the operating system that the virtual rack deploys: a
// whole-disk image that boots under UEFI and BIOS alike, prints the instance's
// marker on the serial console and stays (see its init). That of arm64 boots under UEFI.
//
// It owns the image's layout and the folder it builds into. It may import
// ops/debkernel, ops/initramfs and ops/uki; its init imports nothing of the project.
//
// Invariants:
//
//   - the same init, kernel and GRUB, or stub on arm64, give the same bytes: names, times and
//     identifiers are fixed, so a digest that a node carries stays valid;
//   - what Images names is whole: files appear by rename, the stamp that vouches
//     for them is written last, and a lock keeps builders apart;
//   - the last MiB is free and no partition is called config-2, so that a deploy
//     makes the config drive's partition itself.
package testimage
