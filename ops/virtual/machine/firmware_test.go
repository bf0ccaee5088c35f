package machine

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"

	"github.com/ironyard/ironyard/ops/virtual/netns"
	"github.com/ironyard/ironyard/ops/virtual/uefivars"
)

// powerOffLong is powerOff where operands have 32 bits unless a prefix says otherwise.
var powerOffLong = []byte{0x66, 0xba, 0x04, 0x06, 0x66, 0xb8, 0x00, 0x20, 0x66, 0xef}

// program is a UEFI application, a PE32+ file without relocations (UEFI 2.10, section
// 2.1.1), that prints text on the serial line and then runs code.
func program(text string, code ...byte) []byte {
	machineCode := []byte{0x66, 0xba, 0xf8, 0x03} // mov dx, 0x3f8
	for _, c := range []byte("\n" + text + "\n") {
		machineCode = append(machineCode, 0xb0, c, 0xee) // mov al, c; out dx, al
	}
	machineCode = append(append(machineCode, code...), 0xf4, 0xeb, 0xfd) // hlt; jmp to it
	le := binary.LittleEndian
	file := make([]byte, 0x600)
	copy(file, "MZ")
	le.PutUint32(file[60:], 64)
	copy(file[64:], "PE\x00\x00")
	header := le.AppendUint16(nil, 0x8664)
	header = le.AppendUint16(header, 1) // section
	header = append(header, make([]byte, 12)...)
	header = le.AppendUint16(le.AppendUint16(header, 240), 0x22)
	header = append(le.AppendUint16(header, 0x20b), 0, 0)
	for _, word := range []uint32{
		0x400, 0, 0, 0x1000, 0x1000, 0, 0, 0x1000, 0x200, // sizes, entry, image base, alignments
		0, 0, 0, 0, 0x2000, 0x200, 0, 10, // versions, image, headers, checksum, EFI application
		0, 0, 0, 0, 0, 0, 0, 0, 0, 16, // stack, heap, flags, directories
	} {
		header = le.AppendUint32(header, word)
	}
	header = append(header, make([]byte, 16*8)...)
	header = append(header, ".text\x00\x00\x00"...)
	for _, word := range []uint32{0x400, 0x1000, 0x400, 0x200, 0, 0, 0, 0xe0000020} {
		header = le.AppendUint32(header, word)
	}
	copy(file[68:], header)
	copy(file[0x200:], machineCode)
	return file
}

func needsFirmware(t *testing.T) {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: boots UEFI firmware several times; set IRONYARD_E2E=1")
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: a network namespace needs root")
	}
}

// needsTime keeps what boots firmware several times more out of make test.
func needsTime(t *testing.T) {
	t.Helper()
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: takes long: run `make hardware`, or set IRONYARD_HARDWARE=1")
	}
}

// waitFirmware is waitSerial for firmware on a host that has much else to do.
func waitFirmware(t *testing.T, s *SerialLog, pattern string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	line, err := s.Wait(ctx, regexp.MustCompile(pattern))
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// served is a network with DHCP, for addresses only, and an HTTP server.
type served struct {
	ns *netns.Namespace

	mu  sync.Mutex
	got []string // method, path and user agent of each request
}

const servedAt = "10.79.0.1"

func serve(t *testing.T, files map[string][]byte) *served {
	t.Helper()
	ns, err := netns.Create(t.Context(), fmt.Sprintf("iy-uefi-%d", os.Getpid()), netip.MustParsePrefix(servedAt+"/24"))
	if err != nil {
		t.Fatal(err)
	}
	n := &served{ns: ns}
	t.Cleanup(func() {
		if err := ns.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := ns.AddTap(t.Context(), "tap0"); err != nil {
		t.Fatal(err)
	}
	l, err := ns.Listen("tcp", servedAt+":80")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.got = append(n.got, r.Method+" "+r.URL.Path+" "+r.UserAgent())
		n.mu.Unlock()
		body, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/efi")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	var dhcp *server4.Server
	err = ns.Do(func() error {
		conn, err := server4.NewIPv4UDPConn(netns.Bridge, &net.UDPAddr{Port: dhcpv4.ServerPort})
		if err != nil {
			return err
		}
		dhcp, err = server4.NewServer("", nil, lend, server4.WithConn(conn))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { _ = dhcp.Serve() })
	t.Cleanup(func() {
		server.Close()
		dhcp.Close()
		running.Wait()
	})
	return n
}

// lend answers DHCP with an address and nothing to boot.
func lend(conn net.PacketConn, _ net.Addr, m *dhcpv4.DHCPv4) {
	kind := dhcpv4.MessageTypeOffer
	if m.MessageType() == dhcpv4.MessageTypeRequest {
		kind = dhcpv4.MessageTypeAck
	}
	reply, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.ParseIP("10.79.0.77")),
		dhcpv4.WithServerIP(net.ParseIP(servedAt)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(servedAt))),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(3600))
	if err == nil {
		_, _ = conn.WriteTo(reply.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ClientPort})
	}
}

