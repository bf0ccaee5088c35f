package deploy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// readBacks adds up what the deployer's log says of the time that the read-back took.
type readBacks struct {
	slog.Handler
	seconds float64
}

// Handle implements slog.Handler.
func (r *readBacks) Handle(_ context.Context, rec slog.Record) error {
	if strings.HasPrefix(rec.Message, "read back") {
		rec.Attrs(func(a slog.Attr) bool {
			if a.Key == "seconds" {
				r.seconds += a.Value.Float64()
			}
			return true
		})
	}
	return nil
}

// Enabled implements slog.Handler.
func (*readBacks) Enabled(context.Context, slog.Level) bool { return true }

// BenchmarkPrepareImage writes an image of 512 MiB to a file in the place of a disk, and says which part
// of the time reading it back from the medium takes.
func BenchmarkPrepareImage(b *testing.B) {
	const imageSize, diskSize = 512 << 20, 1 << 30
	dir := b.TempDir()
	path, source := filepath.Join(dir, "disk"), filepath.Join(dir, "image")
	img := make([]byte, imageSize)
	rand.NewChaCha8([32]byte{1}).Read(img)
	clear(img[:1<<20])
	clear(img[imageSize-1<<20:])
	if err := os.WriteFile(source, img, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", source)
	cmd.Stdin = strings.NewReader("label: gpt\nsize=400MiB\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("sfdisk: %v: %s", err, out)
	}
	img, err := os.ReadFile(source)
	if err != nil {
		b.Fatal(err)
	}
	disk, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	if err := disk.Truncate(diskSize); err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(img))
	}))
	defer s.Close()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	sum := sha256.Sum256(img)
	log := &readBacks{Handler: slog.DiscardHandler}
	d := &Deployer{Machine: both{{Name: path, Size: diskSize}}, Log: slog.New(log), EFIVars: dir,
		Images: &image.Writer{Client: &http.Client{Transport: tr}, SpoolDir: dir, SpoolLimit: func() int64 { return 1 << 30 }}}
	p := agentapi.PrepareImageParams{ImageInfo: agentapi.ImageInfo{ID: "i", URLs: []string{s.URL}, HashAlgo: "sha256",
		HashValue: hex.EncodeToString(sum[:]), DiskFormat: "raw", MinDiskBytes: 1}}
	b.SetBytes(imageSize)
	began := time.Now()
	for b.Loop() {
		if _, err := d.Prepare(b.Context(), p, ignore); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*log.seconds/time.Since(began).Seconds(), "%-read-back")
}

