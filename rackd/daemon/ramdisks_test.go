package daemon

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/bootmedium"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/bootweb"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/netboot/mediaweb"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

// rackOfTwo is a rackd with ramdisks of its own for x86_64, and others for arm64 and for a class. Each file's content is its name and
// the header of its architecture.
func rackOfTwo(t *testing.T) *rackd {
	t.Helper()
	dir := t.TempDir()
	made := func(name string, machine uint16) string {
		head := make([]byte, 256)
		copy(head, "MZ")
		binary.LittleEndian.PutUint32(head[0x3c:], 0x80)
		copy(head[0x80:], "PE\x00\x00")
		binary.LittleEndian.PutUint16(head[0x84:], machine)
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, append(head, "<"+name+">"...), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const x64, arm = 0x8664, 0xaa64
	made("snponly.efi", x64)
	paths := bootfiles.Paths{Kernel: made("own-kernel", x64), Ramdisk: made("own-ramdisk", 0), RescueRamdisk: made("own-rescue", 0), UKI: made("own-uki", x64)}
	r := &rackd{}
	var err error
	if r.ramdisks, err = rackramdisk.New(paths, []rackramdisk.Ramdisk{
		{Arch: rackramdisk.ARM64, Kernel: made("arm-kernel", arm), Initramfs: made("arm-ramdisk", 0), UKI: made("arm-uki", arm)},
		{Class: "gpu", Kernel: made("gpu-kernel", x64), Initramfs: made("gpu-ramdisk", 0), RescueInitramfs: made("gpu-rescue", 0), UKI: made("gpu-uki", x64)},
	}); err != nil {
		t.Fatal(err)
	}
	paths.More = r.ramdisks.More()
	if r.files, err = bootfiles.New(dir, paths); err != nil {
		t.Fatal(err)
	}
	return r
}

// oneMachine is a directory of one machine.
type oneMachine struct{ m netboot.Machine }

func (o oneMachine) ByMAC(string) (netboot.Machine, bool)  { return o.m, true }
func (o oneMachine) ByUUID(string) (netboot.Machine, bool) { return o.m, true }

// TestRamdisksByClassAndArchitecture has machines ask by each way to boot, and looks into the files that they are sent.
func TestRamdisksByClassAndArchitecture(t *testing.T) {
	t.Parallel()
	const mac = "52:54:00:00:00:01"
	r := rackOfTwo(t)
	from := netip.MustParseAddr("192.0.2.9")
	for _, c := range []struct {
		class, arch string
		rescue      bool
		want        string // what the names of all its files begin with
		last        string // of its initramfs, where it is another's
	}{
		{"", "x86_64", false, "own", ""}, {"", "", false, "own", ""}, {"cpu", "aarch64", false, "arm", ""}, {"gpu", "x86_64", false, "gpu", ""}, {"gpu", "", false, "gpu", ""},
		{"", "", true, "own", "own-rescue"}, {"gpu", "x86_64", true, "gpu", "gpu-rescue"},
	} {
		n := &node.Document{UUID: "11111111-1111-4111-8111-111111111111", ResourceClass: c.class, State: provision.CleanWait,
			Properties: map[string]any{"cpu_arch": c.arch, "capabilities": "boot_mode:uefi"}, Ports: []node.Port{{Address: mac, PXEEnabled: true}}}
		if c.rescue {
			n.State = provision.RescueWait
		}
		initramfs := c.last
		if initramfs == "" {
			initramfs = c.want + "-ramdisk"
		}
		machine := func(b driver.Boot) netboot.Machine {
			m, ok := directory{ramdisks: r.ramdisks, cached: func(string) string { return "" }}.machine(conductor.BootOrder{Node: n, State: n.State, Order: b.RamdiskOrder(n, nil)}, true)
			if !ok {
				t.Fatal("the machine is not known")
			}
			return m
		}
		scripts := func(m netboot.Machine) *bootscript.Scripts {
			return &bootscript.Scripts{Directory: oneMachine{m}, Journal: noJournal{}, Log: slog.New(slog.DiscardHandler), Ramdisk: func(m netboot.Machine) ipxescript.Ramdisk {
				found := ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://192.0.2.1:8080", TFTP: "tftp://192.0.2.1"}}
				r.nameFiles(&found, m)
				return found
			}}
		}
		served := func(s *bootscript.Scripts, path string) string {
			w := httptest.NewRecorder()
			bootweb.Handler(bootweb.Config{Journal: noJournal{}, Files: r.files, Scripts: s, Log: s.Log}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			return w.Body.String()
		}
		opened := func(name string) string {
			f, err := r.files.Open(name)
			if err != nil {
				t.Errorf("%+v: %v", c, err)
				return ""
			}
			defer f.Close()
			body := make([]byte, 512)
			read, _ := f.Read(body)
			return string(body[:read])
		}
		holds := func(way, content, name string) {
			t.Helper()
			if !strings.Contains(content, "<"+name+">") {
				t.Errorf("class %q, cpu_arch %q, rescue %v, %s: not the file %s: %.80q", c.class, c.arch, c.rescue, way, name, content)
			}
		}
		s := scripts(machine(networkboot.IPXE()))
		script, err := s.ForMAC(mac, "http", from)
		if err != nil {
			t.Fatal(err)
		}
		at := regexp.MustCompile(`http://192.0.2.1:8080(/files/\S+)`).FindAllStringSubmatch(script, -1)
		if len(at) != 2 {
			t.Fatalf("%+v: %s", c, script)
		}
		holds("ipxe", served(s, at[0][1]), c.want+"-kernel")
		holds("ipxe", served(s, at[1][1]), initramfs)
		for language, l := range map[string]bootscript.Language{"grub": bootscript.GRUB, "pxelinux": bootscript.PXELinux} {
			text, err := scripts(machine(networkboot.PXE())).ForLoader(l, mac, from)
			if err != nil {
				t.Fatal(err)
			}
			names := regexp.MustCompile(`(?:linux|initrd|LINUX|INITRD) '?/([^\s']+)`).FindAllStringSubmatch(text, -1)
			if len(names) != 2 {
				t.Fatalf("%+v: %s", c, text)
			}
			holds(language, opened(names[0][1]), c.want+"-kernel")
			holds(language, opened(names[1][1]), initramfs)
		}
		if !c.rescue {
			s = scripts(machine(networkboot.HTTP(r.ramdisks)))
			holds("http", served(s, netboot.ProgramPath+netboot.Dashed(mac)+"/"+netboot.ProgramName(c.arch == "aarch64")), c.want+"-uki")
			holds("http by PXE", opened(machine(networkboot.HTTP(r.ramdisks)).ProgramFile(c.arch == "aarch64")), c.want+"-uki")
		}
		var on []string
		m := machine(networkboot.IPXE())
		media := mediaweb.Handler(mediaweb.Config{Medium: func(context.Context, string, string) (mediaweb.Medium, bool) {
			return mediaweb.Medium{Node: n, Load: *m.Order.Load, Machine: m}, true
		}, Open: func(_, name string) (bootmedium.File, func(), error) {
			on = append(on, opened(name))
			return bootmedium.File{ReaderAt: strings.NewReader("x"), Size: 1}, func() {}, nil
		}, Ramdisk: s.Ramdisk, Loader: bootmedium.FindLoader(t.Context()), Journal: noJournal{}, Log: s.Log})
		media.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodHead, mediaweb.Path(n.UUID, "code"), nil))
		if len(on) != 2 {
			t.Fatalf("%+v: the medium opens %q", c, on)
		}
		holds("medium", on[0], c.want+"-kernel")
		holds("medium", on[1], initramfs)
	}
}

