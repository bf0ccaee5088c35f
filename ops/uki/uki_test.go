package uki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"debug/pe"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/ops/uki/ukitest"
)

// stub is the smallest program that has room for more sections.
func stub() []byte {
	file := make([]byte, 0x600)
	copy(file, "MZ")
	le.PutUint32(file[60:], 64)
	copy(file[64:], "PE\x00\x00")
	h := le.AppendUint16(nil, 0x8664)
	h = le.AppendUint16(h, 1)
	h = append(h, make([]byte, 12)...)
	h = le.AppendUint16(le.AppendUint16(h, 240), 0x22)
	h = append(le.AppendUint16(h, 0x20b), 0, 0)
	for _, word := range []uint32{0x200, 0, 0, 0x1000, 0x1000, 0, 0, 0x1000, 0x200, 0, 0, 0, 0, 0x2000, 0x400, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16} {
		h = le.AppendUint32(h, word)
	}
	h = append(h, make([]byte, 16*8)...)
	h = append(h, ".text\x00\x00\x00"...)
	for _, word := range []uint32{0x200, 0x1000, 0x200, 0x400, 0, 0, 0, 0x60000020} {
		h = le.AppendUint32(h, word)
	}
	copy(file[68:], h)
	return file
}

func kernel() []byte {
	k := make([]byte, 5000)
	copy(k, "MZ")
	copy(k[0x202:], "HdrS")
	return k
}

func parts() Parts {
	return Parts{Stub: stub(), Kernel: kernel(), Initramfs: bytes.Repeat([]byte("ramdisk "), 1001), CommandLine: "console=ttyS0 quiet", OSRelease: "ID=ironyard\n"}
}

// A stub for arm64, whose headers are followed by instructions that do nothing, takes the sections, and no kernel of another machine.
func TestSectionsOfARM64(t *testing.T) {
	p := parts()
	le.PutUint16(p.Stub[68:], arm64)
	table := 64 + 24 + 240 + sectionSize
	copy(p.Stub[table:0x400], bytes.Repeat([]byte{0x1f, 0x20, 0x03, 0xd5}, (0x400-table)/4))
	if _, err := Build(p); err == nil || !strings.Contains(err.Error(), "0xaa64") {
		t.Errorf("with a bzImage: %v", err)
	}
	copy(p.Kernel[0x202:], "\x00\x00\x00\x00")
	copy(p.Kernel[56:], "ARM\x64")
	raw, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	f, err := pe.NewFile(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".linux")
	if s == nil || len(f.Sections) != 5 || f.Machine != pe.IMAGE_FILE_MACHINE_ARM64 {
		t.Fatalf("%d sections for machine %#x", len(f.Sections), f.Machine)
	}
	if data, err := s.Data(); err != nil || !bytes.Equal(data[:s.VirtualSize], p.Kernel) {
		t.Errorf("the kernel is another: %v", err)
	}
	p.Stub[table+5] = 1
	if _, err := Build(p); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a stub without room: %v", err)
	}
}

func TestSections(t *testing.T) {
	p := parts()
	raw, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	f, err := pe.NewFile(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	end := uint32(0)
	for _, s := range f.Sections {
		if s.VirtualAddress < end {
			t.Errorf("section %s begins at %#x, before the end of the one before it", s.Name, s.VirtualAddress)
		}
		end = s.VirtualAddress + s.VirtualSize
	}
	if size := f.OptionalHeader.(*pe.OptionalHeader64).SizeOfImage; size < end {
		t.Errorf("the image has %#x bytes, its sections end at %#x", size, end)
	}
	for name, want := range map[string][]byte{".linux": p.Kernel, ".initrd": p.Initramfs, ".cmdline": []byte(p.CommandLine), ".osrel": []byte(p.OSRelease)} {
		s := f.Section(name)
		if s == nil {
			t.Fatalf("no section %s", name)
		}
		got, err := s.Data()
		if err != nil || !bytes.Equal(got[:s.VirtualSize], want) {
			t.Errorf("section %s holds something else (%v)", name, err)
		}
	}
	again, err := Build(p)
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("two images of the same parts differ (%v)", err)
	}
}

