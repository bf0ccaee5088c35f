package rescue

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pair of pseudo terminals.
type terminal struct{ master, slave *os.File }

// newTerminal opens a pair. /dev/pts has to be mounted.
func newTerminal() (*terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx") // it does not block, so closing it ends a read
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		master.Close()
		return nil, fmt.Errorf("unlock a pseudo terminal: %w", err)
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		master.Close()
		return nil, fmt.Errorf("name a pseudo terminal: %w", err)
	}
	path := "/dev/pts/" + strconv.FormatUint(uint64(n), 10)
	slave, err := openTTY(path)
	if err != nil {
		master.Close()
		return nil, err
	}
	return &terminal{master, slave}, nil
}

// openTTY opens a terminal that programs get. It blocks, as they expect.
func openTTY(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// resize tells programs how large the window is. Numbers beyond those of any screen are bounded.
func (t *terminal) resize(columns, rows uint32) {
	const most = 10_000
	raw, err := t.master.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(min(columns, most)), Row: uint16(min(rows, most))})
	})
}

// drain waits until all that programs have written is shown. One that runs on in the background keeps the terminal open.
func (t *terminal) drain(shown <-chan struct{}) {
	select {
	case <-shown:
	case <-time.After(time.Second):
	}
}

// close closes both ends; t may be nil.
func (t *terminal) close() {
	if t != nil {
		t.master.Close()
		t.slave.Close() // a second time it fails, as it should
	}
}
