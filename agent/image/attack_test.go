package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lima-vm/go-qcow2reader/image"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/protocol/qcow2file"
)

// qemu runs one of QEMU's programs (Debian package qemu-utils).
func qemu(t *testing.T, args ...string) {
	t.Helper()
	if said, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, said)
	}
}

// Files that QEMU wrote to in no order, with all kinds of clusters, read as QEMU reads them.
func TestFilesThatQEMUWroteTo(t *testing.T) {
	for i, options := range []string{"cluster_size=512", "cluster_size=4k,compression_type=zstd", "cluster_size=64k,preallocation=metadata",
		"cluster_size=16k,extended_l2=on", "cluster_size=64k,extended_l2=on,compression_type=zstd", "cluster_size=2M,lazy_refcounts=on"} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, uint64(i)))
			file, flat := filepath.Join(t.TempDir(), "qcow2"), filepath.Join(t.TempDir(), "raw")
			const size = 6<<20 + 512
			qemu(t, "qemu-img", "create", "-q", "-f", "qcow2", "-o", options, file, strconv.Itoa(size))
			for round := range 2 {
				args := []string{"qemu-io", "-f", "qcow2", "-d", "unmap"}
				for range 15 {
					off := r.IntN(size/512) * 512
					n := min(512<<r.IntN(12), size-off)
					do := []string{"write -q -P 7", "write -q -P 9", "write -q -z -u", "discard -q"}[r.IntN(4)]
					args = append(args, "-c", fmt.Sprintf("%s %d %d", do, off, n))
				}
				at := round * 2 << 20
				qemu(t, append(args, "-c", fmt.Sprintf("discard -q %d 2M", at), "-c", fmt.Sprintf("write -q -c -P 5 %d 2M", at), file)...)
				qemu(t, "qemu-img", "snapshot", "-c", strconv.Itoa(round), file)
			}
			qemu(t, "qemu-img", "convert", "-f", "qcow2", "-O", "raw", file, flat)
			want, content := readBack(t, flat), readBack(t, file)
			for _, spool := range []int64{1 << 30, 4096} {
				d, path := staleDisk(t, 8<<20)
				s := Spec{URLs: []string{serveBytes(t, content)}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(content)}
				if _, err := writer(t, spool).Write(t.Context(), s, d, nil); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(readBack(t, path)[:size], want) {
					t.Errorf("with %d bytes of spool the disk does not hold what QEMU reads", spool)
				}
			}
		})
	}
}

// faultyDisk does something before one of its calls.
type faultyDisk struct {
	*disk.Disk
	calls, at int
	do        func() error
}

func (d *faultyDisk) call() error {
	if d.calls++; d.calls == d.at {
		return d.do()
	}
	return nil
}

func (d *faultyDisk) WriteAt(p []byte, off int64) (int, error) {
	if err := d.call(); err != nil {
		return 0, err
	}
	return d.Disk.WriteAt(p, off)
}

func (d *faultyDisk) Zero(off, n int64) error { return errors.Join(d.call(), d.Disk.Zero(off, n)) }

func (d *faultyDisk) Flush() error { return errors.Join(d.call(), d.Disk.Flush()) }

// A disk that fails in any of its calls, or an abort before one, is told as what it is. Nothing boots.
func TestADiskThatFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	raw := append(random(3<<20), append(make([]byte, 2<<20), random(1<<20)...)...)
	file := qcow2File(t, raw, "-c", "-o", "compression_type=zstd")
	s := Spec{URLs: []string{serveBytes(t, file)}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}
	for _, aborted := range []bool{false, true} {
		for at, done := 1, false; !done; at++ {
			in, path := staleDisk(t, size)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("it was the test")
			d := &faultyDisk{Disk: in, at: at, do: func() error {
				if aborted {
					cancel(why)
					return nil
				}
				return why
			}}
			_, err := writer(t, 1<<30).Write(ctx, s, d, nil)
			cancel(nil)
			b := readBack(t, path)
			done = d.calls < at
			switch whole := bytes.Equal(b[:len(raw)], raw); {
			case err == nil && !whole:
				t.Errorf("call %d, aborted %v: the disk does not hold the image", at, aborted)
			case err == nil && !done && d.calls > at+2:
				t.Errorf("call %d, aborted %v: the write went on", at, aborted)
			case err != nil && (!errors.Is(err, why) || !allZero(b[:1<<20]) || !allZero(b[size-1<<20:])):
				t.Errorf("call %d, aborted %v: error %v, or the ends of the disk are not wiped", at, aborted, err)
			}
		}
	}
}

