package boot

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Actions of syslog(2).
const (
	readAll    = 3
	sizeBuffer = 10
)

// errNotWhole is a ramdisk of which the kernel could unpack a part only. It may lack modules, the node's network_data or
// certificates.
var errNotWhole = errors.New("the kernel could not unpack the whole ramdisk, so it came damaged: look at the machine's memory, and at what it boots from (medium, network, firmware)")

// whole fails for a ramdisk that the kernel says it could not unpack. The kernel starts it all the same.
func whole() error {
	size, err := unix.Klogctl(sizeBuffer, nil)
	if err != nil {
		return fmt.Errorf("the size of the kernel's log: %w", err)
	}
	log := make([]byte, size)
	n, err := unix.Klogctl(readAll, log)
	if err != nil {
		return fmt.Errorf("read the kernel's log: %w", err)
	}
	return wholeBy(log[:n])
}

func wholeBy(log []byte) error {
	i := bytes.Index(log, []byte("Initramfs unpacking failed"))
	if i < 0 {
		return nil
	}
	line, _, _ := bytes.Cut(log[i:], []byte("\n"))
	return fmt.Errorf("%w (the kernel says: %s)", errNotWhole, line)
}
