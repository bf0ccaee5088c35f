package network

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a nameless network namespace, held by an open file.
type namespace struct{ file *os.File }

// newNamespace makes a namespace with its loopback up.
func newNamespace() (*namespace, error) {
	var n *namespace
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace (needs root): %w", err)
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		n = &namespace{file}
		return setUp("lo")
	})
	return n, err
}

// do runs f on a thread in the namespace. Sockets and programs that f itself opens and
// starts belong to the namespace; goroutines that it starts do not.
func (n *namespace) do(f func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}

// onOwnThread runs f on a thread that afterwards is given back to the namespace where
// it came from, or ends.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer home.Close()
		err = f()
		// A thread that does not find back stays locked and ends with its goroutine.
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// enter moves the calling thread into the host's namespace for good.
func (h *Host) enter() error {
	if err := unix.Setns(int(h.ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering host %s: %w", h.Name, err)
	}
	return nil
}
