package machine_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/ops/virtual/lab"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// board is a machine with its BMC, told what to do by a foreign client.
type board struct {
	*machine.Machine
	t      *testing.T
	client *gofish.APIClient
}

func newBoard(t *testing.T, cfg machine.Config) *board {
	t.Helper()
	cfg.DieWithParent = true
	m := machine.OpenForTest(t, cfg)
	b, err := vbmc.New(vbmc.Config{Username: "admin", Password: "secret", UEFI: cfg.Firmware == machine.UEFI, Name: cfg.Name, MAC: cfg.MAC}, lab.Computer(m))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	client, err := gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + l.Addr().String(), Username: "admin", Password: "secret", Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Logout()
		client.HTTPClient.CloseIdleConnections()
	})
	return &board{m, t, client}
}

func (b *board) system() *schemas.ComputerSystem {
	b.t.Helper()
	s, err := schemas.GetComputerSystem(b.client, vbmc.SystemPath)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *board) reset(kind schemas.ResetType) {
	b.t.Helper()
	if _, err := b.system().Reset(kind); err != nil {
		b.t.Fatalf("%s: %v", kind, err)
	}
}

func (b *board) boot(o schemas.Boot) {
	b.t.Helper()
	if err := b.system().SetBoot(&o); err != nil {
		b.t.Fatalf("boot from %s: %v", o.BootSourceOverrideTarget, err)
	}
}

func (b *board) prints(serial *machine.SerialLog, pattern string) string {
	b.t.Helper()
	began := time.Now()
	line := machine.WaitFirmware(b.t, serial, pattern)
	b.t.Logf("%4.1fs %s", time.Since(began).Seconds(), line)
	return line
}