// A spool that takes no more is told as that, also where the disk makes zeros meanwhile.
func TestASpoolThatIsFullWhileZerosAreMade(t *testing.T) {
	file := random(2 << 20)
	zeroing := make(chan struct{})
	url := halfway(t, file, 1<<19, zeroing)
	d := &largeDisk{size: 8 << 30}
	a := &attempt{w: writer(t, 1<<30), spec: Spec{URLs: []string{url}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}, disk: d, report: func(int64, int64) {}}
	ctx, stop := context.WithCancelCause(t.Context())
	a.stop = stop
	s, err := a.open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := a.arrive(s, url, s.plain, full)
	defer r.Close()
	d.zero = func() {
		if len(d.zeroed) == 1 {
			close(zeroing)
			_ = r.whole()
		}
	}
	if err := a.convert(ctx, r, emptyImage{}, d.size, 64<<10); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v, want the spool's", err)
	}
}

// emptyImage is one that has no data at all.
type emptyImage struct{ hole }

func (emptyImage) Extent(start, length int64) (image.Extent, error) {
	return image.Extent{Start: start, Length: length, Zero: true}, nil
}

// A server that goes on with more than the rest is told of as such, and not as one that lacks memory here.
func TestARestThatIsTooLong(t *testing.T) {
	file := qcow2File(t, random(4<<20))
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"same"`)
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusPartialContent)
			w.Write(file)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(file)))
		w.Write(file[:2<<20])
		panic(http.ErrAbortHandler)
	})
	d, path := staleDisk(t, diskSize)
	_, err := writer(t, 1<<30).Write(t.Context(), Spec{URLs: []string{url}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}, d, nil)
	if err == nil || strings.Contains(err.Error(), "memory") || !strings.Contains(err.Error(), strconv.Itoa(len(file))) {
		t.Errorf("error %v", err)
	}
	if b := readBack(t, path); !allZero(b[:1<<20]) && b[0] != 0xd7 {
		t.Error("half an image could boot")
	}
}

// faultyFile fails, panics or lies in one of its reads.
type faultyFile struct {
	io.ReaderAt
	reads, at int
	kind      string
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(p, off)
	if f.reads++; f.reads == f.at {
		switch f.kind {
		case "fails":
			return n / 2, errors.New("a read failed")
		case "panics":
			panic("a read panicked")
		}
		for i := n / 2; i < n; i++ {
			p[i] ^= byte(31*i + 1)
		}
	}
	return n, err
}

// What unpacked a cluster that could not be read, whatever became of it, unpacks the next one of another file rightly.
func TestWhatUnpacksIsUsedAgainAfterAFault(t *testing.T) {
	raw := bytes.Repeat([]byte("a page of some text, and another. "), 20<<10)
	for i := range raw {
		raw[i] ^= byte(i >> 10)
	}
	for _, kind := range []string{"zlib", "zstd"} {
		file := qcow2File(t, raw, "-c", "-o", "compression_type="+kind)
		for at := 4; at < 20; at++ { // behind the header, which is judged before
			for _, fault := range []string{"fails", "panics", "lies"} {
				p := make([]byte, len(raw))
				_ = guarded("reading", func() error {
					img, err := qcow2file.Open(&faultyFile{ReaderAt: bytes.NewReader(file), at: at, kind: fault})
					if err == nil {
						_, err = img.ReadAt(p, 100)
					}
					return err
				})
				img, err := qcow2file.Open(bytes.NewReader(file))
				if err != nil {
					t.Fatal(err)
				}
				if n, err := img.ReadAt(p, 0); n < len(raw) || !bytes.Equal(p[:len(raw)], raw) {
					t.Errorf("%s, after a file that %s in read %d: %d bytes: %v", kind, fault, at, n, err)
				}
			}
		}
	}
}

// fast is a server that tells no length and never ends. It is cheap to read.
type fast struct{ sent *atomic.Int64 }

func (f fast) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: f, Header: http.Header{}}, nil
}

func (f fast) Read(p []byte) (int, error) {
	f.sent.Add(int64(len(p)))
	return len(p), nil
}

func (fast) Close() error { return nil }

// A server without an end is given up, also where what it sends cannot be unpacked.
func TestAServerWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for kind, format := range map[string]string{"gzip": "raw", "zstd": "qcow2"} {
		d, path := staleDisk(t, diskSize)
		w, f := writer(t, 1<<20), fast{new(atomic.Int64)}
		w.Client.Transport = f
		_, err := w.Write(t.Context(), Spec{URLs: []string{"http://endless/image"}, Format: format, Compression: kind, HashAlgo: "sha256", HashValue: sum256(nil)}, d, nil)
		if err == nil || !strings.Contains(err.Error(), "tells no length") || f.sent.Load() > diskSize+mostUntoldRest+8<<20 {
			t.Errorf("%s in %s: after %d MiB: %v", format, kind, f.sent.Load()>>20, err)
		}
		if !bytes.Equal(readBack(t, path), stale()) {
			t.Errorf("%s in %s: the disk was touched", format, kind)
		}
	}
}
