package diskimage

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A file that was cut off before its checksum was computed, such as one that is still being copied to the folder of images, is refused.
// qemu-img reads zeros behind a file's end: what was cut off would be zeros on the machine's disk.
func TestAFileThatWasCutOffIsNotConverted(t *testing.T) {
	raw := make([]byte, 16<<20)
	rand.NewChaCha8([32]byte{5}).Read(raw)
	r := newRack(t)
	for name, whole := range map[string][]byte{
		"vmdk":                  foreign(t, "vmdk", raw),
		"vmdk, streamOptimized": foreign(t, "vmdk", raw, "-o", "subformat=streamOptimized"),
		"vpc":                   foreign(t, "vpc", raw, "-o", "force_size=on"),
		"vhdx":                  foreign(t, "vhdx", raw),
		"vdi":                   foreign(t, "vdi", raw),
	} {
		cut := whole[:len(whole)*3/5/512*512]
		got, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", cut), "", "")
		if err != nil {
			continue
		}
		f, done, err := r.File(got.ID)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		qemuImg(t, "convert", "-f", got.Format, "-O", "raw", f.Name(), out)
		done()
		disk, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		same := 0
		for same < len(raw) && same < len(disk) && raw[same] == disk[same] {
			same++
		}
		t.Errorf("%s: %d of %d bytes of the file are taken for an image (%s): its disk is right for %d of %d bytes, and then zeros: %v", name, len(cut), len(whole), got.Format, same, len(raw),
			len(bytes.Trim(disk[min(same+1<<20, len(disk)):], "\x00")) == 0)
	}
}
