package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/netns"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// The networks of one rackd: that of the rack, a second one on an interface of its own, and one behind a relay.
const (
	secondBridge  = "br-second"
	secondNetwork = secondBridge + " 10.88.0.2/24 10.88.0.100-10.88.0.120 10.88.0.1"
	relayNetwork  = "10.89.0.0/24 10.89.0.100-10.89.0.110 10.89.0.1"
)

// One rackd serves two networks on two interfaces, and a third behind a relay. A machine in the second is deployed whole while one in the
// first is inspected. Each is told of the rackd's address in its own network: the first network is not reached from the second.
func TestSeveralNetworksOfARackd(t *testing.T) {
	needsTime(t)
	ctx := limit(t, 15*time.Minute)
	d := alone(t)
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := ns.Command(context.WithoutCancel(ctx), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	there, err := theRack.Machine("bios-0")
	if err != nil {
		t.Fatal(err)
	}
	ip("link", "add", secondBridge, "type", "bridge")
	t.Cleanup(func() { ip("link", "del", secondBridge) })
	ip("addr", "add", "10.88.0.2/24", "dev", secondBridge)
	ip("link", "set", secondBridge, "up")
	ip("link", "set", there.Tap, "master", secondBridge)
	t.Cleanup(func() { ip("link", "set", there.Tap, "master", netns.Bridge) })

	d.Stop()
	t.Cleanup(func() { d.Stop(); revive(t, d) })
	if err := d.Start(ctx, "--router", theRack.Address().String(), "--further-network", secondNetwork, "--dhcp-subnet", relayNetwork); err != nil {
		t.Fatal(err)
	}
	t.Run("behind a relay", func(t *testing.T) { behindRelay(ctx, t, ns) })
	t.Run("on two interfaces", func(t *testing.T) {
		for name, c := range map[string]struct {
			own, other string
			deploys    bool
		}{
			"uefi-0": {d.Address.String(), "10.88.0.", false},
			"bios-0": {"10.88.0.2", d.Address.String(), true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inItsNetwork(ctx, t, name, c.own, c.other, c.deploys)
			})
		}
	})
}

