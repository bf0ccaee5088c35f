// Package initramfs writes the archives from which Linux fills its first root
// file system: cpio in the "newc" form (the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst), compressed.
//
// It may import nothing of the project. Invariant: the same calls give the same
// bytes, on every machine and at every time. Hence inode numbers count up, owner
// is root, times are zero, and the compressors run single-threaded without
// names or times in their headers. The order of entries is the caller's.
package initramfs
