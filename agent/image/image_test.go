package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/protocol/trickle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const diskSize = 24 << 20

// stale is a disk's old content, made once: the race detector looks at each byte that is copied.
var stale = sync.OnceValue(func() []byte { return bytes.Repeat([]byte{0xd7}, diskSize) })

// staleDisk is full of somebody's old data.
func staleDisk(t *testing.T, size int64) (*disk.Disk, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, stale()[:size], 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, path
}

// content is a disk image with holes of several sizes.
func content(size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	for _, part := range [][2]int{{0, 4096}, {100 << 10, 300 << 10}, {2 << 20, 3<<20 + 77}, {9 << 20, 9<<20 + 1}, {size - 9, size}} {
		if part[0] >= 0 && part[1] <= size {
			r.Read(b[part[0]:part[1]])
		}
	}
	return b
}

func sum256(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

func compressed(t *testing.T, kind string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch kind {
	case "gzip":
		z := gzip.NewWriter(&out)
		z.Write(b)
		z.Close()
	case "zstd":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		z.Write(b)
		z.Close()
	case "xz": // by the foreign program, Debian package xz-utils
		cmd := exec.Command("xz", "-9", "--stdout")
		cmd.Stdin, cmd.Stdout = bytes.NewReader(b), &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("xz (Debian package xz-utils): %v", err)
		}
	default:
		return b
	}
	return out.Bytes()
}

// greedy is a file of xz whose header asks for the dictionary of 1.5 GiB.
func greedy(t *testing.T) []byte {
	b := compressed(t, "xz", content(1<<20))
	header := b[12 : 12+4*(int(b[12])+1)] // of the first block, behind that of the stream
	if header[2] != 0x21 {
		t.Fatalf("the filter is %#x, not LZMA2", header[2])
	}
	header[4] = 37 // xz-file-format.txt, section 5.3.1
	binary.LittleEndian.PutUint32(header[len(header)-4:], crc32.ChecksumIEEE(header[:len(header)-4]))
	return b
}

// qcow2File converts with qemu-img, so that the format is not of our making.
func qcow2File(t *testing.T, raw []byte, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	if err := os.WriteFile(in, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("qemu-img", append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, args...), in, out)...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("qemu-img (Debian package qemu-utils): %v: %s", err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/image"
}

func serveBytes(t *testing.T, b []byte) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	})
}

func writer(t *testing.T, spool int64) *Writer {
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &Writer{Client: &http.Client{Transport: tr}, SpoolDir: t.TempDir(), SpoolLimit: func() int64 { return spool }, Pause: time.Millisecond}
}