func (n *served) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got)
}

// bootDisk makes a FAT disk that the firmware boots body from.
func bootDisk(t *testing.T, path string, body []byte) {
	t.Helper()
	loader := filepath.Join(t.TempDir(), "BOOTX64.EFI")
	if err := os.WriteFile(loader, body, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"truncate", "-s", "16M", path}, {"mkfs.vfat", path}, {"mmd", "-i", path, "::EFI", "::EFI/BOOT"}, {"mcopy", "-i", path, loader, "::EFI/BOOT/BOOTX64.EFI"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s (Debian's packages dosfstools and mtools)", args[0], err, out)
		}
	}
}

// The firmware fetches the URI of the next boot, then that of the boot order, then
// boots the disk by an override; and what it wrote meanwhile is read.
func TestFirmwareObeysItsVariables(t *testing.T) {
	needsFirmware(t)
	n := serve(t, map[string][]byte{"/next.efi": program("NEXT", reset...), "/order.efi": program("ORDER", powerOffLong...)})
	dir := t.TempDir()
	bootDisk(t, filepath.Join(dir, diskFile), program("DISK", powerOffLong...))
	m := open(t, Config{Name: "u", Dir: dir, Firmware: UEFI, MemoryMiB: 256, Tap: "tap0", MAC: testMAC, BootByVariables: true, DieWithParent: true, Command: n.ns.Command})
	if err := m.SetBootOrder(m.HTTPOption("http://" + servedAt + "/order.efi")); err != nil {
		t.Fatal(err)
	}
	if err := m.SetBootNext(m.HTTPOption("http://" + servedAt + "/next.efi")); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.SetBootNext(m.DiskOption()); !errors.Is(err, ErrOn) {
		t.Errorf("next boot of a machine that is on: %v, want ErrOn", err)
	}
	serial := m.Serial(0)
	for _, text := range []string{"^NEXT$", "^ORDER$"} {
		waitFirmware(t, serial, text)
		t.Logf("%4.1fs %s", time.Since(started).Seconds(), text)
	}
	waitOff(t, m)
	for _, want := range []string{"GET /next.efi UefiHttpBoot/1.0", "GET /order.efi UefiHttpBoot/1.0"} {
		if got := n.requests(); !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	checkWritten(t, m)
	if err := m.SetISCSI("iqn.2026-11.org.example:u", []uefivars.Attempt{{Target: netip.MustParseAddrPort(servedAt + ":3260"), TargetName: "iqn.2026-11.org.example:t"}}); err != nil {
		t.Errorf("the attempts of this firmware: %v", err)
	}
	if err := m.SetBootOverride(Disk, true); err != nil {
		t.Fatal(err)
	}
	started = time.Now()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFirmware(t, serial, "^DISK$")
	t.Logf("%4.1fs DISK", time.Since(started).Seconds())
	waitOff(t, m)
	s, err := m.Variables()
	if err != nil {
		t.Fatal(err)
	}
	if initiator, attempts, err := s.ISCSI(); err != nil || initiator != "iqn.2026-11.org.example:u" || len(attempts) != 1 {
		t.Errorf("after a start, the initiator is %q with %d attempts (%v)", initiator, len(attempts), err)
	}
}

// checkWritten looks at what OVMF wrote: its own menu, an option for each stack of
// the card, the end of BootNext.
func checkWritten(t *testing.T, m *Machine) {
	t.Helper()
	order, next := wanted(t, m)
	if next != "" || len(order) < 4 || order[0] != httpDescription {
		t.Errorf("order %q, next %q", order, next)
	}
	s, err := m.Variables()
	if err != nil {
		t.Fatal(err)
	}
	options, err := s.BootOptions()
	if err != nil {
		t.Fatal(err)
	}
	var menu, network bool
	for number, o := range options {
		t.Logf("Boot%04X %s: %s", number, o.Description, o.Path)
		menu = menu || o.Description == "UiApp" && !o.Boots()
		network = network || strings.HasPrefix(o.Description, "UEFI PXEv4") && o.Path.Equal(m.NetworkOption().Path)
	}
	if !menu || !network {
		t.Errorf("UiApp found %t, the firmware's PXE option with our path found %t", menu, network)
	}
}

// With a platform key the firmware refuses an unsigned program, until secure boot is off.
func TestFirmwareEnforcesKeys(t *testing.T) {
	needsTime(t)
	needsFirmware(t)
	dir := t.TempDir()
	bootDisk(t, filepath.Join(dir, diskFile), program("UNSIGNED", powerOffLong...))
	m := open(t, Config{Name: "s", Dir: dir, Firmware: UEFI, MemoryMiB: 256, BootByVariables: true, SecureBoot: true, DieWithParent: true})
	der := certificate(t)
	if err := m.SetKeys(uefivars.Keys{Owner: uuid.New(), PK: der, KEK: [][]byte{der}, DB: [][]byte{der}}); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	serial := m.Serial(0)
	t.Log(waitFirmware(t, serial, "BdsDxe: failed to (load|start).*"+diskDescription+"|^UNSIGNED$"), time.Since(started))
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log, err := os.ReadFile(serial.Path()); err != nil || strings.Contains(string(log), "UNSIGNED") {
		t.Fatalf("the unsigned program ran (%v)", err)
	}
	s, err := m.Variables()
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := s.Keys(); err != nil || !slices.Equal(keys.PK, der) || !s.SecureBoot() {
		t.Errorf("after the start: secure boot %t, %v", s.SecureBoot(), err)
	}
	if err := m.SetSecureBoot(false); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFirmware(t, serial, "^UNSIGNED$")
	waitOff(t, m)
}

func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// target serves a disk by tgtd, a foreign iSCSI target. It asks for no CHAP: this firmware proves itself by
// SHA-256, and tgtd 1.0.85 takes the number of that algorithm for SHA-1.
func target(t *testing.T, ns *netns.Namespace, name, disk string) {
	t.Helper()
	control := fmt.Sprint(os.Getpid() % 32000) // names tgtd's control socket
	tgtd := ns.Command(context.Background(), "tgtd", "-f", "-C", control, "--iscsi", "portal="+servedAt+":3260")
	if err := tgtd.Start(); err != nil {
		t.Fatalf("%v (Debian's package tgt)", err)
	}
	t.Cleanup(func() {
		_ = tgtd.Process.Kill()
		_ = tgtd.Wait()
		for _, suffix := range []string{"", ".lock"} {
			if err := os.Remove("/var/run/tgtd/socket." + control + suffix); err != nil {
				t.Error(err)
			}
		}
	})
	for _, args := range []string{
		"--op show --mode sys",
		"--op new --mode target --tid 1 -T " + name,
		"--op new --mode logicalunit --tid 1 --lun 1 -b " + disk,
		"--op bind --mode target --tid 1 -I ALL",
	} {
		var out []byte
		var err error
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			out, err = exec.Command("tgtadm", append([]string{"-C", control, "--lld", "iscsi"}, strings.Fields(args)...)...).CombinedOutput()
			if err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("tgtadm %s: %v: %s", args, err, out)
		}
	}
}