// inItsNetwork deploys or inspects a machine, and looks that it loads from the rackd's address in its network, and from no other.
func inItsNetwork(ctx context.Context, t *testing.T, name, own, other string, deploys bool) {
	o, console := theRack.Operator, consoleFromNow(t, name)
	before, err := os.ReadFile(console.Path()) // what the machine said in earlier tests
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	id := enrolled(ctx, t, name, nil)
	if deploys {
		if err := o.MakeAvailable(ctx, id); err != nil {
			t.Fatal(err)
		}
		if err := o.SetImage(ctx, id, qcow2()); err != nil {
			t.Fatal(err)
		}
		deployed(ctx, t, id, name)
		undeployed(ctx, t, id)
	} else {
		for _, verb := range []string{"manage", "inspect"} {
			if err := o.Ask(ctx, id, verb, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(ctx, id, provision.Manageable); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []string{`http://` + regexp.QuoteMeta(own) + `:8080/boot/script`, `ipa-api-url=https://` + regexp.QuoteMeta(own) + `:6386/boot/`, agentKnown.String()} {
		if _, err := console.Wait(ctx, regexp.MustCompile(want)); err != nil {
			t.Errorf("the console does not say %s: %v", want, err)
		}
	}
	all, err := os.ReadFile(console.Path())
	if err != nil {
		t.Fatal(err)
	}
	all = bytes.TrimPrefix(all, before)
	if at := bytes.Index(all, []byte("//"+other)); at >= 0 {
		t.Errorf("the machine is told of an address in the other network: %s", all[max(0, at-80):min(len(all), at+80)])
	}
	prefix := "https://" + own[:strings.LastIndex(own, ".")+1]
	calls := works.matching(func(w work.Document) bool {
		return w.Node == id && w.Checkpoint.Agent != nil && w.Checkpoint.Agent.URL != ""
	})
	if len(calls) == 0 {
		t.Error("no agent was noted")
	}
	for _, w := range calls {
		if at := w.Checkpoint.Agent.URL; !strings.HasPrefix(at, prefix) {
			t.Errorf("the agent is at %s, want it below %s", at, prefix)
		}
	}
}

// behindRelay has ISC's dhclient ask for an address behind dnsmasq, which relays. It is given one of that network, by its router, and where
// the rackd is that the router leads to.
func behindRelay(ctx context.Context, t *testing.T, ns *netns.Namespace) {
	const mac = "52:54:00:88:89:01"
	enrolled(ctx, t, "small-0", func(m *operator.Machine) { m.Name, m.MACs = "relayed-0", []string{mac} })
	router, client := "iy-router", "iy-client"
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(context.WithoutCancel(ctx), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	gateway := theRack.Address()
	for range 240 { // far from the rackds and from their leases
		gateway = gateway.Next()
	}
	for _, name := range []string{router, client} {
		ip("netns", "add", name)
		t.Cleanup(func() { ip("netns", "del", name) })
	}
	ip("-n", ns.Name(), "link", "add", "to-router", "type", "veth", "peer", "name", "up0", "netns", router)
	ip("-n", ns.Name(), "link", "set", "to-router", "master", netns.Bridge, "up")
	ip("-n", router, "link", "add", "down0", "type", "veth", "peer", "name", "up0", "netns", client)
	ip("-n", router, "addr", "add", gateway.String()+"/24", "dev", "up0")
	ip("-n", router, "addr", "add", "10.89.0.1/24", "dev", "down0")
	for _, link := range []string{"lo", "up0", "down0"} {
		ip("-n", router, "link", "set", link, "up")
	}
	ip("netns", "exec", router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
	ip("-n", client, "link", "set", "up0", "address", mac, "up")
	ip("-n", ns.Name(), "route", "add", "10.89.0.0/24", "via", gateway.String())
	t.Cleanup(func() { ip("-n", ns.Name(), "route", "del", "10.89.0.0/24") })

	server := theRack.Rackds[0].Address.String()
	relay := exec.CommandContext(ctx, "ip", "netns", "exec", router, "dnsmasq", "-k", "--conf-file=/dev/null", "--port=0", "--pid-file=", "--user=root", "--dhcp-relay=10.89.0.1,"+server)
	relay.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := relay.Start(); err != nil {
		t.Fatalf("%v (Debian's package dnsmasq-base)", err)
	}
	t.Cleanup(func() { _ = relay.Process.Kill(); _ = relay.Wait() })

	dir := t.TempDir()
	conf, script, given := filepath.Join(dir, "conf"), filepath.Join(dir, "script"), filepath.Join(dir, "given")
	asks := "send vendor-class-identifier \"PXEClient:Arch:00007:UNDI:003001\";\noption arch code 93 = unsigned integer 16;\nsend arch 7;\nrequest subnet-mask, routers, bootfile-name, tftp-server-name;\n"
	body := "#!/bin/sh\n[ \"$reason\" = BOUND ] || exit 0\nip addr add $new_ip_address/$new_subnet_mask dev up0\nip route add default via $new_routers\n" +
		"echo \"ip=$new_ip_address router=$new_routers server=$new_dhcp_server_identifier next=$new_next_server tftp=$new_tftp_server_name file=$new_bootfile_name$new_filename\" > " + given + "\n"
	for path, text := range map[string]string{conf: asks, script: body} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dhclient := exec.CommandContext(ctx, "ip", "netns", "exec", client, "dhclient", "-d", "-1", "-v", "-cf", conf, "-sf", script, "-lf", filepath.Join(dir, "leases"), "-pf", filepath.Join(dir, "pid"), "up0")
	dhclient.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said lockedBuffer
	dhclient.Stdout, dhclient.Stderr = &said, &said
	if err := dhclient.Start(); err != nil {
		t.Fatalf("%v (Debian's package isc-dhcp-client)", err)
	}
	t.Cleanup(func() { _ = dhclient.Process.Kill(); _ = dhclient.Wait() })
	got := fileSays(ctx, t, given, &said)
	t.Log(got)
	want := regexp.MustCompile(`^ip=10\.89\.0\.1(0\d|10) router=10\.89\.0\.1 server=` + regexp.QuoteMeta(server) + ` next=` + regexp.QuoteMeta(server) + ` tftp=` + regexp.QuoteMeta(server) + ` file=\S*snponly\.efi`)
	if !want.MatchString(got) {
		t.Errorf("dhclient was given %q, want %s", got, want)
	}
	// What it was told of is reached from there, by its router.
	out, err := exec.CommandContext(ctx, "ip", "netns", "exec", client, "curl", "-sS", "--max-time", "20", "http://"+server+":8080/boot/script?mac="+mac).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "#!ipxe") || strings.Contains(string(out), "10.88.0.") {
		t.Errorf("the script by way of the router: %v: %s", err, out)
	}
}

// lockedBuffer is what a program says.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// fileSays waits until a program has written a line to a file.
func fileSays(ctx context.Context, t *testing.T, path string, said fmt.Stringer) string {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, fmt.Errorf("not within 2 minutes"))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if body, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(body), "\n") {
			return strings.TrimSpace(string(body))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("nothing in %s: %v; the program said:\n%s", path, context.Cause(ctx), said)
		}
	}
}
