package iscsideploy

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/iscsi"
)

// hostile is a qcow2 file of which all first-level entries lead to one second-level table (QEMU's docs/interop/qcow2.txt).
type hostile struct {
	bits     uint32 // of a cluster
	size     uint64 // of the virtual disk
	features uint64 // incompatible ones
	kind     byte   // of compression; 1: zstd
	entry    uint64 // the first one of the second-level table
	data     []byte // at the fourth cluster
}

func (h hostile) open(t *testing.T) source {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := h.write(f); err != nil {
		t.Fatal(err)
	}
	src, err := openQcow2(f, driver.DiskImage{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.close)
	return src
}

func (h hostile) write(f *os.File) error {
	cluster := uint64(1) << h.bits
	entries := cluster / 8
	if h.features&(1<<4) != 0 {
		entries /= 2
	}
	l1 := (h.size + cluster*entries - 1) / (cluster * entries)
	be := binary.BigEndian
	head := make([]byte, 112)
	copy(head, "QFI\xfb")
	be.PutUint32(head[4:], 3)
	be.PutUint32(head[20:], h.bits)
	be.PutUint64(head[24:], h.size)
	be.PutUint32(head[36:], uint32(l1))
	be.PutUint64(head[40:], cluster) // the first-level table
	be.PutUint64(head[72:], h.features)
	be.PutUint32(head[96:], 4)
	be.PutUint32(head[100:], 112)
	head[104] = h.kind
	table := make([]byte, l1*8)
	for i := range l1 {
		be.PutUint64(table[i*8:], 2*cluster)
	}
	for at, p := range map[uint64][]byte{0: head, cluster: table, 2 * cluster: be.AppendUint64(nil, h.entry), 3 * cluster: h.data, 5*cluster - 1: {0}} {
		if _, err := f.WriteAt(p, int64(at)); err != nil {
			return err
		}
	}
	return nil
}

// The next piece of an image is found within a bounded time, whatever its tables are: between pieces the fence is asked, and the step's
// end is noticed.
func TestTablesOfAnImageHoldNothingUp(t *testing.T) {
	for name, h := range map[string]hostile{
		"tables that are long to read": {bits: 21, size: 2 << 40, features: 1 << 4},
		"many small clusters":          {bits: 12, size: 8 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			src, ended := h.open(t), make(chan error, 1)
			go func() {
				p := make([]byte, iscsi.Largest)
				for range 4 {
					if _, _, err := src.next(p); err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("four pieces are not found in 10 s")
			}
		})
	}
}

// A compressed cluster asks for no more memory than a cluster needs.
func TestAClusterAsksForMemory(t *testing.T) {
	var frame bytes.Buffer
	z, err := zstd.NewWriter(&frame, zstd.WithWindowSize(256<<20), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(z, zeroReader{}, 4<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const bits = 16
	// Where the cluster lies, and in how many sectors beyond the first.
	entry := uint64(1)<<62 | 127<<(62-(bits-8)) | 3<<bits
	src := hostile{bits: bits, size: 1 << 30, features: 1 << 3, kind: 1, entry: entry, data: frame.Bytes()}.open(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = src.next(make([]byte, 1<<bits))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
		t.Errorf("one cluster took %d MiB (%v)", took>>20, err)
	}
}

// The end of an image whose last cluster is not whole is read, also in pieces that are smaller than a cluster.
func TestALastClusterThatIsNotWhole(t *testing.T) {
	for name, entry := range map[string]uint64{"empty": 0, "zero": 1, "data": 1<<63 | 3<<21} {
		h := hostile{bits: 21, size: 2<<20 + 1<<20 + 512, entry: entry, data: bytes.Repeat([]byte{7}, 2<<20)}
		src, p, got := h.open(t), make([]byte, iscsi.Largest), int64(0)
		for {
			n, zero, err := src.next(p)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: after %d bytes: %v", name, got, err)
			}
			got += max(int64(n), zero)
		}
		if got != int64(h.size) {
			t.Errorf("%s: %d bytes, not %d", name, got, h.size)
		}
	}
}

// An image is read whole if its clusters are smaller than what is unpacked at once.
func TestSmallClustersThatAreCompressed(t *testing.T) {
	disk, dir := bytes.Repeat([]byte("a disk's content. "), 40<<10), t.TempDir()
	disk = disk[:len(disk)/512*512]
	raw, file := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	if err := os.WriteFile(raw, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "-o", "cluster_size=4k", raw, file).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, said)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	src, err := openQcow2(f, driver.DiskImage{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	var got []byte
	for p := make([]byte, iscsi.Largest); ; {
		n, zero, err := src.next(p)
		if err == io.EOF {
			break
		}
		if err != nil || zero > 0 {
			t.Fatalf("after %d of %d bytes: %d zeros, error %v", len(got), len(disk), zero, err)
		}
		got = append(got, p[:n]...)
	}
	if !bytes.Equal(got, disk) {
		t.Errorf("%d bytes were read, which are not those of the disk (%d)", len(got), len(disk))
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// FuzzSource lets an image be anything: it ends in an error or in data, within bounds, and rackd goes on.
func FuzzSource(f *testing.F) {
	small := bytes.Repeat([]byte("disk"), 1000)
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := w.Write(small); err != nil || w.Close() != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), z.Bytes())
	// `printf disk | xz`
	xz, err := base64.StdEncoding.DecodeString("/Td6WFoAAATm1rRGAgAhARYAAAB0L+WjAQADZGlzawA5ynnXZ0jNlgABHARvLJzBH7bzfQEAAAAABFla")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(1), xz)
	f.Add(uint8(2), []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\xc9\x2c\xce\x06\x00"))
	f.Add(uint8(3), []byte("QFI\xfb\x00\x00\x00\x03"))
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		i := driver.DiskImage{Format: diskformat.Raw, Compression: []string{diskformat.Zstd, diskformat.XZ, diskformat.Gzip, ""}[kind%4]}
		if kind%4 == 3 {
			// A header that is taken, and tables that are anything.
			h := hostile{bits: 9 + uint32(len(text))%13, size: 1 << 24, features: uint64(kind>>4) &^ 6, kind: 1}
			i.Format = diskformat.QCOW2
			if err := h.write(file); err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteAt(text, 104); err != nil {
				t.Fatal(err)
			}
		} else if _, err := file.Write(text); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		src, err := openSource(file, i)
		if err != nil {
			return
		}
		defer src.close()
		p := make([]byte, iscsi.Largest)
		for range 64 {
			n, zero, err := src.next(p)
			if err != nil {
				return
			}
			if n > len(p) || n <= 0 && zero <= 0 {
				t.Fatalf("%d bytes and %d zeros", n, zero)
			}
		}
	})
}