// BenchmarkBesideQemuImg writes an image of 2 GiB, three eighths of it used, from a server on loopback to a file in the place of a
// disk. The agent does so with checksum and read-back. By hand people do it with `curl` and `dd` for raw, with `curl` into memory and
// `qemu-img convert` for qcow2, and compare the checksum on the way with `sha256sum`, or not. All write in turn, until the data is on
// the medium. ratio is the agent's speed as a part of that with the checksum, unchecked-ratio of that without. Processor time is
// that of the programs that write, without the server.
func BenchmarkBesideQemuImg(b *testing.B) {
	if bench := os.Getenv("IRONYARD_BENCH_WRITER"); bench != "" {
		writeForBench(b, bench)
		return
	}
	for _, name := range []string{"qemu-img", "curl", "sfdisk", "openssl"} {
		if _, err := exec.LookPath(name); err != nil {
			b.Fatal("needs qemu-utils, curl, fdisk and openssl: make packages-bench installs them")
		}
	}
	const size = 2 << 30
	dir := b.TempDir()
	raw := filepath.Join(dir, "raw")
	benchImage(b, raw, size)
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer s.Close()
	for _, kind := range []struct {
		name, format string
		convert      []string
	}{{"raw", "raw", nil}, {"qcow2", "qcow2", []string{}}, {"compressed", "qcow2", []string{"-c"}}} {
		b.Run(kind.name, func(b *testing.B) {
			image := filepath.Join(dir, kind.name)
			if kind.convert != nil {
				do(b, "qemu-img", append([]string{"convert", "-W", "-m", "2", "-f", "raw", "-O", "qcow2", raw, image}, kind.convert...)...)
			}
			sum := sumOf(b, image)
			b.SetBytes(size)
			for b.Loop() {
				var took, processor [3][]float64
				for range 3 {
					for i, write := range []func(disk string) *exec.Cmd{
						func(disk string) *exec.Cmd { return agentWriter(b, disk, sum, kind.format, s.URL+"/"+kind.name) },
						func(disk string) *exec.Cmd { return handWriter(kind.format, disk, sum, s.URL+"/"+kind.name) },
						func(disk string) *exec.Cmd { return handWriter(kind.format, disk, "", s.URL+"/"+kind.name) },
					} {
						disk := filepath.Join(dir, "disk")
						do(b, "truncate", "-s", "0", disk)
						do(b, "truncate", "-s", fmt.Sprint(size+64<<20), disk)
						cmd := write(disk)
						began := time.Now()
						if out, err := cmd.CombinedOutput(); err != nil {
							b.Fatalf("%v: %s", err, out)
						}
						took[i] = append(took[i], time.Since(began).Seconds())
						processor[i] = append(processor[i], (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
						do(b, "cmp", "-i", "1048576", "-n", fmt.Sprint(size-2<<20), raw, disk) // the agent moves the copy of the partition table
					}
				}
				for _, list := range append(took[:], processor[:]...) {
					slices.Sort(list)
				}
				b.ReportMetric(took[1][1]/took[0][1], "ratio")
				b.ReportMetric(took[2][1]/took[0][1], "unchecked-ratio")
				b.ReportMetric(size/1e6/took[0][1], "agent-MB/s")
				b.ReportMetric(size/1e6/took[1][1], "peer-MB/s")
				b.ReportMetric(size/1e6/took[2][1], "unchecked-MB/s")
				b.ReportMetric(processor[0][1], "agent-cpu-s")
				b.ReportMetric(processor[1][1], "peer-cpu-s")
				b.ReportMetric(processor[2][1], "unchecked-cpu-s")
			}
		})
	}
}

// benchImage makes a raw image: of each MiB of its first half three quarters are used, and half of that compresses well.
func benchImage(b *testing.B, path string, size int64) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		b.Fatal(err)
	}
	random, piece := rand.NewChaCha8([32]byte{2}), make([]byte, 768<<10)
	for at := int64(1 << 20); at < size/2; at += 1 << 20 {
		random.Read(piece[:len(piece)/2])
		copy(piece[len(piece)/2:], bytes.Repeat(piece[:64], len(piece)/2/64))
		if _, err := f.WriteAt(piece, at); err != nil {
			b.Fatal(err)
		}
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader("label: gpt\nsize=1000MiB\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("sfdisk: %v: %s", err, out)
	}
}

func do(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func sumOf(b *testing.B, path string) string {
	b.Helper()
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		b.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// agentWriter is this program once more, which writes an image by writeForBench.
func agentWriter(b *testing.B, disk, sum, format, url string) *exec.Cmd {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkBesideQemuImg$", "-test.benchtime=1x")
	cmd.Env = append(os.Environ(), "IRONYARD_BENCH_WRITER="+strings.Join([]string{disk, format, sum, url}, " "))
	return cmd
}

// writeForBench writes what agentWriter has asked for. A qcow2 file is kept in memory, as in the ramdisk.
func writeForBench(b *testing.B, asked string) {
	f := strings.Fields(asked)
	info, err := os.Stat(f[0])
	if err != nil {
		b.Fatal(err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "ironyard-bench-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	d := &Deployer{Machine: both{{Name: f[0], Size: info.Size()}}, Log: slog.New(slog.DiscardHandler), EFIVars: dir,
		Images: &image.Writer{Client: &http.Client{Transport: tr}, SpoolDir: dir, SpoolLimit: func() int64 { return 4 << 30 }}}
	p := agentapi.PrepareImageParams{ImageInfo: agentapi.ImageInfo{ID: "i", URLs: []string{f[3]}, HashAlgo: "sha256", HashValue: f[2], DiskFormat: f[1], MinDiskBytes: 1}}
	for b.Loop() {
		if _, err := d.Prepare(b.Context(), p, ignore); err != nil {
			b.Fatal(err)
		}
	}
}

// handWriter does by hand what the agent does, without reading back. An empty sum is not compared. openssl computes it faster than
// sha256sum, and of a file in memory afterwards faster than through a pipe beside curl.
func handWriter(format, disk, sum, url string) *exec.Cmd {
	const same = `[ "$(cut -d" " -f1 "$d/sum")" = "$4" ]; `
	write := `curl -sSf "$1" | dd of="$2" bs=1M iflag=fullblock conv=notrunc,fsync status=none`
	switch {
	case format == "raw" && sum != "":
		write = `mkfifo "$d/copy"; openssl dgst -sha256 -r < "$d/copy" > "$d/sum" & curl -sSf "$1" | tee "$d/copy" |
			dd of="$2" bs=1M iflag=fullblock conv=notrunc,fsync status=none; wait $!; ` + same
	case format != "raw":
		check := ""
		if sum != "" {
			check = `openssl dgst -sha256 -r "$d/file" > "$d/sum"; ` + same
		}
		write = `curl -sSf -o "$d/file" "$1"; ` + check + `qemu-img convert -n -W -f "$3" -O raw "$d/file" "$2"; sync "$2"`
	}
	return exec.Command("sh", "-ec", `d=$(mktemp -d -p /dev/shm); trap 'rm -rf "$d"' EXIT; `+write, "sh", url, disk, format, sum)
}