// Debian's sbverify and objdump judge what was signed here.
func TestSigned(t *testing.T) {
	for _, tool := range []string{"sbverify", "sbattach"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("IRONYARD_E2E") != "" {
				t.Fatalf("%v (Debian's package sbsigntool)", err)
			}
			t.Skip("NOT RUN: no sbverify, of Debian's package sbsigntool")
		}
	}
	key, certificate := ukitest.Keys(t)
	_, stranger := ukitest.Keys(t)
	s, err := NewSigner(key, certificate)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := Build(parts())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(raw)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Sign(raw)
	if err != nil || !bytes.Equal(signed, again) {
		t.Errorf("two signatures of the same program differ (%v)", err)
	}
	if _, err := s.Sign(signed); err == nil {
		t.Error("a signed program was signed once more")
	}
	dir := t.TempDir()
	path := func(name string, body []byte) string {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, body, 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	verify := func(program, certificate string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "sbverify", "--cert", certificate, program).CombinedOutput()
		return string(out), err
	}
	ours := path("fleet.pem", certificate)
	if out, err := verify(path("signed.efi", signed), ours); err != nil || !strings.Contains(out, "Signature verification OK") {
		t.Errorf("sbverify: %v: %s", err, out)
	}
	if out, err := verify(path("signed.efi", signed), path("stranger.pem", stranger)); err == nil {
		t.Errorf("sbverify accepts another certificate: %s", out)
	}
	changed := bytes.Clone(signed)
	changed[bytes.Index(changed, []byte("quiet"))] = 'Q'
	if out, err := verify(path("changed.efi", changed), ours); err == nil {
		t.Errorf("sbverify accepts a changed command line: %s", out)
	}
	if out, err := verify(path("unsigned.efi", raw), ours); err == nil {
		t.Errorf("sbverify accepts an unsigned program: %s", out)
	}
	// Without its signature it is the program that was signed, its padding included.
	if out, err := exec.CommandContext(t.Context(), "sbattach", "--remove", path("stripped.efi", signed)).CombinedOutput(); err != nil {
		t.Errorf("sbattach: %v: %s", err, out)
	}
}

func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Parts){
		"a long command line":       func(p *Parts) { p.CommandLine = strings.Repeat("x", MaxCommandLine+1) },
		"a line end in it":          func(p *Parts) { p.CommandLine = "a\nb" },
		"no kernel":                 func(p *Parts) { p.Kernel = []byte("MZ") },
		"a kernel without its EFI":  func(p *Parts) { p.Kernel[0] = 0 },
		"no initramfs":              func(p *Parts) { p.Initramfs = nil },
		"no stub":                   func(p *Parts) { p.Stub = nil },
		"a stub that is cut":        func(p *Parts) { p.Stub = p.Stub[:0x500] },
		"a stub without room":       func(p *Parts) { le.PutUint32(p.Stub[64+offHeaders:], 0x170) },
		"a stub of another machine": func(p *Parts) { le.PutUint16(p.Stub[68:], 0xaa64) },
		"a signed stub":             func(p *Parts) { le.PutUint32(p.Stub[64+offSecurity+4:], 8) },
	} {
		p := parts()
		spoil(&p)
		if _, err := Build(p); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKeysRefused(t *testing.T) {
	key, certificate := ukitest.Keys(t)
	_, other := ukitest.Keys(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2][]byte{
		"no key":                 {nil, certificate},
		"no certificate":         {key, nil},
		"two certificates":       {certificate, certificate},
		"another's certificate":  {key, other},
		"an elliptic curve":      {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), certificate},
		"something that is none": {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("s3cret")}), certificate},
	} {
		if _, err := NewSigner(pair[0], pair[1]); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Programs come from the outside: none makes the package panic.
func FuzzBuild(f *testing.F) {
	f.Add(stub())
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := parts()
		p.Stub = raw
		out, err := Build(p)
		if err == nil {
			if _, err := parse(out); err != nil {
				t.Errorf("what was made cannot be read: %v", err)
			}
		}
	})
}
