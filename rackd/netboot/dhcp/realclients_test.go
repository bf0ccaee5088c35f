package dhcp

import (
	"bytes"
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

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
)

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Programs of others speak DHCPv6 with the server: ISC's client, on the server's link and behind dnsmasq as a relay.
func TestDHCPv6WithRealClients(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not run: network namespaces want root")
	}
	for _, p := range []string{"dhclient", "dnsmasq"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("not run: " + p + " is not installed")
		}
	}
	names := map[string]string{}
	for _, n := range []string{"rack", "near", "relay", "far"} {
		names[n] = fmt.Sprintf("dhcp6-%s-%d", n, os.Getpid())
	}
	if os.Getenv("DHCP6_INSIDE") == "" {
		for _, ns := range names {
			run(t, "ip", "netns", "add", ns)
			t.Cleanup(func() { run(t, "ip", "netns", "del", ns) })
			run(t, "ip", "-n", ns, "link", "set", "lo", "up")
		}
		run(t, "ip", "-n", names["rack"], "link", "add", "switch", "type", "bridge", "mcast_snooping", "0")
		run(t, "ip", "-n", names["rack"], "link", "set", "switch", "up")
		run(t, "ip", "-n", names["rack"], "addr", "add", self6+"/64", "dev", "switch", "nodad")
		wire := func(a, port, b, card string, mac string) {
			run(t, "ip", "-n", names[a], "link", "add", port, "type", "veth", "peer", "name", card, "address", mac, "netns", names[b])
			run(t, "ip", "-n", names[a], "link", "set", port, "up")
			run(t, "ip", "-n", names[b], "link", "set", card, "up")
		}
		wire("rack", "port1", "near", "card", known)
		wire("rack", "port2", "relay", "upper", "02:00:00:00:00:01")
		wire("relay", "lower", "far", "card", "52:54:00:00:00:05")
		for _, port := range []string{"port1", "port2"} {
			run(t, "ip", "-n", names["rack"], "link", "set", port, "master", "switch")
		}
		run(t, "ip", "-n", names["relay"], "addr", "add", "fd00:77::9/64", "dev", "upper", "nodad")
		run(t, "ip", "-n", names["relay"], "addr", "add", "fd00:88::1/64", "dev", "lower", "nodad")
		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", names["rack"], os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "DHCP6_INSIDE="+names["near"]+" "+names["relay"]+" "+names["far"])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		} else if testing.Verbose() {
			t.Logf("%s", out)
		}
		return
	}
	var near, relay, far string
	if _, err := fmt.Sscan(os.Getenv("DHCP6_INSIDE"), &near, &relay, &far); err != nil {
		t.Fatal(err)
	}
	conn, err := Listen6("switch", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := newServer6(t, func(c *Config6) {
		c.Subnets = append(c.Subnets, Subnet{Prefix: netip.MustParsePrefix("fd00:88::/64"), From: netip.MustParseAddr("fd00:88::100"), To: netip.MustParseAddr("fd00:88::10f")})
		c.DNS, c.Neighbour, c.LeaseTime = []netip.Addr{netip.MustParseAddr("fd00:77::53")}, Neighbours{"switch"}.MAC, 10*time.Minute
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	dir := t.TempDir()
	script, told := filepath.Join(dir, "script"), filepath.Join(dir, "told")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nenv | grep -E '^(reason|new_)' >>"+told+"\necho >>"+told+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	// dhclient needs a link-local address that the kernel has found free.
	settled := func(ns string) {
		t.Helper()
		for limit := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if has := run(t, "ip", "-n", ns, "-6", "addr", "show", "dev", "card"); strings.Contains(has, "fe80:") && !strings.Contains(has, "tentative") {
				return
			}
			if time.Now().After(limit) {
				t.Fatal("no link-local address")
			}
		}
	}
	settled(near)
	settled(far)
	dhclient := func(ns string, args ...string) string {
		t.Helper()
		if err := os.RemoveAll(told); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		conf := filepath.Join(dir, "conf")
		text := "option dhcp6.bootfile-url code 59 = string;\noption dhcp6.user-class code 15 = string;\nrequest dhcp6.name-servers, dhcp6.bootfile-url;\nsend dhcp6.user-class \"\\000\\004iPXE\";\n"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all := append([]string{"netns", "exec", ns, "dhclient", "-6", "-1", "-v", "-cf", conf, "-sf", script, "-lf", filepath.Join(dir, ns), "-pf", filepath.Join(dir, "pid")}, args...)
		out, err := exec.CommandContext(ctx, "ip", append(all, "card")...).CombinedOutput()
		if err != nil {
			t.Fatalf("dhclient: %v: %s", err, out)
		}
		t.Cleanup(func() { // it renews from the background
			if pid, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
				exec.Command("kill", strings.TrimSpace(string(pid))).Run()
			}
		})
		heard, err := os.ReadFile(told)
		if err != nil {
			t.Fatal(err)
		}
		return string(heard)
	}
	has := func(heard, want string) string {
		t.Helper()
		m := regexp.MustCompile(want).FindString(heard)
		if m == "" {
			t.Errorf("no %s in\n%s", want, heard)
		}
		return m
	}
	first := has(dhclient(near), `new_ip6_address=fd00:77::10[0-3]`)
	if got := s.Addresses(known); len(got) == 0 || first != "new_ip6_address="+got[0].String() {
		t.Errorf("the client has %s, the server knows %v", first, got)
	}
	heard := dhclient(near, "-S") // asks for no address
	has(heard, `new_dhcp6_name_servers=fd00:77::53`)
	has(heard, `http://\[fd00:77::1\]:8080/boot/script\?mac=52%3A54%3A00%3A00%3A00%3A01`)
	// A host may hide its MAC address from its address and from its DUID: the link tells it.
	for _, args := range [][]string{{"addrgenmode", "random"}, {"down"}, {"up"}} {
		run(t, append([]string{"ip", "-n", near, "link", "set", "card"}, args...)...)
	}
	settled(near)
	if hidden := run(t, "ip", "-n", near, "-6", "addr", "show", "dev", "card"); strings.Contains(hidden, "ff:fe00:1/") {
		t.Errorf("the MAC address is to be seen: %s", hidden)
	}
	if err := os.WriteFile(filepath.Join(dir, near), []byte(`default-duid "\000\004ABCDEFGHIJKLMNOP";`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(dhclient(near), regexp.QuoteMeta(first))
	relayed := exec.Command("ip", "netns", "exec", relay, "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file=", "--log-dhcp",
		"--bind-dynamic", "--interface=lower", "--interface=upper", "--dhcp-relay=fd00:88::1,"+self6)
	var relayLog bytes.Buffer
	relayed.Stderr = &relayLog
	if err := relayed.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { relayed.Process.Kill(); relayed.Wait() })
	has(dhclient(far), `new_ip6_address=fd00:88::10[0-9a-f]`)
	if got := s.Addresses("52:54:00:00:00:05"); len(got) == 0 || got[0].String()[:9] != "fd00:88::" {
		t.Errorf("behind the relay the machine is known at %v; %s", got, relayLog.String())
	}
}

// A client of others reads option 150 as addresses (RFC 5859): ISC's, which says that it is UEFI firmware.
func TestOption150WithARealClient(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: network namespaces want root")
	}
	if _, err := exec.LookPath("dhclient"); err != nil {
		t.Skip("not run: dhclient is not installed")
	}
	rack, near := fmt.Sprintf("dhcp4-rack-%d", os.Getpid()), fmt.Sprintf("dhcp4-near-%d", os.Getpid())
	if os.Getenv("DHCP4_INSIDE") == "" {
		for _, ns := range []string{rack, near} {
			run(t, "ip", "netns", "add", ns)
			t.Cleanup(func() { run(t, "ip", "netns", "del", ns) })
		}
		run(t, "ip", "-n", rack, "link", "add", "switch", "type", "veth", "peer", "name", "card", "address", known, "netns", near)
		run(t, "ip", "-n", rack, "addr", "add", "10.77.0.1/24", "dev", "switch")
		run(t, "ip", "-n", rack, "link", "set", "switch", "up")
		run(t, "ip", "-n", near, "link", "set", "card", "up")
		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", rack, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "DHCP4_INSIDE="+near)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	conn, err := server4.NewIPv4UDPConn("switch", &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := newServer(t, nil)
	go func() { ended <- s.Serve(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"script": "#!/bin/sh\nenv | grep ^new_ >>" + at("told") + "\n",
		"conf": "option tftp-servers code 150 = array of ip-address;\noption arch code 93 = unsigned integer 16;\nrequest subnet-mask, tftp-server-name, bootfile-name, tftp-servers;\n" +
			"send vendor-class-identifier \"PXEClient:Arch:00007:UNDI:003016\";\nsend arch 7;\n",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	waits, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := exec.CommandContext(waits, "ip", "netns", "exec", os.Getenv("DHCP4_INSIDE"), "dhclient", "-4", "-1", "-v", "-cf", at("conf"), "-sf", at("script"),
		"-lf", at("leases"), "-pf", at("pid"), "card").CombinedOutput()
	if err != nil {
		t.Fatalf("dhclient: %v: %s", err, out)
	}
	t.Cleanup(func() { // it renews from the background
		if pid, err := os.ReadFile(at("pid")); err == nil {
			exec.Command("kill", strings.TrimSpace(string(pid))).Run()
		}
	})
	told, err := os.ReadFile(at("told"))
	if err != nil || !strings.Contains(string(told), "new_tftp_servers=10.77.0.1\n") || !strings.Contains(string(told), "new_ip_address=10.77.0.10") {
		t.Errorf("the client was told %s, %v", told, err)
	}
}
