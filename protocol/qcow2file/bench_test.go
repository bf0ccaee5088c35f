package qcow2file

import (
	"bytes"
	"os"
	"testing"
)

// BenchmarkCompressedClusters reads a disk of 64 MiB, half of which compresses by three and half well, in pieces of 1 MiB.
func BenchmarkCompressedClusters(b *testing.B) {
	disk := append(text(32<<20), bytes.Repeat([]byte("a page that is empty but for this. "), 1<<20)[:32<<20]...)
	for _, kind := range []string{"zlib", "zstd"} {
		b.Run(kind, func(b *testing.B) {
			file, err := os.CreateTemp("/dev/shm", "ironyard-*")
			if err != nil {
				b.Fatal(err)
			}
			os.Remove(file.Name())
			defer file.Close()
			if _, err := file.Write(packed(b, disk, "cluster_size=64k,compression_type="+kind)); err != nil {
				b.Fatal(err)
			}
			img, err := Open(file)
			if err != nil {
				b.Fatal(err)
			}
			piece := make([]byte, 1<<20)
			b.SetBytes(int64(len(disk)))
			b.ReportAllocs()
			for b.Loop() {
				for off := 0; off < len(disk); off += len(piece) {
					if n, err := img.ReadAt(piece, int64(off)); n < len(piece) {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
