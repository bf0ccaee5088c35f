package debkernel

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestFirmware(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	put := func(dir, name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	put(a, "one/first.bin", []byte("of a"))
	put(b, "one/first.bin", []byte("of b"))
	put(b, "one/packed.bin.zst", z.EncodeAll([]byte("packed"), nil))
	put(b, "many/1.fw", []byte("1"))
	put(b, "many/2.fw.zst", z.EncodeAll([]byte("2"), nil))
	put(b, "many/other", []byte("no"))
	if err := os.Symlink("first.bin", filepath.Join(b, "one", "link.bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(b, "one", "out.bin")); err != nil {
		t.Fatal(err)
	}
	modules := []ModuleFile{
		{Name: "plain"},
		{Name: "one", Firmware: []string{"one/absent.bin", "one/first.bin", "one/packed.bin", "one/link.bin"}},
		{Name: "many", Firmware: []string{"many/*.fw", "one/first.bin"}},
		{Name: "none", Firmware: []string{"none/x.bin", "many", "none/*.bin"}},
	}
	files, without, err := Firmware(t.Context(), t.TempDir(), modules, []string{a, b})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Target+"="+string(f.Data))
	}
	if want := []string{"many/1.fw=1", "many/2.fw=2", "one/first.bin=of a", "one/link.bin=of b", "one/packed.bin=packed"}; !slices.Equal(got, want) {
		t.Errorf("firmware %q, want %q", got, want)
	}
	if !slices.Equal(without, []string{"none"}) {
		t.Errorf("without firmware: %v", without)
	}
	for what, c := range map[string]struct {
		wants string
		from  string
		says  string
	}{
		"a link that leads out": {"one/out.bin", b, "escapes"},
		"a name that does":      {"../../etc/passwd", b, "invalid"},
		"no such folder":        {"one/first.bin", filepath.Join(a, "absent"), "no such file"},
		"no name of a package":  {"one/first.bin", "-o", "no name of a Debian package"},
	} {
		if _, _, err := Firmware(t.Context(), t.TempDir(), []ModuleFile{{Name: "m", Firmware: []string{c.wants}}}, []string{c.from}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	put(a, "big.bin.zst", z.EncodeAll(bytes.Repeat([]byte{0}, maxFile+1), nil))
	if _, _, err := Firmware(t.Context(), t.TempDir(), []ModuleFile{{Name: "m", Firmware: []string{"big.bin"}}}, []string{a}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a file that unpacks to more than the bound: %v", err)
	}
}
