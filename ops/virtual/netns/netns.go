package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Packages are the Debian packages whose programs this package runs.
var Packages = []string{"iproute2"}

// Bridge is the bridge's name inside the namespace.
const Bridge = "br0"

// bridgeMAC is fixed because a bridge otherwise takes the lowest address of its
// ports: it would change whenever a tap is added, under the clients' ARP caches.
const bridgeMAC = "02:49:59:00:00:01"

// maxInterfaceName is IFNAMSIZ without the terminating zero.
const maxInterfaceName = 15

const runDir = "/run/netns"

var validName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$`)

// ErrInUse is returned by Delete while processes live in the namespace.
var ErrInUse = errors.New("processes are running in the namespace")

// Namespace is a network namespace known by its name. Safe for concurrent use.
type Namespace struct{ name string }

// Open names a namespace without touching it.
func Open(name string) (*Namespace, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("network namespace %q: name must be letters, digits, '-', '_' or '.'", name)
	}
	return &Namespace{name: name}, nil
}

// Create makes the namespace, its loopback and its bridge with the given address,
// or completes what is there already. It needs root.
func Create(ctx context.Context, name string, bridge netip.Prefix) (*Namespace, error) {
	n, err := Open(name)
	if err != nil {
		return nil, err
	}
	if !n.Exists() {
		if err := ip(ctx, "netns", "add", name); err != nil {
			return nil, fmt.Errorf("creating network namespace %s (needs root): %w", name, err)
		}
	}
	steps := [][]string{{"link", "set", "lo", "up"}}
	if !n.hasLink(ctx, Bridge) {
		steps = append(steps, []string{"link", "add", Bridge, "address", bridgeMAC, "type", "bridge", "stp_state", "0", "forward_delay", "0"})
	}
	steps = append(steps,
		[]string{"address", "replace", bridge.String(), "dev", Bridge},
		[]string{"link", "set", Bridge, "up"},
	)
	for _, s := range steps {
		if err := n.ip(ctx, s...); err != nil {
			return nil, fmt.Errorf("setting up network namespace %s: %w", name, err)
		}
	}
	return n, nil
}

// Name is the name as ip netns list shows it.
func (n *Namespace) Name() string { return n.name }

// Exists tells whether the kernel knows the namespace.
func (n *Namespace) Exists() bool {
	_, err := os.Stat(n.path())
	return err == nil
}

// AddAddress gives the bridge another address, unless it has it. It can be used at once: an IPv6 address is not
// looked for on other hosts.
func (n *Namespace) AddAddress(ctx context.Context, a netip.Prefix) error {
	args := []string{"address", "replace", a.String(), "dev", Bridge}
	if a.Addr().Is6() {
		args = append(args, "nodad")
	}
	if err := n.ip(ctx, args...); err != nil {
		return fmt.Errorf("adding address %s in %s: %w", a, n.name, err)
	}
	return nil
}

// AddTap makes a tap device on the bridge, unless it is there.
func (n *Namespace) AddTap(ctx context.Context, tap string) error {
	if len(tap) > maxInterfaceName || !validName.MatchString(tap) {
		return fmt.Errorf("adding tap %q to %s: an interface name has 1 to %d letters, digits, '-' or '_'", tap, n.name, maxInterfaceName)
	}
	if !n.hasLink(ctx, tap) {
		if err := n.ip(ctx, "tuntap", "add", tap, "mode", "tap"); err != nil {
			return fmt.Errorf("adding tap %s to %s: %w", tap, n.name, err)
		}
	}
	if err := n.ip(ctx, "link", "set", tap, "master", Bridge, "up"); err != nil {
		return fmt.Errorf("attaching tap %s in %s: %w", tap, n.name, err)
	}
	return nil
}

// Delete removes the namespace with all its interfaces; one that does not exist is
// no error. It waits for processes inside to end until ctx is done (ten seconds at
// most) and then gives up with ErrInUse, because a deleted namespace lives on,
// nameless, for as long as a process is in it.
func (n *Namespace) Delete(ctx context.Context) error {
	if !n.Exists() {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		pids, err := n.processes()
		if err != nil {
			return fmt.Errorf("deleting network namespace %s: %w", n.name, err)
		}
		if len(pids) == 0 {
			break
		}
		select {
		case <-wait.Done():
			return fmt.Errorf("deleting network namespace %s: %w: %s; end them and try again", n.name, ErrInUse, strings.Join(pids, " "))
		case <-poll.C:
		}
	}
	if err := ip(ctx, "netns", "delete", n.name); err != nil && n.Exists() {
		return fmt.Errorf("deleting network namespace %s: %w", n.name, err)
	}
	return nil
}

// Command is exec.CommandContext for a program that is to run in the namespace.
// ip execs the program in its own place: the process id is the program's.
func (n *Namespace) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.name, name}, args...)...)
}

func (n *Namespace) path() string { return filepath.Join(runDir, n.name) }

func (n *Namespace) hasLink(ctx context.Context, link string) bool {
	return n.ip(ctx, "link", "show", "dev", link) == nil
}

func (n *Namespace) processes() ([]string, error) {
	out, err := exec.Command("ip", "netns", "pids", n.name).Output()
	if err != nil {
		return nil, fmt.Errorf("ip netns pids %s: %w", n.name, err)
	}
	return strings.Fields(string(out)), nil
}

func (n *Namespace) ip(ctx context.Context, args ...string) error {
	return ip(ctx, append([]string{"-n", n.name}, args...)...)
}

func ip(ctx context.Context, args ...string) error {
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Stderr = &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return nil
}