func readBack(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWrite(t *testing.T) {
	t.Parallel()
	raw := content(10<<20 + 513)
	aligned := content(10 << 20)
	sum512 := sha512.Sum512(raw)
	for _, c := range []struct {
		name  string
		image []byte
		file  []byte
		spec  Spec
		spool int64
	}{
		{"raw", raw, raw, Spec{Format: "raw"}, 0},
		{"raw sha512", raw, raw, Spec{Format: "raw", HashAlgo: "sha512", HashValue: hex.EncodeToString(sum512[:])}, 0},
		{"raw gzip", raw, compressed(t, "gzip", raw), Spec{Format: "raw", Compression: "gzip"}, 0},
		{"raw zstd", raw, compressed(t, "zstd", raw), Spec{Format: "raw", Compression: "zstd"}, 0},
		{"raw xz", raw, compressed(t, "xz", raw), Spec{Format: "raw", Compression: "xz"}, 0},
		{"raw xz, two streams", append(bytes.Clone(aligned), aligned...), append(compressed(t, "xz", aligned), compressed(t, "xz", aligned)...), Spec{Format: "raw", Compression: "xz"}, 0},
		{"qcow2 in xz", aligned, compressed(t, "xz", qcow2File(t, aligned)), Spec{Format: "qcow2", Compression: "xz"}, 1 << 30},
		{"qcow2 kept", aligned, qcow2File(t, aligned), Spec{Format: "qcow2"}, 1 << 30},
		{"qcow2 read twice", aligned, qcow2File(t, aligned), Spec{Format: "qcow2"}, 4096},
		{"qcow2 zlib", aligned, qcow2File(t, aligned, "-c"), Spec{Format: "qcow2"}, 1 << 30},
		{"qcow2 zlib, small clusters", aligned, qcow2File(t, aligned, "-c", "-o", "cluster_size=4k"), Spec{Format: "qcow2"}, 4096},
		{"qcow2 zstd, small clusters", aligned, qcow2File(t, aligned, "-c", "-o", "compression_type=zstd,cluster_size=4k"), Spec{Format: "qcow2"}, 4096},
		{"qcow2 in gzip", aligned, compressed(t, "gzip", qcow2File(t, aligned)), Spec{Format: "qcow2", Compression: "gzip"}, 1 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, path := staleDisk(t, diskSize)
			s := c.spec
			s.URLs = []string{serveBytes(t, c.file)}
			if s.HashAlgo == "" {
				s.HashAlgo, s.HashValue = "sha256", sum256(c.file)
			}
			var last, total int64
			n, err := writer(t, c.spool).Write(t.Context(), s, d, func(d, of int64) { last, total = d, of })
			if err != nil {
				t.Fatal(err)
			}
			if n != int64(len(c.image)) || last != n || total != n {
				t.Errorf("wrote %d, progress %d of %d, want %d", n, last, total, len(c.image))
			}
			got := readBack(t, path)
			if !bytes.Equal(got[:n], c.image) {
				t.Error("the disk does not hold the image: stale or wrong bytes")
			}
			if bytes.Contains(got[diskSize-disk.EndsSize:], []byte{0xd7}) {
				t.Error("the end of the disk keeps old data")
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	raw := content(3 << 20)
	big := content(diskSize + 1<<20)
	good := sum256(raw)
	backing := qcow2File(t, raw)
	backing[15] = 100 // a backing file's name, somewhere
	dataFile := qcow2File(t, raw)
	dataFile[79] |= 4
	text, letters := make([]byte, 12<<20), rand.NewChaCha8([32]byte{4})
	letters.Read(text)
	for i := range text {
		text[i] = 'a' + text[i]%8
	}
	damaged := qcow2File(t, text, "-c") // behind what is read at first
	for i := range 128 << 10 {
		damaged[len(damaged)-1<<20+i] = 0xff
	}
	for _, c := range []struct {
		name string
		file []byte
		spec Spec
		want []string
		disk func(t *testing.T, got []byte) // judges what the disk holds
	}{
		{"checksum", raw, Spec{Format: "raw", HashValue: strings.Repeat("0", 64)}, []string{"wrong checksum", good, strings.Repeat("0", 64), "/image", "3145728 bytes"}, wiped},
		{"checksum of gzip", compressed(t, "gzip", raw), Spec{Format: "raw", Compression: "gzip", HashValue: good}, []string{"wrong checksum"}, wiped},
		{"not gzip at all", raw, Spec{Format: "raw", Compression: "gzip", HashValue: good}, []string{"cannot be unpacked as gzip"}, untouched},
		{"not gzip, not the file", raw, Spec{Format: "raw", Compression: "gzip", HashValue: strings.Repeat("1", 64)}, []string{"wrong checksum"}, untouched},
		{"checksum of qcow2", qcow2File(t, raw), Spec{Format: "qcow2", HashValue: good}, []string{"wrong checksum"}, either},
		{"checksum of qcow2 in gzip", compressed(t, "gzip", qcow2File(t, raw)), Spec{Format: "qcow2", Compression: "gzip", HashValue: good}, []string{"wrong checksum"}, untouched},
		{"raw larger than disk", big, Spec{Format: "raw", HashValue: sum256(big)}, []string{"too small", "26214400", "25165824"}, untouched},
		{"xz larger than disk", compressed(t, "xz", big), Spec{Format: "raw", Compression: "xz"}, []string{"too small", "more than 25165824"}, wiped},
		{"xz that takes all memory", greedy(t), Spec{Format: "raw", Compression: "xz"}, []string{"cannot be unpacked as xz", "dictionary"}, untouched},
		{"xz that is cut", compressed(t, "xz", content(10<<20))[:1000], Spec{Format: "raw", Compression: "xz"}, []string{"cannot be unpacked as xz"}, wiped},
		{"compressed larger than disk", compressed(t, "zstd", big), Spec{Format: "raw", Compression: "zstd"}, []string{"too small", "more than 25165824"}, wiped},
		{"qcow2 larger than disk", qcow2File(t, big), Spec{Format: "qcow2"}, []string{"too small", "26214400"}, untouched},
		{"qcow2 declared raw", qcow2File(t, raw), Spec{Format: "raw"}, []string{"declared as raw", "qcow2"}, untouched},
		{"gzip not declared", compressed(t, "gzip", raw), Spec{Format: "raw"}, []string{"gzip-compressed"}, untouched},
		{"raw declared qcow2", raw, Spec{Format: "qcow2"}, []string{"declared as qcow2"}, untouched},
		{"backing file", backing, Spec{Format: "qcow2"}, []string{"backing file"}, untouched},
		{"data file", dataFile, Spec{Format: "qcow2"}, []string{"another file"}, untouched},
		{"a damaged cluster", damaged, Spec{Format: "qcow2"}, []string{"qcow2 file cannot be read", "compressed cluster"}, wiped},
		{"tiny", []byte("x"), Spec{Format: "raw"}, []string{"only 1 bytes"}, untouched},
		{"bad algorithm", raw, Spec{Format: "raw", HashAlgo: "md5"}, []string{"md5"}, untouched},
		{"bad format", raw, Spec{Format: "vmdk"}, []string{"vmdk"}, untouched},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, path := staleDisk(t, diskSize)
			s := c.spec
			s.ID, s.URLs = "img-1", []string{serveBytes(t, c.file)}
			if s.HashAlgo == "" {
				s.HashAlgo = "sha256"
			}
			if s.HashValue == "" {
				s.HashValue = sum256(c.file)
			}
			_, err := writer(t, 1<<30).Write(t.Context(), s, d, nil)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not mention %q", err, w)
				}
			}
			c.disk(t, readBack(t, path))
		})
	}
}

