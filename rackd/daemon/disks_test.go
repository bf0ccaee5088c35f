package daemon

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// A rackd that takes a work over gives the image that the work was given, also one that was converted and whose source is
// gone. Who cannot make a receipt is given what the source says.
func TestAnImageIsGivenByItsReceipt(t *testing.T) {
	dir := t.TempDir()
	raw, vdi := filepath.Join(dir, "raw"), filepath.Join(dir, "image")
	if err := os.WriteFile(raw, append([]byte("\xeb\x63\x90"), make([]byte, 4<<20)...)[:4<<20], 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "vdi", raw, vdi).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img (Debian package qemu-utils): %v: %s", err, text)
	}
	content, err := os.ReadFile(vdi)
	if err != nil {
		t.Fatal(err)
	}
	newKey := func() *seal.Key {
		key, err := seal.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	groups := seal.NewKeyring("rack-a", newKey())
	rack := func(keys *seal.Keyring) images {
		cache, err := imagecache.Open(imagecache.Config{Dir: t.TempDir(), AllowedDirs: []string{dir}, Client: http.DefaultClient})
		if err != nil {
			t.Fatal(err)
		}
		return images{cache: cache, bases: []string{"http://rack"}, codes: imageCodes{keys, "rack-a"}, neighbours: func() []bus.Member { return []bus.Member{{Group: "rack-a", BootURL: "http://neighbour"}} }}
	}
	first := rack(groups)
	src := driver.ImageSource{URL: "file://" + vdi, HashAlgo: "sha256", HashValue: fmt.Sprintf("%x", sha256.Sum256(content)), Format: "vdi"}
	got, err := first.PrepareDisk(t.Context(), src)
	if err != nil || got.Format != "qcow2" || got.Converted != "vdi" || got.HashValue == src.HashValue || len(got.URLs) != 2 || !strings.HasSuffix(got.URLs[1], got.ID()) {
		t.Fatalf("%+v, %v", got, err)
	}
	// The neighbour has the copy that the mirror made, and the source is gone.
	second := rack(groups)
	copied, done, err := first.cache.File(got.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.cache.Ensure(t.Context(), imagecache.Source{URL: "file://" + mirrored(t, dir, copied), HashAlgo: got.HashAlgo, HashValue: got.HashValue}); err != nil {
		t.Fatal(err)
	}
	done()
	if err := os.Remove(vdi); err != nil {
		t.Fatal(err)
	}
	src.Given = got.Receipt
	if again, err := second.PrepareDisk(t.Context(), src); err != nil || again.ID() != got.ID() || again.Format != "qcow2" {
		t.Errorf("%+v, %v", again, err)
	}
	other := src
	other.URL += "2"
	forged := src
	forged.Given = strings.Repeat("A", 22) + "." + got.ID()
	for name, src := range map[string]driver.ImageSource{"of another source": other, "forged": forged} {
		if again, err := second.PrepareDisk(t.Context(), src); err == nil {
			t.Errorf("a receipt %s: %+v", name, again)
		}
	}
	if id := (imageCodes{seal.NewKeyring("rack-a", newKey()), "rack-a"}).given(src); id != "" {
		t.Errorf("another key takes the receipt for %s", id)
	}
}

// A qcow2 file within a compression is unpacked for a writer that reads it out of order, and for no other. A rackd that takes the work over
// gives the unpacked file, whatever was declared of the source.
func TestAnUnpackedImageIsGivenByItsReceipt(t *testing.T) {
	dir := t.TempDir()
	q := filepath.Join(dir, "q")
	if text, err := exec.Command("qemu-img", "create", "-f", "qcow2", q, "4M").CombinedOutput(); err != nil {
		t.Fatalf("qemu-img (Debian package qemu-utils): %v: %s", err, text)
	}
	if text, err := exec.Command("gzip", "-k", q).CombinedOutput(); err != nil {
		t.Fatalf("gzip: %v: %s", err, text)
	}
	plain, err := os.ReadFile(q)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(q + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	groups := seal.NewKeyring("rack-a", key)
	rack := func() images {
		cache, err := imagecache.Open(imagecache.Config{Dir: t.TempDir(), AllowedDirs: []string{dir}, Client: http.DefaultClient})
		if err != nil {
			t.Fatal(err)
		}
		return images{cache: cache, bases: []string{"http://rack"}, codes: imageCodes{groups, "rack-a"}, neighbours: func() []bus.Member { return nil }}
	}
	first := rack()
	src := driver.ImageSource{URL: "file://" + q + ".gz", HashAlgo: "sha256", HashValue: fmt.Sprintf("%x", sha256.Sum256(packed)), Format: "qcow2", Compression: "gzip"}
	for seekable, want := range map[bool]driver.DiskImage{
		false: {HashValue: src.HashValue, Compression: "gzip"},
		true:  {HashValue: fmt.Sprintf("%x", sha256.Sum256(plain)), Unpacked: "gzip"},
	} {
		src.Seekable = seekable
		got, err := first.PrepareDisk(t.Context(), src)
		if err != nil || got.Format != "qcow2" || got.HashValue != want.HashValue || got.Compression != want.Compression || got.Unpacked != want.Unpacked {
			t.Errorf("seekable %v: %+v, %v", seekable, got, err)
		}
	}
	src.Seekable = true
	got, err := first.PrepareDisk(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	second := rack()
	if _, err := second.cache.Ensure(t.Context(), imagecache.Source{URL: "file://" + q, HashAlgo: got.HashAlgo, HashValue: got.HashValue}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(q + ".gz"); err != nil {
		t.Fatal(err)
	}
	src.Given = got.Receipt
	if again, err := second.PrepareDisk(t.Context(), src); err != nil || again.ID() != got.ID() || again.Compression != "" {
		t.Errorf("taken over: %+v, %v", again, err)
	}
}

// mirrored writes a file of a cache to a folder.
func mirrored(t *testing.T, dir string, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "copy")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
