package netboot_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4/server4"

	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
)

// program runs a foreign program that ends with the test.
func program(t *testing.T, name string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	var mu sync.Mutex
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = locked{&mu, &said}, locked{&mu, &said}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (Debian's packages dnsmasq-base and busybox-static)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			mu.Lock()
			defer mu.Unlock()
			t.Logf("%s said:\n%s", name, said.String())
		}
	})
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// place makes a namespace with a cable to this one's bridge, and returns its name; inside the cable is up0.
func place(t *testing.T, name, address string) string {
	t.Helper()
	name += "-" + time.Now().Format("150405.000")
	ip(t, "netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	near := "n" + name[len(name)-10:]
	ip(t, "link", "add", near, "type", "veth", "peer", "name", "up0", "netns", name)
	ip(t, "link", "set", near, "master", bridge, "up")
	ip(t, "-n", name, "link", "set", "lo", "up")
	if address != "" {
		ip(t, "-n", name, "addr", "add", address, "dev", "up0")
	}
	ip(t, "-n", name, "link", "set", "up0", "up")
	return name
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// dnsmasq runs it in a namespace, without files of its own.
func dnsmasq(t *testing.T, ns string, args ...string) {
	program(t, "ip", append([]string{"netns", "exec", ns, "dnsmasq", "-k", "--conf-file=/dev/null", "--port=0", "--pid-file=", "--leasefile-ro", "--user=root"}, args...)...)
}

// behindRouter makes a second network behind a router that relays DHCP, and a client's namespace in it:
// client - router (10.79.0.1, 10.78.0.254) - the bridge (10.78.0.1).
func behindRouter(t *testing.T) (client string) {
	t.Helper()
	router := place(t, "router", "10.78.0.254/24")
	client = "client-" + time.Now().Format("150405.000")
	ip(t, "netns", "add", client)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", client).Run() })
	ip(t, "-n", router, "link", "add", "down0", "type", "veth", "peer", "name", "up0", "netns", client)
	ip(t, "-n", router, "addr", "add", "10.79.0.1/24", "dev", "down0")
	ip(t, "-n", router, "link", "set", "down0", "up")
	ip(t, "netns", "exec", router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
	ip(t, "route", "add", "10.79.0.0/24", "via", "10.78.0.254")
	ip(t, "-n", client, "link", "set", "up0", "address", mac, "up")
	dnsmasq(t, router, "--dhcp-relay=10.79.0.1,"+self.String())
	return client
}

// serveRelayed serves this network and the one behind the router.
func serveRelayed(t *testing.T, change func(*dhcp.Config)) (*dhcp.Server, *world) {
	t.Helper()
	w := &world{t: t, machine: ramdiskMachine, change: make(chan struct{})}
	c := dhcp.Config{Mode: dhcp.Serve, ServerIP: self, From: netip.MustParseAddr("10.78.0.10"), To: netip.MustParseAddr("10.78.0.20"), Mask: net.CIDRMask(24, 32), LeaseTime: 8 * time.Second,
		HTTP: "http://" + self.String() + ":8080", LeaseFile: filepath.Join(t.TempDir(), "leases"), Directory: w, Journal: w, Log: slog.New(slog.NewTextHandler(w, nil))}
	change(&c)
	s, err := dhcp.New(c)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := server4.NewIPv4UDPConn(bridge, &net.UDPAddr{IP: net.IPv4zero, Port: 67})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, conn) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, w
}

// udhcpc runs busybox's client, which configures the interface and writes what it was given to a file; it renews half-way.
func udhcpc(t *testing.T, client string, args ...string) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "given")
	script := filepath.Join(dir, "script")
	body := "#!/bin/sh\n[ \"$1\" = deconfig ] && exit 0\n[ \"$1\" = bound ] && ip addr add $ip/$mask dev $interface && [ -n \"$router\" ] && ip route add default via $router\necho \"$1 ip=$ip router=$router boot=$boot_file siaddr=$siaddr tftp=$tftp server=$serverid\" >> " + file + "\n"
	if err := os.WriteFile(script, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	program(t, "ip", append([]string{"netns", "exec", client, "busybox", "udhcpc", "-f", "-i", "up0", "-s", script, "-t", "20", "-T", "1", "-O", "bootfile", "-O", "tftp"}, args...)...)
	return file
}

// lines waits until a file has a line that begins so, and returns it.
func line(t *testing.T, w *world, file, begins string) string {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		body, _ := os.ReadFile(file)
		for l := range strings.Lines(string(body)) {
			if strings.HasPrefix(l, begins) {
				return strings.TrimSpace(l)
			}
		}
	}
	body, _ := os.ReadFile(file)
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Fatalf("no line %q in what udhcpc was given:\n%s\nrackd's log:\n%s", begins, body, w.console.String())
	return ""
}

