package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread that is in the namespace. Sockets opened by f belong to
// the namespace for ever; goroutines and processes started by f do not.
func (n *Namespace) Do(f func() error) error {
	result := make(chan error, 1)
	// A goroutine of its own: if the way back fails, its thread is lost with it
	// instead of carrying other goroutines into the wrong namespace.
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("entering network namespace %s: %w", n.name, err)
			return
		}
		defer home.Close()
		err = n.enter()
		if err == nil {
			err = f()
		}
		// Always back, even though the thread may end with the goroutine: the
		// process's first thread never ends, it would hold the namespace open.
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// enter moves the calling thread into the namespace.
func (n *Namespace) enter() error {
	file, err := os.Open(n.path())
	if err != nil {
		return fmt.Errorf("entering network namespace %s: %w", n.name, err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering network namespace %s (needs root): %w", n.name, err)
	}
	return nil
}

// Listen is net.Listen inside the namespace. The address must be numeric.
func (n *Namespace) Listen(network, address string) (l net.Listener, err error) {
	if err := numeric(address); err != nil {
		return nil, err
	}
	err = n.Do(func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// ListenPacket is net.ListenPacket inside the namespace. The address must be numeric.
func (n *Namespace) ListenPacket(network, address string) (c net.PacketConn, err error) {
	if err := numeric(address); err != nil {
		return nil, err
	}
	err = n.Do(func() error {
		c, err = net.ListenPacket(network, address)
		return err
	})
	return c, err
}

// DialContext is net.Dialer.DialContext inside the namespace, for http.Transport
// and its like. The address must be numeric: looking up a name would happen on
// threads outside of the namespace.
func (n *Namespace) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	if err := numeric(address); err != nil {
		return nil, err
	}
	err = n.Do(func() error {
		// One address, so the dialer makes its socket on this thread.
		c, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Dial is DialContext without a limit.
func (n *Namespace) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

func numeric(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if host == "" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Errorf("address %s in a network namespace must be numeric: %w", address, err)
	}
	return nil
}
