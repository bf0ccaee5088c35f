package iscsideploy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/iscsi"
	"github.com/ironyard/ironyard/rackd/iscsi/iscsitest"
)

// BenchmarkWrite writes an image of 256 MiB, a quarter of it zeros, to tgtd's file: with checksum, and read back, as a deploy does, and by
// `qemu-img convert`, which does neither. Both go over loopback, without CHAP.
func BenchmarkWrite(b *testing.B) {
	if _, err := exec.LookPath("tgtd"); err != nil {
		b.Skip("needs tgt and qemu-utils with qemu-block-extra (Debian's packages)")
	}
	const size = 256 << 20
	const iqn = "iqn.2026-11.org.example:bench"
	dir := b.TempDir()
	image, disk := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	img := make([]byte, size)
	rand.NewChaCha8([32]byte{5}).Read(img[:size*3/4])
	if err := os.WriteFile(image, img, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Truncate(disk, size); err != nil {
		b.Fatal(err)
	}
	g := iscsitest.Start(b, disk, iqn)
	b.Run("rackd", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			s, err := iscsi.Connect(b.Context(), iscsi.Target{Address: g.Address, IQN: iqn, LUN: 1, Initiator: "iqn.2026-11.org.example:rackd"}, iscsi.Options{})
			if err != nil {
				b.Fatal(err)
			}
			d, err := s.Disk(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			f, err := os.Open(image)
			if err != nil {
				b.Fatal(err)
			}
			src, err := openSource(f, driver.DiskImage{HashAlgo: "sha256", HashValue: sumOf(img), Format: "raw"})
			if err != nil {
				b.Fatal(err)
			}
			t := newTransfer(s, d, src)
			t.done = func() { f.Close() }
			for ended := false; !ended; {
				if ended, err = t.step(b.Context(), time.Now().Add(slice), func() error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			if err := t.seal(b.Context()); err != nil {
				b.Fatal(err)
			}
			t.close()
		}
	})
	b.Run("qemu-img", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if out, err := exec.CommandContext(b.Context(), "qemu-img", "convert", "-n", "-W", "-f", "raw", "-O", "raw", image, fmt.Sprintf("iscsi://%s/%s/1", g.Address, iqn)).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