// The firmware's initiator logs in by the attempts that management set: the first
// target is dead, the second is good, from an address of the machine's own. Its disk boots.
func TestFirmwareLogsInToISCSI(t *testing.T) {
	needsTime(t)
	needsFirmware(t)
	n := serve(t, nil)
	remote := filepath.Join(t.TempDir(), "remote")
	bootDisk(t, remote, program("REMOTE", powerOffLong...))
	const name = "iqn.2026-11.org.example:remote"
	target(t, n.ns, name, remote)
	dir := t.TempDir()
	bootDisk(t, filepath.Join(dir, diskFile), program("LOCAL", powerOffLong...))
	m := open(t, Config{Name: "i", Dir: dir, Firmware: UEFI, MemoryMiB: 256, Tap: "tap0", MAC: testMAC, BootByVariables: true, DieWithParent: true, Command: n.ns.Command})
	started := time.Now()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	serial := m.Serial(0)
	waitFirmware(t, serial, "^LOCAL$") // the firmware has written its attempts
	waitOff(t, m)
	if err := os.Truncate(m.DiskPath(), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(m.DiskPath(), 16<<20); err != nil {
		t.Fatal(err)
	}
	attempts := []uefivars.Attempt{
		{Target: netip.MustParseAddrPort(servedAt + ":3261"), TargetName: name},
		{Target: netip.MustParseAddrPort(servedAt + ":3260"), TargetName: name, LUN: 1, Local: netip.MustParsePrefix("10.79.0.78/24")},
	}
	if err := m.SetISCSI("iqn.2026-11.org.example:machine", attempts); err != nil {
		t.Fatal(err)
	}
	// Without options the firmware makes its own, disks first.
	err := m.EditVariables(func(s *uefivars.Store) error {
		options, err := s.BootOptions()
		for number := range options {
			err = errors.Join(err, s.RemoveBootOption(number))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%4.1fs off", time.Since(started).Seconds())
	started = time.Now()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFirmware(t, serial, "^REMOTE$")
	t.Logf("%4.1fs REMOTE", time.Since(started).Seconds())
	waitOff(t, m)
}
