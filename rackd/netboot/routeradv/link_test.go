package routeradv

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// hosts is a directory in which each machine boots the ramdisk.
type hosts struct{}

func (hosts) ByUUID(string) (netboot.Machine, bool) { return netboot.Machine{}, false }
func (hosts) ByMAC(string) (netboot.Machine, bool) {
	return netboot.Machine{Order: bootorder.Ramdisk(bootorder.Load{})}, true
}

// A Linux kernel solicits a router when its link comes up. It takes the server's answer and gets no route by it, where
// there is no router. Beside radvd, which answers one host alone, the server is silent.
func TestOnALink(t *testing.T) {
	inside := os.Getenv("ROUTERADV_INSIDE")
	if inside == "" {
		for _, beside := range []string{"nobody", "radvd", "nobody, with DHCPv6"} {
			t.Run(beside, func(t *testing.T) {
				t.Parallel()
				outside(t, beside)
			})
		}
		return
	}
	link, err := Listen("switch", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	reg, dhcp := prometheus.NewRegistry(), DHCP{}
	if inside == withDHCP {
		dhcp.Prefix = netip.MustParsePrefix("fd00:77::/64")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- New(link, hosts{}, dhcp, netboot.NewMetrics(reg), slog.New(slog.NewTextHandler(os.Stdout, nil))).Serve(ctx)
	}()
	time.Sleep(listensFirst + time.Second)
	machine := os.Getenv("ROUTERADV_MACHINE")
	ip(t, "-n", machine, "link", "set", "far", "up")
	sent := func() float64 {
		n, err := testutil.GatherAndCount(reg, "ironyard_rackd_router_answers_total")
		if err != nil {
			t.Fatal(err)
		}
		return float64(n)
	}
	// The kernel solicits until it has an answer, at most three times with 4 s between.
	answered := func() bool {
		if inside == "radvd" {
			return strings.Contains(ip(t, "-n", machine, "-6", "route", "show", "default"), "proto ra")
		}
		return sent() > 0
	}
	for end := time.Now().Add(20 * time.Second); !answered() && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	routes := ip(t, "-n", machine, "-6", "route", "show", "default")
	switch {
	case inside == "radvd" && (sent() > 0 || !strings.Contains(routes, "proto ra")):
		t.Errorf("beside a router: %v kinds of answers were sent, the machine has %q", sent(), routes)
	case inside != "radvd" && (sent() != 1 || routes != ""):
		t.Errorf("without a router: %v kinds of answers were sent, the machine has %q", sent(), routes)
	}
	if inside == withDHCP {
		sentToDHCP(t, machine)
		// The interface goes down and comes back: the server outlives that, and answers as before.
		ip(t, "link", "set", "switch", "down")
		time.Sleep(pause + pause/2)
		ip(t, "link", "set", "switch", "up")
		time.Sleep(pause)
		sentToDHCP(t, machine)
		// It is made again, as a bridge whose configuration is loaded again: the server hears the one that has its name now.
		ports := regexp.MustCompile(`(?m)^\d+: ([^:@]+)`).FindAllStringSubmatch(ip(t, "-o", "link", "show", "master", "switch"), -1)
		ip(t, "link", "del", "switch")
		ip(t, "link", "add", "switch", "type", "bridge", "mcast_snooping", "0")
		for _, p := range ports {
			ip(t, "link", "set", p[1], "master", "switch")
		}
		ip(t, "link", "set", "switch", "up")
		sentToDHCP(t, machine) // asks for 5 s
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

const withDHCP = "nobody, with DHCPv6"

// sentToDHCP requires that rdisc6, a program of others, reads in the answer that there is DHCPv6 and no router. The
// kernel must reach the prefix, and make itself no address of it.
func sentToDHCP(t *testing.T, machine string) {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", machine, "rdisc6", "-1", "-r", "5", "far").CombinedOutput()
	if err != nil {
		t.Fatalf("rdisc6: %v: %s", err, out)
	}
	for _, want := range []string{`Stateful address conf\. *: +Yes`, `Stateful other conf\. *: +Yes`, `Router lifetime *: +0 `, `Prefix *: fd00:77::/64`, `On-link *: +Yes`, `Autonomous address conf\.: +No`, `Valid time *: +infinite`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if routes := ip(t, "-n", machine, "-6", "route", "show", "fd00:77::/64"); !strings.Contains(routes, "dev far") {
		t.Errorf("the prefix is not on the link: %q", routes)
	}
	if has := ip(t, "-n", machine, "-6", "addr", "show", "dev", "far"); strings.Contains(has, "fd00:77:") {
		t.Errorf("the kernel has made itself an address: %s", has)
	}
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// outside makes a switch and a machine beside it, whose link is down, and runs the test once more at the switch.
func outside(t *testing.T, beside string) {
	if os.Geteuid() != 0 {
		t.Skip("not run: network namespaces want root")
	}
	radvd, err := exec.LookPath("radvd")
	if err != nil && beside == "radvd" {
		t.Skip("not run: radvd is not installed")
	}
	if _, err := exec.LookPath("rdisc6"); err != nil && beside == withDHCP {
		t.Skip("not run: rdisc6 is not installed (Debian's package ndisc6)")
	}
	named := func(place string) string {
		return fmt.Sprintf("routeradv-%s-%s-%d", place, strings.NewReplacer(" ", "", ",", "").Replace(beside), os.Getpid())
	}
	rack, machine, router := named("a"), named("b"), named("c")
	for _, ns := range []string{rack, machine, router} {
		ip(t, "netns", "add", ns)
		t.Cleanup(func() { ip(t, "netns", "del", ns) })
	}
	ip(t, "-n", rack, "link", "add", "switch", "type", "bridge")
	ip(t, "-n", rack, "link", "set", "switch", "up")
	for port, ns := range map[string]string{"machine": machine, "router": router} {
		ip(t, "-n", rack, "link", "add", port, "type", "veth", "peer", "name", "far", "netns", ns)
		ip(t, "-n", rack, "link", "set", port, "master", "switch", "up")
	}
	if beside == "radvd" {
		ip(t, "-n", router, "link", "set", "far", "up")
		waitForAddress(t, router)
		at := filepath.Join(t.TempDir(), "radvd.conf")
		// It is started before the server, and advertises itself to all much later: the server has to ask.
		text := "interface far { AdvSendAdvert on; MinRtrAdvInterval 1000; MaxRtrAdvInterval 1800; AdvRASolicitedUnicast on; };\n"
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, "ip", "netns", "exec", router, radvd, "-n", "-C", at, "-m", "stderr", "-p", filepath.Join(t.TempDir(), "pid"), "-u", "root")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(); _ = cmd.Wait() }) // it was killed
		time.Sleep(5 * time.Second)                  // its first advertisements, which come at once, are over
	}
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", rack, os.Args[0], "-test.run=^TestOnALink$", "-test.v")
	cmd.Env = append(os.Environ(), "ROUTERADV_INSIDE="+beside, "ROUTERADV_MACHINE="+machine)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// waitForAddress waits until duplicate address detection of a namespace's link-local address is over.
func waitForAddress(t *testing.T, ns string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if out := ip(t, "-n", ns, "-6", "addr", "show", "dev", "far", "scope", "link"); strings.Contains(out, "fe80") && !strings.Contains(out, "tentative") {
			return
		}
	}
	t.Fatal("the router has no address")
}

func TestListenOnWhatIsNotThere(t *testing.T) {
	if _, err := Listen("none", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("an interface that does not exist is listened on")
	}
	if _, err := net.InterfaceByName("lo"); err == nil {
		if _, err := Listen("lo", slog.New(slog.DiscardHandler)); err == nil {
			t.Error("loopback is listened on")
		}
	}
}