// patch sends JSON, and returns the answer's status and body.
func (b *board) patch(path, body string) (int, string) {
	b.t.Helper()
	resp, err := b.client.Patch(path, json.RawMessage(body))
	if resp != nil {
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	if refused, is := errors.AsType[*schemas.Error](err); is {
		return refused.HTTPReturnedStatusCode, err.Error()
	}
	b.t.Fatal(err)
	return 0, ""
}

// A URI that the BMC is told while the machine is on: the firmware fetches it at the next
// start, once.
func TestRedfishBootsURI(t *testing.T) {
	machine.NeedsTime(t)
	machine.NeedsFirmware(t)
	n := machine.Serve(t, map[string][]byte{"/net.efi": machine.Program("NET", machine.PowerOffLong...)})
	dir := t.TempDir()
	machine.BootDisk(t, filepath.Join(dir, machine.DiskFile), machine.Program("DISK"))
	b := newBoard(t, machine.Config{Name: "u", Dir: dir, Firmware: machine.UEFI, MemoryMiB: 256, Tap: "tap0", MAC: machine.TestMAC, BootByVariables: true, Command: n.Namespace().Command})
	serial := b.Serial(0)
	b.reset(schemas.OnResetType)
	b.prints(serial, "^DISK$")
	uri := "http://" + machine.ServedAt + "/net.efi"
	b.boot(schemas.Boot{BootSourceOverrideTarget: schemas.UefiHTTPBootSource, BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled, HTTPBootURI: &uri})
	if s := b.system(); s.Boot.BootSourceOverrideTarget != schemas.UefiHTTPBootSource || gofish.Deref(s.Boot.HTTPBootURI) != uri {
		t.Errorf("read back: %+v", s.Boot)
	}
	b.reset(schemas.ForceRestartResetType)
	b.prints(serial, "^NET$")
	machine.WaitOff(t, b.Machine)
	if got := n.Requests(); !slices.Contains(got, "GET /net.efi UefiHttpBoot/1.0") {
		t.Errorf("requests %q", got)
	}
	if s := b.system(); s.Boot.BootSourceOverrideEnabled != schemas.DisabledBootSourceOverrideEnabled || gofish.Deref(s.Boot.HTTPBootURI) != uri {
		t.Errorf("after the boot: %+v", s.Boot)
	}
	b.reset(schemas.OnResetType)
	b.prints(serial, "^DISK$")
}

// Keys and switch of secure boot that the BMC is told. With the factory's keys the firmware
// refuses an unsigned program. It boots one that is signed by a key which the BMC added. It
// boots any when secure boot is switched off.
func TestRedfishSetsSecureBoot(t *testing.T) {
	machine.NeedsTime(t)
	machine.NeedsFirmware(t)
	dir := t.TempDir()
	disk := filepath.Join(dir, machine.DiskFile)
	machine.BootDisk(t, disk, machine.Program("UNSIGNED"))
	b := newBoard(t, machine.Config{Name: "s", Dir: dir, Firmware: machine.UEFI, MemoryMiB: 256, BootByVariables: true, SecureBoot: true})
	state := func(enable bool, current schemas.SecureBootCurrentBootType, mode schemas.SecureBootModeType) *schemas.SecureBoot {
		t.Helper()
		s, err := b.system().SecureBoot()
		if err != nil || s == nil || s.SecureBootEnable != enable || s.SecureBootCurrentBoot != current || s.SecureBootMode != mode {
			t.Fatalf("secure boot %+v, %v; want %t, %s, %s", s, err, enable, current, mode)
		}
		return s
	}
	enable := func(on bool, s *schemas.SecureBoot) {
		t.Helper()
		s.SecureBootEnable = on
		if err := s.Update(); err != nil {
			t.Fatal(err)
		}
	}
	s := state(false, "Disabled", "SetupMode")
	if _, err := s.ResetKeys(schemas.ResetAllKeysToDefaultResetKeysType); err != nil {
		t.Fatal(err)
	}
	enable(true, s)
	serial := b.Serial(0)
	b.reset(schemas.OnResetType)
	b.prints(serial, "BdsDxe: failed to (load|start).*Management Disk")
	s = state(true, "Enabled", "UserMode")
	enable(false, s)
	state(false, "Enabled", "UserMode")
	b.reset(schemas.ForceRestartResetType)
	b.prints(serial, "^UNSIGNED$")
	s = state(false, "Disabled", "UserMode")

	key, pemText := signer(t)
	certificate, err := json.Marshal(map[string]string{"CertificateType": "PEM", "CertificateString": pemText})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.client.Post(vbmc.SystemPath+"/SecureBoot/SecureBootDatabases/db/Certificates", json.RawMessage(certificate))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	enable(true, s)
	b.reset(schemas.ForceOffResetType)
	machine.BootDisk(t, disk, signed(t, key, pemText, machine.Program("SIGNED")))
	b.reset(schemas.OnResetType)
	b.prints(serial, "^SIGNED$")
	s = state(true, "Enabled", "UserMode")
	if _, err := s.ResetKeys(schemas.DeletePKResetKeysType); err != nil {
		t.Fatal(err)
	}
	b.reset(schemas.ForceRestartResetType)
	b.prints(serial, "^SIGNED$")
	state(false, "Disabled", "SetupMode")
}

// signer makes a key and its certificate with openssl, as an operator does.
func signer(t *testing.T) (keyFile, pemText string) {
	t.Helper()
	dir := t.TempDir()
	keyFile = filepath.Join(dir, "key.pem")
	machine.Run(t, "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=fleet", "-days", "3650", "-keyout", keyFile, "-out", filepath.Join(dir, "cert.pem"))
	text, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	if block, _ := pem.Decode(text); err != nil || block == nil {
		t.Fatalf("certificate %q, %v", text, err)
	}
	return keyFile, string(text)
}

// signed is a program with sbsign's signature.
func signed(t *testing.T, keyFile, pemText string, program []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	cert, in, out := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "in.efi"), filepath.Join(dir, "out.efi")
	if err := errors.Join(os.WriteFile(cert, []byte(pemText), 0o600), os.WriteFile(in, program, 0o600)); err != nil {
		t.Fatal(err)
	}
	machine.Run(t, "sbsign", "--key", keyFile, "--cert", cert, "--output", out, in)
	machine.Run(t, "sbverify", "--cert", cert, out)
	body, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A target that the BMC is told while the machine is on: it is pending until the next
// start, and then the firmware logs in to a foreign target. Its disk is a boot option
// then, which the BMC puts first.
func TestRedfishSetsISCSI(t *testing.T) {
	machine.NeedsTime(t)
	machine.NeedsFirmware(t)
	n := machine.Serve(t, nil)
	remote := filepath.Join(t.TempDir(), "remote")
	machine.BootDisk(t, remote, machine.Program("REMOTE", machine.PowerOffLong...))
	const name = "iqn.2026-11.org.example:remote"
	machine.ISCSITarget(t, n.Namespace(), name, remote)
	dir := t.TempDir()
	machine.BootDisk(t, filepath.Join(dir, machine.DiskFile), machine.Program("LOCAL"))
	b := newBoard(t, machine.Config{Name: "i", Dir: dir, Firmware: machine.UEFI, MemoryMiB: 256, Tap: "tap0", MAC: machine.TestMAC, BootByVariables: true, Command: n.Namespace().Command})
	serial := b.Serial(0)
	b.reset(schemas.OnResetType)
	b.prints(serial, "^LOCAL$")
	function := func() *schemas.NetworkDeviceFunction {
		t.Helper()
		chassis, err := b.client.Service.Chassis()
		if err != nil || len(chassis) != 1 {
			t.Fatalf("chassis %v, %v", chassis, err)
		}
		adapters, err := chassis[0].NetworkAdapters()
		if err != nil || len(adapters) != 1 {
			t.Fatalf("adapters %v, %v", adapters, err)
		}
		functions, err := adapters[0].NetworkDeviceFunctions()
		if err != nil || len(functions) != 1 {
			t.Fatalf("functions %v, %v", functions, err)
		}
		return functions[0]
	}
	settings := function().ODataID + "/Settings"
	status, text := b.patch(settings, fmt.Sprintf(`{"iSCSIBoot":{"InitiatorName":"iqn.2026-11.org.example:machine","PrimaryTargetName":%q,"PrimaryTargetIPAddress":%q,"PrimaryTargetTCPPort":3261,
		"SecondaryTargetName":%[1]q,"SecondaryTargetIPAddress":%[2]q,"SecondaryTargetTCPPort":3260,"SecondaryLUN":1}}`, name, machine.ServedAt))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if f := function(); f.ISCSIBoot.PrimaryTargetName != "" {
		t.Errorf("before the start, the firmware has %+v", f.ISCSIBoot)
	}
	// The firmware logs in, and makes a boot option for the disk that it finds there. The
	// local disk boots until the BMC puts that option first.
	b.reset(schemas.ForceRestartResetType)
	b.prints(serial, "^LOCAL$")
	system := b.system()
	options, err := system.BootOptions()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(options, func(o *schemas.BootOption) bool { return strings.Contains(o.UefiDevicePath, "iSCSI("+name) })
	if i < 0 {
		t.Fatalf("no option for the target in %+v", options)
	}
	t.Logf("%s %s: %s", options[i].ID, options[i].DisplayName, options[i].UefiDevicePath)
	order := slices.DeleteFunc(slices.Clone(system.Boot.BootOrder), func(name string) bool { return name == options[i].BootOptionReference })
	b.boot(schemas.Boot{BootOrder: append([]string{options[i].BootOptionReference}, order...)})
	if now := b.system().Boot.BootOrder; len(now) != len(order)+1 || now[0] != options[i].BootOptionReference {
		t.Errorf("the boot order is %q", now)
	}
	b.reset(schemas.ForceRestartResetType)
	b.prints(serial, "^REMOTE$")
	machine.WaitOff(t, b.Machine)
	if f := function(); f.ISCSIBoot.PrimaryTargetName != name || gofish.Deref(f.ISCSIBoot.SecondaryLUN) != 1 || f.NetDevFuncType != "iSCSI" {
		t.Errorf("after the start, the firmware has %+v", f.ISCSIBoot)
	}
}

// iso makes an image that boots by UEFI and by BIOS.
func iso(t *testing.T) []byte {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	out := filepath.Join(t.TempDir(), "boot.iso")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	machine.BootDisk(t, filepath.Join(tree, "efi.img"), machine.Program("CDROM", machine.PowerOffLong...))
	boot := make([]byte, 2048)
	copy(boot, machine.Sector("CDROM", machine.PowerOff...))
	if err := os.WriteFile(filepath.Join(tree, "bios.img"), boot, 0o644); err != nil {
		t.Fatal(err)
	}
	machine.Run(t, "xorriso", "-as", "mkisofs", "-quiet", "-o", out, "-b", "bios.img", "-no-emul-boot", "-boot-load-size", "4",
		"-eltorito-alt-boot", "-e", "efi.img", "-no-emul-boot", tree)
	body, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// An image that is inserted by the BMC: nothing is fetched before the machine is on; the
// firmware boots it once, and not after it was ejected.
func TestRedfishBootsMedium(t *testing.T) {
	machine.NeedsTime(t)
	machine.NeedsFirmware(t)
	n := machine.Serve(t, map[string][]byte{"/boot.iso": iso(t)})
	for _, c := range []struct {
		name string
		machine.Config
	}{
		{"UEFI by variables", machine.Config{Firmware: machine.UEFI, BootByVariables: true}},
		{"UEFI by QEMU", machine.Config{Firmware: machine.UEFI}},
		{"BIOS", machine.Config{Firmware: machine.BIOS}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := c.Config
			cfg.Name, cfg.Dir, cfg.MemoryMiB, cfg.Tap, cfg.MAC, cfg.Command = "m", t.TempDir(), 256, "tap0", machine.TestMAC, n.Namespace().Command
			disk := filepath.Join(cfg.Dir, machine.DiskFile)
			if cfg.Firmware == machine.UEFI {
				machine.BootDisk(t, disk, machine.Program("DISK"))
			} else if err := os.WriteFile(disk, append(machine.Sector("DISK"), make([]byte, 1<<20-512)...), 0o644); err != nil {
				t.Fatal(err)
			}
			testMedium(t, n, newBoard(t, cfg))
		})
	}
}

// inserting is what a drive is told of an image.
func inserting(image string) *schemas.VirtualMediaInsertMediaParameters {
	return &schemas.VirtualMediaInsertMediaParameters{Image: image, Inserted: gofish.ToRef(true), WriteProtected: gofish.ToRef(true)}
}

func testMedium(t *testing.T, n machine.Wire, b *board) {
	drive := func() *schemas.VirtualMedia {
		t.Helper()
		managers, err := b.client.Service.Managers()
		if err != nil || len(managers) != 1 {
			t.Fatalf("managers %v, %v", managers, err)
		}
		drives, err := managers[0].VirtualMedia()
		if err != nil || len(drives) != 1 {
			t.Fatalf("drives %v, %v", drives, err)
		}
		return drives[0]
	}
	once := schemas.Boot{BootSourceOverrideTarget: schemas.CdBootSource, BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled}
	before, image := len(n.Requests()), "http://"+machine.ServedAt+"/boot.iso"
	if _, err := drive().InsertMedia(inserting(image)); err != nil {
		t.Fatal(err)
	}
	if got := n.Requests(); len(got) != before {
		t.Errorf("a machine that is off fetched %q", got[before:])
	}
	b.boot(once)
	serial := b.Serial(0)
	b.reset(schemas.OnResetType)
	b.prints(serial, "^CDROM$")
	machine.WaitOff(t, b.Machine)
	if got := n.Requests(); len(got) == before {
		t.Error("the image was not fetched")
	}
	if d := drive(); !gofish.Deref(d.Inserted) || d.Image != image {
		t.Errorf("after the boot the drive is %+v", d)
	}
	b.reset(schemas.OnResetType)
	if line := b.prints(serial, "^(DISK|CDROM)$"); line != "DISK" {
		t.Errorf("once was used up, and the machine boots %s", line)
	}
	if _, err := drive().EjectMedia(); err != nil {
		t.Fatal(err)
	}
	if d := drive(); gofish.Deref(d.Inserted) || b.Block(t) {
		t.Errorf("after the eject the drive is %+v, in QEMU full: %t", d, b.Block(t))
	}
	if _, err := drive().InsertMedia(inserting("http://" + machine.ServedAt + "/missing.iso")); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an image that is not there: %v", err)
	}
	once.BootSourceOverrideEnabled = schemas.ContinuousBootSourceOverrideEnabled
	b.boot(once)
	b.reset(schemas.ForceRestartResetType)
	if line := b.prints(serial, "^(DISK|CDROM)$"); line != "DISK" {
		t.Errorf("with an empty drive the machine boots %s", line)
	}
	if _, err := drive().InsertMedia(inserting(image)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.reset(schemas.ResetType(map[bool]string{true: "ForceRestart", false: "On"}[b.On()]))
		if line := b.prints(serial, "^(DISK|CDROM)$"); line != "CDROM" {
			t.Errorf("with the override for good the machine boots %s", line)
		}
		machine.WaitOff(t, b.Machine)
	}
}
