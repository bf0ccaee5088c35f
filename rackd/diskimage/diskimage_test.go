package diskimage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/imagecache"
)

// disk is the content of a small disk with holes.
func disk() []byte {
	b := make([]byte, 8<<20)
	r := rand.NewChaCha8([32]byte{3})
	for _, part := range [][2]int{{0, 4096}, {1 << 20, 1<<20 + 300<<10}, {8<<20 - 512, 8 << 20}} {
		r.Read(b[part[0]:part[1]])
	}
	copy(b, "\xeb\x63\x90")
	return b
}

// qemuImg is the judge: Debian's qemu-img writes the foreign formats and reads what comes out.
func qemuImg(t *testing.T, args ...string) {
	t.Helper()
	if text, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %v (Debian package qemu-utils): %v: %s", args, err, text)
	}
}

func foreign(t *testing.T, format string, raw []byte, options ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "raw"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, append(append([]string{"convert", "-f", "raw", "-O", format}, options...), in, out)...)
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rack is a cache and the folder that its images come from.
type rack struct {
	*imagecache.Cache
	dir, images string
}

func newRack(t *testing.T) rack {
	t.Helper()
	r := rack{dir: t.TempDir(), images: t.TempDir()}
	r.open(t)
	return r
}

func (r *rack) open(t *testing.T) {
	t.Helper()
	c, err := imagecache.Open(imagecache.Config{Dir: r.dir, AllowedDirs: []string{r.images}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.Cache = c
}

func (r *rack) entry(t *testing.T, name string, b []byte) imagecache.Entry {
	t.Helper()
	path := filepath.Join(r.images, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := r.Ensure(t.Context(), imagecache.Source{URL: "file://" + path, HashValue: fmt.Sprintf("%x", sha256.Sum256(b))})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func packed(t *testing.T, program string, b []byte) []byte {
	t.Helper()
	cmd := exec.Command(program, "-c")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(b), &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return out.Bytes()
}

// What agents read stays as it is, and the content tells what it is.
func TestWhatStaysAsItIs(t *testing.T) {
	raw := disk()
	q := foreign(t, "qcow2", raw)
	r := newRack(t)
	for name, c := range map[string]struct {
		file                []byte
		declared, packing   string
		format, compression string
	}{
		"raw":             {raw, "", "", "raw", ""},
		"raw, declared":   {raw, "raw", "none", "raw", ""},
		"qcow2":           {q, "", "", "qcow2", ""},
		"qcow2, declared": {q, "qcow2", "", "qcow2", ""},
		"raw in gzip":     {packed(t, "gzip", raw), "", "", "raw", "gzip"},
		"raw in xz":       {packed(t, "xz", raw), "raw", "xz", "raw", "xz"},
		"qcow2 in zstd":   {packed(t, "zstd", q), "", "zstd", "qcow2", "zstd"},
		"raw in pzstd":    {append([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00\x10\x00\x00\x00"), packed(t, "zstd", raw)...), "", "", "raw", "zstd"},
		"a VHD as raw":    {foreign(t, "vpc", raw, "-o", "subformat=fixed,force_size=on"), "raw", "", "raw", ""},
	} {
		got, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", c.file), c.declared, c.packing)
		if err != nil || got.Format != c.format || got.Compression != c.compression || got.Converted != "" || got.HashValue != fmt.Sprintf("%x", sha256.Sum256(c.file)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Each foreign format becomes the very disk that it holds, once, also across a restart.
func TestConversion(t *testing.T) {
	raw := disk()
	plain := filepath.Join(t.TempDir(), "raw")
	if err := os.WriteFile(plain, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRack(t)
	for name, c := range map[string]struct{ declared, format, options string }{
		"vmdk":              {"vmdk", "vmdk", "subformat=monolithicSparse"},
		"vmdk, streamed":    {"", "vmdk", "subformat=streamOptimized"},
		"vhd":               {"vhd", "vpc", "force_size=on"},
		"vhd of fixed size": {"vhd", "vpc", "subformat=fixed,force_size=on"},
		"vhdx":              {"vhdx", "vhdx", "subformat=dynamic"},
		"vdi":               {"", "vdi", "static=off"},
	} {
		e := r.entry(t, "i", foreign(t, c.format, raw, "-o", c.options))
		got, err := Prepare(t.Context(), r.Cache, e, c.declared, "")
		if err != nil || got.Format != "qcow2" || got.Compression != "" || got.Converted == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		qemuImg(t, "compare", "-f", "raw", "-F", "qcow2", plain, got.Path)
		qemuImg(t, "check", "-f", "qcow2", got.Path)
		r.open(t)
		before, err := os.Stat(got.Path)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Prepare(t.Context(), r.Cache, e, c.declared, "")
		after, statErr := os.Stat(got.Path)
		if err != nil || statErr != nil || again.ID != got.ID || !os.SameFile(before, after) {
			t.Errorf("%s: converted once more: %+v, %v, %v", name, again, err, statErr)
		}
	}
}

// Images of hostile origin are refused by what their headers say; no program reads them.
func TestHostileImages(t *testing.T) {
	raw := disk()
	r := newRack(t)
	patch := func(b []byte, at int, with string) []byte {
		b = bytes.Clone(b)
		copy(b[at:], with)
		return b
	}
	replace := func(b []byte, old, with string) []byte {
		if len(old) != len(with) || !bytes.Contains(b, []byte(old)) {
			t.Fatalf("%q is not there, or of another length", old)
		}
		return bytes.Replace(b, []byte(old), []byte(with), 1)
	}
	qcow2, vmdk, vdi := foreign(t, "qcow2", raw), foreign(t, "vmdk", raw, "-o", "subformat=monolithicSparse"), foreign(t, "vdi", raw)
	vhd, vhdx := foreign(t, "vpc", raw, "-o", "force_size=on"), foreign(t, "vhdx", raw)
	for name, c := range map[string]struct {
		file            []byte
		declared, words string
	}{
		"qcow2 with a backing file":        {patch(qcow2, 8, "\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x0b"), "", "backing file"},
		"the same, in gzip":                {packed(t, "gzip", patch(qcow2, 8, "\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x0b")), "", "backing file"},
		"gzip that ends in a name":         {[]byte("\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03na"), "", "cannot be unpacked as gzip"},
		"qcow2 with a data file":           {patch(qcow2, 79, "\x04"), "", "data is in another file"},
		"qcow2 with a feature of tomorrow": {patch(qcow2, 79, "\x40"), "", "features that are not known"},
		"qcow2 declared raw":               {qcow2, "raw", "declared as raw, and its content is qcow2"},
		"raw declared vmdk":                {raw, "vmdk", "declared as vmdk, and its content is raw"},
		"a VMDK that only describes":       {[]byte("# Disk DescriptorFile\nversion=1\ncreateType=\"monolithicFlat\"\nRW 63 FLAT \"/etc/shadow\" 0\n" + strings.Repeat(" ", 512)), "", "in other files"},
		"a VMDK of other extents":          {replace(vmdk, "SPARSE", "FLAT  "), "", "only one of type SPARSE"},
		"a VMDK of another type":           {replace(vmdk, "monolithicSparse", "monolithicFlat!!"), "", "not of a type"},
		"a VMDK without a size":            {patch(vmdk, 12, "\x00\x00\x00\x00\x00\x00\x00\x00"), "", "0 sectors"},
		"a VMDK with a hidden descriptor":  {patch(vmdk, 28, "\x02"), "", "second sector"},
		"a VMDK with a parent":             {replace(vmdk, "parentCID=ffffffff", "parentCID=fffffffe"), "vmdk", "parent file"},
		"a VMDK that names its parent":     {replace(vmdk, "parentCID=ffffffff", "parentFileNameHint"), "", "parent file"},
		"a VDI with a parent":              {patch(vdi, 440, "x"), "", "parent file"},
		"a VHD with a parent":              {patch(vhd, 60, "\x00\x00\x00\x04"), "", "parent file"},
		"a VHDX with a parent":             {patch(vhdx, bytes.Index(vhdx, []byte("\x37\x67\xa1\xca"))+32, "\x37\x67\xa1\xca"), "", "metadata are not whole"},
		"a tar archive":                    {patch(raw, 257, "ustar"), "", "tar archive"},
		"gzip in gzip":                     {packed(t, "gzip", packed(t, "gzip", raw)), "", "inside gzip"},
		"bzip2":                            {append([]byte("BZh9"), raw...), "", "compressed as bzip2"},
		"half a gzip":                      {append([]byte("\x1f\x8b\x08"), raw[:600]...), "", "cannot be unpacked"},
		"a compressed VMDK":                {packed(t, "gzip", vmdk), "", "cannot be converted"},
		"a VMDK whose tables are wrong":    {patch(vmdk, 48, strings.Repeat("\xff", 16)), "", "qemu-img cannot convert"},
	} {
		_, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", c.file), c.declared, "")
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		}
	}
	for name, packing := range map[string]string{"not compressed": "gzip", "none": "zstd"} {
		if _, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", raw), "", packing); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", packed(t, "gzip", raw)), "", None); !errors.Is(err, ErrRefused) {
		t.Errorf("compressed though it is said not to be: %v", err)
	}
}

// A host without the program refuses what has to be converted, and nothing else.
func TestWithoutTheProgram(t *testing.T) {
	r := newRack(t)
	e, plain := r.entry(t, "i", foreign(t, "vdi", disk())), r.entry(t, "j", disk())
	t.Setenv("PATH", t.TempDir())
	if _, err := Prepare(t.Context(), r.Cache, e, "", ""); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no qemu-img (Debian package qemu-utils)") {
		t.Errorf("%v", err)
	}
	if got, err := Prepare(t.Context(), r.Cache, plain, "", ""); err != nil || got.Format != "raw" {
		t.Errorf("%+v, %v", got, err)
	}
}
