package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// granted are requests of programs to their device that the kernel grants to CAP_SYS_ADMIN alone. They set the size of the blocks in
// which the kernel keeps the device in memory, and have it forget what it keeps. Neither changes what is on the device, and mkfs.xfs ends
// where one fails. So the program is told that it was done. The caller of Run writes out the device after it.
var granted = []uint32{unix.BLKBSZSET, unix.BLKFLSBUF}

// Offsets in what the kernel shows a filter of a system call (seccomp_data in linux/seccomp.h, on processors that are little endian).
const (
	offNumber  = 0
	offArch    = 4
	offRequest = 24 // the low half of the second argument
)

// architectures are the kernel's names of those that the agent is built for.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// grant has the granted requests of this thread, and of what it executes, succeed without being done. Other calls are as they were.
func grant() error {
	const load, is, ends = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	n := uint8(len(granted))
	filter := []unix.SockFilter{
		{Code: load, K: offArch}, {Code: is, K: architectures[runtime.GOARCH], Jf: 3 + n},
		{Code: load, K: offNumber}, {Code: is, K: unix.SYS_IOCTL, Jf: 1 + n},
		{Code: load, K: offRequest},
	}
	for i, request := range granted {
		filter = append(filter, unix.SockFilter{Code: is, K: request, Jt: n - uint8(i)})
	}
	// An error of 0 is a success.
	filter = append(filter, unix.SockFilter{Code: ends, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: ends, K: unix.SECCOMP_RET_ERRNO})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, e := unix.Syscall6(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0, 0); e != 0 {
		return fmt.Errorf("prctl(PR_SET_SECCOMP): %w", e)
	}
	runtime.KeepAlive(filter)
	return nil
}