// untouched is a disk whose old content is whole.
func untouched(t *testing.T, got []byte) {
	if !bytes.Equal(got, stale()) {
		t.Error("the disk was touched")
	}
}

// wiped is a disk that was touched, and does not boot.
func wiped(t *testing.T, got []byte) {
	if !allZero(got[:1<<20]) || !allZero(got[diskSize-1<<20:]) {
		t.Error("the ends of the disk are not wiped")
	}
}

// either is one or the other: a small file may have come whole before the disk is touched.
func either(t *testing.T, got []byte) {
	if got[0] == 0xd7 {
		untouched(t, got)
		return
	}
	wiped(t, got)
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func TestServersThatRefuseOrBreak(t *testing.T) {
	raw := content(3 << 20)
	spec := func(urls ...string) Spec {
		return Spec{URLs: urls, Format: "raw", HashAlgo: "sha256", HashValue: sum256(raw)}
	}
	missing := serve(t, http.NotFound)
	t.Run("404", func(t *testing.T) {
		d, _ := staleDisk(t, diskSize)
		_, err := writer(t, 0).Write(t.Context(), spec(missing+"?token=s3cret"), d, nil)
		var s *StatusError
		if !errors.As(err, &s) || s.Code != 404 || !strings.Contains(err.Error(), "/image") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("404, then another server", func(t *testing.T) {
		d, path := staleDisk(t, diskSize)
		if _, err := writer(t, 0).Write(t.Context(), spec(missing, serveBytes(t, raw)), d, nil); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(readBack(t, path)[:len(raw)], raw) {
			t.Error("wrong content")
		}
	})
	breaking := func(times int32) (string, *atomic.Int32) {
		var asked atomic.Int32
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) <= times {
				w.Header().Set("Content-Length", "3145728")
				w.Write(raw[:2<<20])
				panic(http.ErrAbortHandler)
			}
			w.Write(raw)
		}), &asked
	}
	t.Run("breaks twice", func(t *testing.T) {
		d, path := staleDisk(t, diskSize)
		url, asked := breaking(2)
		if _, err := writer(t, 0).Write(t.Context(), spec(url), d, nil); err != nil || asked.Load() != 3 {
			t.Fatalf("%d requests, error %v", asked.Load(), err)
		}
		if !bytes.Equal(readBack(t, path)[:len(raw)], raw) {
			t.Error("wrong content")
		}
	})
	t.Run("breaks always", func(t *testing.T) {
		d, path := staleDisk(t, diskSize)
		url, asked := breaking(100)
		_, err := writer(t, 0).Write(t.Context(), spec(url), d, nil)
		var de *DownloadError
		if !errors.As(err, &de) || de.Tries != Attempts || asked.Load() != Attempts {
			t.Fatalf("%d requests, error %v", asked.Load(), err)
		}
		if !allZero(readBack(t, path)[:1<<20]) {
			t.Error("half an image could boot")
		}
	})
	t.Run("stalls", func(t *testing.T) {
		d, _ := staleDisk(t, diskSize)
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Write(raw[:1<<20])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		w := writer(t, 0)
		w.Stall = 50 * time.Millisecond
		_, err := w.Write(t.Context(), spec(url), d, nil)
		if slow, ok := errors.AsType[*trickle.Error](err); !ok || slow.In != w.Stall {
			t.Errorf("error %v, want a stall", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		d, path := staleDisk(t, diskSize)
		ctx, cancel := context.WithCancelCause(t.Context())
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Write(raw[:2<<20])
			w.(http.Flusher).Flush()
			cancel(errors.New("operator said stop"))
			<-r.Context().Done()
		})
		_, err := writer(t, 0).Write(ctx, spec(url), d, nil)
		if err == nil || !strings.Contains(err.Error(), "operator said stop") {
			t.Errorf("error %v", err)
		}
		if b := readBack(t, path); !allZero(b[:1<<20]) && b[0] != 0xd7 {
			t.Error("half an image could boot")
		}
	})
}