// A machine that validate would refuse, because its class has changed since, is told so at its console.
func TestNoRamdiskForAMachine(t *testing.T) {
	r := rackOfTwo(t)
	found := ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://192.0.2.1:8080"}}
	m := netboot.Machine{UUID: "u", Arch: "ppc64le", Order: networkboot.IPXE().RamdiskOrder(&node.Document{}, nil)}
	r.nameFiles(&found, m)
	if script := ipxescript.Write(m, "52:54:00:00:00:01", found); !strings.Contains(script, "ramdisk-for") || strings.Contains(script, "/files/") {
		t.Errorf("script:\n%s", script)
	}
}

// A ramdisk's file that is missing ends rackd at its start, and so does one for another architecture.
func TestRamdisksAreLookedAtFromTheStart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"k", "r", "snponly.efi"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("ARM"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kernel, ramdisk, plain := filepath.Join(dir, "k"), filepath.Join(dir, "r"), make([]byte, 64)
	copy(plain[56:], "ARM\x64") // as kernels of arm64 begin
	arm := filepath.Join(dir, "arm")
	if err := os.WriteFile(arm, plain, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, more := range map[string]rackramdisk.Ramdisk{
		"is for aarch64, and the ramdisk for x86_64": {Arch: rackramdisk.X64, Kernel: arm, Initramfs: ramdisk},
		"is no file": {Arch: rackramdisk.ARM64, Kernel: filepath.Join(dir, "none"), Initramfs: ramdisk},
	} {
		cfg := waiting(t, freeAddress(t))
		cfg.Rack = &Rack{Kernel: kernel, Ramdisk: ramdisk, BootPrograms: dir, Ramdisks: []rackramdisk.Ramdisk{more}}
		if err := Run(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v", more, err)
		}
	}
}
