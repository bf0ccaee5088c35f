package rackramdisk

import (
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
)

// pe is a file with the header of a PE file for a machine.
func pe(machine uint16) string {
	head := make([]byte, 512)
	copy(head, "MZ")
	binary.LittleEndian.PutUint32(head[0x3c:], 0x80)
	copy(head[0x80:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(head[0x84:], machine)
	return string(head)
}

// file writes a file and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArchitectureOfAFile(t *testing.T) {
	plain := make([]byte, 1024)
	copy(plain[0x202:], "HdrS")
	plain[0x236] = 1
	old := make([]byte, 1024) // of 32 bits
	copy(old[0x202:], "HdrS")
	arm := make([]byte, 64)
	copy(arm[56:], "ARM\x64")
	far := []byte(pe(peAMD64))
	binary.LittleEndian.PutUint32(far[0x3c:], 0xfffffff0)
	for name, c := range map[string]struct{ content, want string }{
		"x86_64": {pe(peAMD64), X64}, "arm64": {pe(peARM64), ARM64}, "x86 of 32 bits": {pe(0x14c), ""}, "a plain x86 kernel": {string(plain), X64},
		"one of 32 bits": {string(old), ""}, "a plain arm64 kernel": {string(arm), ARM64}, "text": {"kernel", ""}, "nothing": {"", ""},
		"a header beyond the file": {string(far), ""}, "cut off": {pe(peAMD64)[:0x84], ""},
	} {
		if got := archOf(file(t, "f", c.content)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := archOf(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("a file that there is not: %q", got)
	}
	if real := "/usr/lib/ipxe/snponly.efi"; archOf(real) != X64 {
		if _, err := os.Stat(real); err == nil {
			t.Errorf("%s: %q", real, archOf(real))
		}
	}
}

func TestWhatOperatorsWrite(t *testing.T) {
	got, err := Parse("arch=arm64, class=gpu,kernel=/k,ramdisk=/r,rescue-ramdisk=/rr,uki=/u,rescue-uki=/ru")
	if want := (Ramdisk{ARM64, "gpu", "/k", "/r", "/rr", "/u", "/ru"}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"kernel=/k,ramdisk=/r":               "for all machines",
		"arch=aarch64":                       "names no ramdisk",
		"arch=aarch64,kernel=/k":             "both kernel= and ramdisk=",
		"class=gpu,uki=/u,rescue-ramdisk=/r": "starts with the kernel",
		"class=gpu,uki=/u,uki=/v":            "twice",
		"class=gpu,uki=":                     "no value",
		"class=gpu,initrd=/r":                `no "initrd"`,
		"":                                   `no ""`,
		"class=gpu,uki":                      "no value",
		"arch=x86_64,class=gpu,rescue-uki=/u,uki=": "no value",
	} {
		// The flag is named by who reads it.
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), strconv.Quote(text)+": ") || strings.Contains(err.Error(), "--ramdisk-for") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestWhatCannotBe(t *testing.T) {
	x64, arm := file(t, "x64", pe(peAMD64)), file(t, "arm", pe(peARM64))
	for name, c := range map[string]struct {
		more []Ramdisk
		want string
	}{
		"the same twice":       {[]Ramdisk{{Arch: ARM64, UKI: arm}, {Arch: ARM64, UKI: arm}}, "--ramdisk-for arch=aarch64 is given twice"},
		"another architecture": {[]Ramdisk{{Arch: ARM64, Kernel: x64, Initramfs: "r"}}, "is for x86_64, and the ramdisk for aarch64"},
		"two of them":          {[]Ramdisk{{Class: "gpu", Kernel: x64, Initramfs: "r", UKI: arm}}, "is for aarch64, and the ramdisk for x86_64"},
	} {
		if _, err := New(bootfiles.Paths{Kernel: x64, Ramdisk: "r"}, c.more); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestWhichRamdisk walks nodes of classes and architectures by all ways to boot. A name says whose file it is: number 0, without a mark,
// is the rack's own.
func TestWhichRamdisk(t *testing.T) {
	x64, arm := file(t, "x64", pe(peAMD64)), file(t, "arm", pe(peARM64))
	own := bootfiles.Paths{Kernel: x64, Ramdisk: "r", RescueRamdisk: "rr", UKI: x64, UKIARM64: arm}
	s, err := New(own, []Ramdisk{
		{Arch: ARM64, Kernel: arm, Initramfs: "r1"},                                // 1
		{Class: "gpu", Kernel: x64, Initramfs: "r2", RescueInitramfs: "rr2"},       // 2
		{Class: "gpu", Arch: ARM64, UKI: arm, RescueUKI: arm},                      // 3
		{Class: "signed", UKI: x64},                                                // 4
		{Class: "any", Kernel: file(t, "k", "what no file says"), Initramfs: "r5"}, // 5
	})
	if err != nil {
		t.Fatal(err)
	}
	type ways struct{ files, rescue, uki, rescueUKI string } // a name, or words of the reason
	for _, c := range []struct {
		class, arch string
		want        ways
	}{
		{"", "", ways{"kernel ramdisk", "kernel rescue-ramdisk", "ramdisk.efi", "--rescue-uki"}},
		{"", "x86_64", ways{"kernel ramdisk", "kernel rescue-ramdisk", "ramdisk.efi", "--rescue-uki"}},
		{"cpu", "amd64", ways{"kernel ramdisk", "kernel rescue-ramdisk", "ramdisk.efi", "--rescue-uki"}},
		{"", "aarch64", ways{"kernel-r1 ramdisk-r1", "no ramdisk for rescues of aarch64 machines", "ramdisk-arm64.efi", "--rescue-uki-arm64"}},
		{"cpu", "arm64", ways{"kernel-r1 ramdisk-r1", "no ramdisk for rescues of aarch64 machines of class cpu", "ramdisk-arm64.efi", "--rescue-uki-arm64"}},
		{"gpu", "x86_64", ways{"kernel-r2 ramdisk-r2", "kernel-r2 rescue-ramdisk-r2", "class=gpu has no uki=", "--rescue-uki"}},
		{"gpu", "aarch64", ways{"arch=aarch64,class=gpu has no kernel=", "no ramdisk for rescues", "ramdisk-arm64-r3.efi", "rescue-ramdisk-arm64-r3.efi"}},
		{"signed", "x86_64", ways{"class=signed has no kernel=", "kernel rescue-ramdisk", "ramdisk-r4.efi", "--rescue-uki"}},
		{"signed", "aarch64", ways{"kernel-r1 ramdisk-r1", "no ramdisk for rescues", "ramdisk-arm64.efi", "--rescue-uki-arm64"}},
		{"any", "aarch64", ways{"kernel-r5 ramdisk-r5", "no ramdisk for rescues", "class=any has no uki=", "--rescue-uki-arm64"}},
		{"", "ppc64le", ways{"is for x86_64, and the machine's cpu_arch is ppc64le", "no ramdisk for rescues of ppc64le", "for ppc64le machines", "for ppc64le machines"}},
	} {
		n := &node.Document{ResourceClass: c.class, Properties: map[string]any{"cpu_arch": c.arch}}
		class, arch := Of(n)
		names := s.Names(class, arch)
		if is := s.Arch(n, false); names.Kernel != "" && c.class != "any" && is != cmp.Or(arch, X64) {
			t.Errorf("class %q, cpu_arch %q: its kernel is for %q", c.class, c.arch, is)
		}
		check := func(way, got string, lacks error, want string) {
			t.Helper()
			if lacks != nil {
				got = lacks.Error()
			}
			if lacks == nil && got != want || lacks != nil && !strings.Contains(got, want) {
				t.Errorf("class %q, cpu_arch %q, %s: %s, want %s", c.class, c.arch, way, got, want)
			}
		}
		check("kernel and ramdisk", names.Kernel+" "+names.Initramfs, s.Lacks(n, false), c.want.files)
		check("rescue", names.RescueKernel+" "+names.RescueInitramfs, s.Lacks(n, true), c.want.rescue)
		for rescue, want := range map[bool]string{false: c.want.uki, true: c.want.rescueUKI} {
			firmware := arch
			if firmware != ARM64 {
				firmware = X64
			}
			name := bootfiles.Numbered(bootfiles.Program(rescue, firmware == ARM64), s.Program(class, firmware, rescue))
			lacks := s.LacksProgram(n, rescue)
			check("program", name, lacks, want)
			if _, there := s.More()[name]; lacks == nil && strings.Contains(name, "-r") && !strings.HasPrefix(name, "rescue-ramdisk.") && !there {
				t.Errorf("class %q, cpu_arch %q: there is no file %s", c.class, c.arch, name)
			}
		}
		for _, name := range []string{names.Kernel, names.Initramfs} {
			if s.Lacks(n, false) != nil && name != "" {
				t.Errorf("class %q, cpu_arch %q: refused, and told %s", c.class, c.arch, name)
			}
		}
	}
}

// A ramdisk that is replaced under its name, while rackd runs, is another one.
func TestIdentityOfRamdisks(t *testing.T) {
	own := bootfiles.Paths{Kernel: file(t, "k", pe(0x8664)), Ramdisk: file(t, "r", "older")}
	more := Ramdisk{Class: "gpu", Kernel: file(t, "k", pe(0x8664)), Initramfs: file(t, "r", "older")}
	s, err := New(own, []Ramdisk{more})
	if err != nil {
		t.Fatal(err)
	}
	is := s.Identity()
	if again := s.Identity(); again != is {
		t.Errorf("%s, then %s, of the same files", is, again)
	}
	for _, path := range []string{own.Ramdisk, more.Initramfs} {
		if err := os.WriteFile(path, []byte("newer one"), 0o600); err != nil {
			t.Fatal(err)
		}
		if now := s.Identity(); now == is {
			t.Errorf("%s was replaced, and the identity is %s as before", path, now)
		}
		is = s.Identity()
	}
	elsewhere, err := New(bootfiles.Paths{Kernel: file(t, "k", pe(0x8664)), Ramdisk: file(t, "other", "newer one")},
		[]Ramdisk{{Class: "gpu", Kernel: file(t, "k", pe(0x8664)), Initramfs: file(t, "r", "newer one")}})
	if err != nil {
		t.Fatal(err)
	}
	if other := elsewhere.Identity(); other != is {
		t.Errorf("%s at a rack with the same content in other files, %s here", other, is)
	}
}