// dying serves b under etag and breaks off after so many bytes of each answer; dead
// says that it does not answer at all any more.
func dying(t *testing.T, b []byte, etag string, after int, dead *atomic.Bool, ranges *[]string) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if dead.Load() {
			panic(http.ErrAbortHandler)
		}
		*ranges = append(*ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", etag)
		dead.Store(len(b) > after)
		http.ServeContent(&limited{w, after}, r, "", time.Time{}, bytes.NewReader(b))
	})
}

// limited takes so many bytes and then hangs up.
type limited struct {
	http.ResponseWriter
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.ResponseWriter.Write(p[:min(len(p), l.left)])
	if l.left -= n; err == nil && l.left == 0 {
		l.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// The server dies in the middle: the rest comes from its neighbour, the image is
// written in one go.
func TestDownloadGoesOnAtAnotherServer(t *testing.T) {
	raw := content(6 << 20)
	for _, c := range []struct {
		name  string
		image []byte
		spec  Spec
		spool int64
	}{
		{"raw", raw, Spec{Format: "raw"}, 0},
		{"raw zstd", compressed(t, "zstd", raw), Spec{Format: "raw", Compression: "zstd"}, 0},
		{"qcow2 kept", qcow2File(t, raw), Spec{Format: "qcow2"}, 1 << 30},
		{"qcow2 read twice", qcow2File(t, raw), Spec{Format: "qcow2"}, 4096},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, path := staleDisk(t, diskSize)
			var dead, alive atomic.Bool
			var first, second []string
			s := c.spec
			s.HashAlgo, s.HashValue = "sha256", sum256(c.image)
			s.URLs = []string{dying(t, c.image, `"same"`, len(c.image)/2, &dead, &first), dying(t, c.image, `"same"`, len(c.image)+1, &alive, &second)}
			var back bool
			var done int64
			_, err := writer(t, c.spool).Write(t.Context(), s, d, func(n, _ int64) { back, done = back || n < done, n })
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(readBack(t, path)[:len(raw)], raw) {
				t.Error("the disk does not hold the image")
			}
			if back {
				t.Error("the write began anew")
			}
			if len(first) != 1 || len(second) == 0 || !strings.HasPrefix(second[0], "bytes=") {
				t.Errorf("the first server was asked for %q, the second for %q", first, second)
			}
		})
	}
}

