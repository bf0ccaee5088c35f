package qcow2file

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// packed converts a disk with qemu-img, so that the format is not of our making.
func packed(t testing.TB, disk []byte, options string) []byte {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	if err := os.WriteFile(in, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "-o", options, in, out).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img (Debian package qemu-utils): %v: %s", err, said)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// text is what can be compressed, and in no cluster the same as in another.
func text(size int) []byte {
	b, r := make([]byte, size), rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = "abcdefgh"[r.IntN(8)]
	}
	return b
}

// Clusters of each size are read whole, in pieces that end within one and with one.
func TestCompressedClustersOfEachSize(t *testing.T) {
	for _, kind := range []string{"zlib", "zstd"} {
		for _, bits := range []int{9, 12, 14, 15, 16, 21} {
			disk := text(max(5<<bits/4, 200<<10+512)) // the last cluster is not whole
			file := packed(t, disk, fmt.Sprintf("compression_type=%s,cluster_size=%d", kind, 1<<bits))
			img, err := Open(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			for _, piece := range []int{len(disk), 100_000} {
				got := make([]byte, len(disk))
				for off := 0; off < len(got); off += piece {
					p := got[off:min(off+piece, len(got))]
					if n, err := img.ReadAt(p, int64(off)); n < len(p) {
						t.Fatalf("%s, clusters of %d bytes: %d of the %d bytes at %d: %v", kind, 1<<bits, n, len(p), off, err)
					}
				}
				if !bytes.Equal(got, disk) {
					t.Errorf("%s, clusters of %d bytes, in pieces of %d: other bytes", kind, 1<<bits, piece)
				}
			}
		}
	}
}

// A cluster that ends too early is an error. It is no piece of a disk, and its reader comes to an end.
func TestAClusterThatIsCut(t *testing.T) {
	for _, kind := range []string{"zlib", "zstd"} {
		disk := text(256 << 10)
		file := packed(t, disk, "cluster_size=64k,compression_type="+kind)
		img, err := Open(bytes.NewReader(file[:len(file)-20<<10]))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(disk))
		if n, err := img.ReadAt(got, 0); n == len(disk) || err == nil {
			t.Errorf("%s: %d bytes, error %v", kind, n, err)
		}
	}
}

func TestAFileThatRefersToAnother(t *testing.T) {
	dir := t.TempDir()
	base, file := filepath.Join(dir, "base"), filepath.Join(dir, "file")
	if err := os.WriteFile(base, text(1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("qemu-img", "create", "-f", "qcow2", "-b", base, "-F", "raw", file).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img (Debian package qemu-utils): %v: %s", err, said)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(bytes.NewReader(b)); err == nil {
		t.Error("a file with a backing file is opened")
	}
}
