package arpprobe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A host that uses an address answers, also one that drops pings; a free address is free, and the
// answer comes in time. The test runs once more inside a network namespace, whose neighbour is another.
func TestProbe(t *testing.T) {
	if os.Getenv("ARPPROBE_INSIDE") == "" {
		outside(t)
		return
	}
	host, free := netip.MustParseAddr("10.79.0.2"), netip.MustParseAddr("10.79.0.3")
	begun := time.Now()
	used, err := Prober{"near"}.Probe(t.Context(), []netip.Addr{host, free})
	if err != nil || len(used) != 1 || used[host] != "02:00:00:00:00:02" {
		t.Errorf("in use: %v, %v; want %s", used, err, host)
	}
	if took := time.Since(begun); took > 2*Wait {
		t.Errorf("the probe took %v, want about %v", took, Wait)
	}
	if _, err := (Prober{"none"}).Probe(t.Context(), []netip.Addr{host}); err == nil {
		t.Error("an interface that does not exist is probed")
	}
}

func outside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: network namespaces want root")
	}
	a, b := fmt.Sprintf("arpprobe-a-%d", os.Getpid()), fmt.Sprintf("arpprobe-b-%d", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	for _, ns := range []string{a, b} {
		ip("netns", "add", ns)
		t.Cleanup(func() { ip("netns", "del", ns) })
	}
	ip("-n", a, "link", "add", "near", "type", "veth", "peer", "name", "far", "address", "02:00:00:00:00:02", "netns", b)
	ip("-n", b, "addr", "add", "10.79.0.2/24", "dev", "far")
	ip("-n", a, "link", "set", "near", "up")
	ip("-n", b, "link", "set", "far", "up")
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", a, os.Args[0], "-test.run=^TestProbe$", "-test.v")
	cmd.Env = append(os.Environ(), "ARPPROBE_INSIDE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

func TestSender(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	a := netip.MustParseAddr("10.0.0.7")
	frame := request(mac, a)
	if got, _, ok := sender(frame); ok {
		t.Errorf("another rackd's probe counts as the use of %s", got)
	}
	copy(frame[28:], []byte{10, 0, 0, 8})
	if got, from, ok := sender(frame); !ok || got.String() != "10.0.0.8" || from.String() != mac.String() {
		t.Errorf("a request: %s, %v", got, ok)
	}
	for n := range frame {
		if _, _, ok := sender(frame[:n]); ok {
			t.Errorf("a frame of %d bytes is read", n)
		}
	}
}