// Where the rest is not known to be of the same file, the download starts over.
func TestDownloadOfAnotherFileStartsOver(t *testing.T) {
	raw := content(3 << 20)
	for name, tags := range map[string][2]string{"other tag": {`"a"`, `"b"`}, "weak tag": {`W/"a"`, `W/"a"`}, "no tag": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			d, path := staleDisk(t, diskSize)
			var dead, alive atomic.Bool
			var first, second []string
			s := Spec{Format: "raw", HashAlgo: "sha256", HashValue: sum256(raw), URLs: []string{
				dying(t, raw, tags[0], 2<<20, &dead, &first), dying(t, raw, tags[1], len(raw)+1, &alive, &second)}}
			if _, err := writer(t, 0).Write(t.Context(), s, d, nil); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(readBack(t, path)[:len(raw)], raw) {
				t.Error("the disk does not hold the image")
			}
			if last := second[len(second)-1]; last != "" {
				t.Errorf("the second server was asked for %q, want the whole file at last", second)
			}
		})
	}
}

// A rackd that starts again goes on with its downloads; one that stays away is given up.
func TestDownloadInsists(t *testing.T) {
	raw := content(3 << 20)
	for after, want := range map[int32]bool{resumes - 1: true, resumes + 5: false} {
		d, path := staleDisk(t, diskSize)
		var asked atomic.Int32
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"same"`)
			switch n := asked.Add(1); {
			case n == 1 || n > after && r.Header.Get("Range") == "":
				http.ServeContent(&limited{w, 2 << 20}, r, "", time.Time{}, bytes.NewReader(raw))
			case n <= after:
				panic(http.ErrAbortHandler)
			default:
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
			}
		})
		_, err := writer(t, 0).Write(t.Context(), Spec{URLs: []string{url}, Format: "raw", HashAlgo: "sha256", HashValue: sum256(raw)}, d, nil)
		if (err == nil) != want {
			t.Errorf("away for %d requests: %v", after, err)
		}
		if got := readBack(t, path); want && !bytes.Equal(got[:len(raw)], raw) || !want && !allZero(got[:1<<20]) {
			t.Errorf("away for %d requests: the disk is wrong", after)
		}
	}
}

func TestFileThatChangesBetweenPasses(t *testing.T) {
	raw := content(8 << 20)
	file := qcow2File(t, raw)
	other := bytes.Clone(file)
	other[len(other)-1<<19] ^= 1
	d, path := staleDisk(t, diskSize)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b := file
		if r.Header.Get("Range") != "" {
			b = other
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	})
	_, err := writer(t, 4096).Write(t.Context(), Spec{URLs: []string{url}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}, d, nil)
	var c *ChecksumError
	if !errors.As(err, &c) || !strings.Contains(err.Error(), "changed") {
		t.Errorf("error %v", err)
	}
	if b := readBack(t, path); !allZero(b[:1<<20]) && b[0] != 0xd7 {
		t.Error("half an image could boot")
	}
}

// A file that is no longer served when its parts are asked for is no wrong image: the server's answer is what an operator has to know.
func TestFileThatGoesBetweenPasses(t *testing.T) {
	raw := content(8 << 20)
	file := qcow2File(t, raw)
	for _, gone := range []string{"bytes=0-", "bytes=1048576-"} { // before, and after the disk is touched
		d, path := staleDisk(t, diskSize)
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Range"), gone) {
				http.NotFound(w, r)
				return
			}
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
		})
		_, err := writer(t, 4096).Write(t.Context(), Spec{URLs: []string{url}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}, d, nil)
		if refused, ok := errors.AsType[*StatusError](err); !ok || refused.Code != http.StatusNotFound {
			t.Errorf("from %s on: error %v", gone, err)
		}
		if b := readBack(t, path); !allZero(b[:1<<20]) && b[0] != 0xd7 {
			t.Errorf("from %s on: half an image could boot", gone)
		}
	}
}

func FuzzQcow2Header(f *testing.F) {
	h := make([]byte, 112)
	copy(h, "QFI\xfb\x00\x00\x00\x03")
	h[23], h[28], h[39] = 16, 1, 1
	f.Add(h)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Spec{ID: "x", Format: "qcow2"}.qcow2Header(bytes.NewReader(b))
		if err == nil && got.size <= 0 {
			t.Errorf("size %d", got.size)
		}
	})
}