// TestRelayedNetwork has dnsmasq relay the requests of udhcpc from another network: it is given an address of that network's range, by
// its router, and renews it by unicast.
func TestRelayedNetwork(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("NOT RUN: needs root, dnsmasq and busybox; set IRONYARD_E2E=1")
	}
	if !inNamespace(t) {
		return
	}
	client := behindRouter(t)
	n, err := dhcp.ParseSubnet("10.79.0.0/24 10.79.0.100-10.79.0.110 10.79.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s, w := serveRelayed(t, func(c *dhcp.Config) { c.Subnets = []dhcp.Subnet{n} })
	file := udhcpc(t, client, "-V", "PXEClient:Arch:00007:UNDI:003001", "-x", "0x5d:0007")
	for _, event := range []string{"bound", "renew"} {
		got := line(t, w, file, event)
		t.Log(got)
		at, ok := s.Address(mac)
		if !ok || !strings.Contains(got, "ip="+at.String()+" ") || !n.Prefix.Contains(at) || !strings.Contains(got, "router=10.79.0.1") || !strings.Contains(got, "boot=snponly.efi") || !strings.Contains(got, "server=10.78.0.1") {
			t.Errorf("%s: %s; rackd says %s", event, got, at)
		}
	}
}

// TestBesideDnsmasq has rackd as a proxy beside dnsmasq, which gives the addresses: the client gets its address from dnsmasq, and rackd
// overhears which.
func TestBesideDnsmasq(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("NOT RUN: needs root, dnsmasq and busybox; set IRONYARD_E2E=1")
	}
	if !inNamespace(t) {
		return
	}
	dnsmasq(t, place(t, "server", "10.78.0.2/24"), "--interface=up0", "--dhcp-range=10.78.0.50,10.78.0.60,1h")
	client := place(t, "client", "")
	ip(t, "-n", client, "link", "set", "up0", "address", mac)
	s, w := serveRelayed(t, func(c *dhcp.Config) { c.Mode = dhcp.Proxy })
	got := line(t, w, udhcpc(t, client), "bound")
	t.Log(got)
	if at, ok := s.Address(mac); !ok || !strings.Contains(got, "ip="+at.String()+" ") || !strings.HasPrefix(at.String(), "10.78.0.5") || strings.Contains(got, "server="+self.String()) {
		t.Errorf("%s; rackd says %s", got, at)
	}
}

// TestFirmwareBesideDnsmasq boots firmware with addresses of dnsmasq and boot programs of rackd.
func TestFirmwareBesideDnsmasq(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" || os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: boots machines in QEMU for minutes: run `make hardware`, or set IRONYARD_E2E=1 and IRONYARD_HARDWARE=1")
	}
	if !inNamespace(t) {
		return
	}
	dnsmasq(t, place(t, "server", "10.78.0.2/24"), "--interface=up0", "--dhcp-range=10.78.0.50,10.78.0.60,1h")
	t.Run("UEFI", func(t *testing.T) {
		w := worldWith(t, ramdiskMachine, "/usr/lib/ipxe/ipxe.efi", asProxy)
		w.boot(ovmf(t)...)
		w.phases("dhcp: beside another server, for UEFI x64", "tftp: snponly.efi", "dhcp: beside another server, for iPXE", "script: ramdisk", "kernel", "ramdisk")
	})
	t.Run("BIOS", func(t *testing.T) {
		w := worldWith(t, ramdiskMachine, "/usr/lib/ipxe/ipxe.lkrn", asProxy)
		w.boot("-device", biosCard)
		w.phases("dhcp: beside another server, for iPXE", "script: ramdisk", "kernel", "ramdisk")
	})
}

func asProxy(s *setting) { s.mode = dhcp.Proxy }
