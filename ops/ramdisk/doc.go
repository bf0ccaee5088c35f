// Package ramdisk builds what a machine boots to be provisioned: a Debian kernel
// and an initramfs that holds the agent as /init and the kernel's modules; as two files, and
// as one UEFI program too (ops/uki).
//
// It may import ops/debkernel, ops/elflibs, ops/initramfs, ops/uki and protocol/agentapi. Invariant: the same agent, kernel
// and list of modules give the same bytes, on every machine and at every time; so a
// checksum names a ramdisk, and caches and signatures work. Files appear whole or
// not at all.
package ramdisk
