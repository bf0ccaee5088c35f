package iscsideploy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/iscsi"
	"github.com/ironyard/ironyard/rackd/iscsi/iscsitest"
)

// benchIQN names the target of the benchmark.
const benchIQN = "iqn.2026-11.org.example:bench"

// BenchmarkWrite writes an image of 2 GiB, three eighths of it used, to tgtd's file, over loopback and without CHAP. Rackd does so as in a
// deploy: with the checksum, flushed and read back. By hand it is `qemu-img convert`, with the checksum by `openssl` before, or without.
// All write in turn until the data is on the medium. `qemu-img` alone would not wait for that: its usual cache is unsafe. ratio is rackd's
// speed as a part of that with the checksum, unchecked-ratio of that without. Processor time is the writer's. target-cpu-s is tgtd's while
// rackd writes, peer-target-cpu-s while `qemu-img` does after a checksum.
func BenchmarkWrite(b *testing.B) {
	for _, name := range []string{"tgtd", "qemu-img", "openssl"} {
		if _, err := exec.LookPath(name); err != nil {
			b.Fatal("needs tgt, openssl, and qemu-utils with qemu-block-extra: make packages-bench installs them")
		}
	}
	const size = 2 << 30
	dir := b.TempDir()
	raw, disk := filepath.Join(dir, "raw"), filepath.Join(dir, "disk")
	benchImage(b, raw, size)
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	for _, kind := range []struct {
		name, format string
		convert      []string
	}{{"raw", "raw", nil}, {"qcow2", "qcow2", []string{}}, {"compressed", "qcow2", []string{"-c"}}} {
		b.Run(kind.name, func(b *testing.B) {
			image := filepath.Join(dir, kind.name)
			if kind.convert != nil {
				shell(b, "qemu-img", append([]string{"convert", "-W", "-m", "2", "-f", "raw", "-O", "qcow2", raw, image}, kind.convert...)...)
			}
			said, err := exec.Command("openssl", "dgst", "-sha256", "-r", image).Output()
			if err != nil {
				b.Fatal(err)
			}
			sum, _, _ := bytes.Cut(said, []byte(" "))
			b.SetBytes(size)
			for b.Loop() {
				var took, processor, target [3][]float64
				for range 3 {
					for i := range took {
						shell(b, "truncate", "-s", "0", disk)
						shell(b, "truncate", "-s", fmt.Sprint(size), disk)
						g := iscsitest.Start(b, disk, benchIQN)
						began := time.Now()
						var used time.Duration
						switch i {
						case 0:
							used = asRackd(b, g, image, kind.format, string(sum))
						case 1:
							used = byHand(b, g, image, kind.format, string(sum))
						case 2:
							used = byHand(b, g, image, kind.format, "")
						}
						took[i] = append(took[i], time.Since(began).Seconds())
						processor[i] = append(processor[i], used.Seconds())
						target[i] = append(target[i], g.Processor().Seconds())
						g.Kill()
						shell(b, "cmp", raw, disk)
					}
				}
				for _, list := range slices.Concat(took[:], processor[:], target[:]) {
					slices.Sort(list)
				}
				b.ReportMetric(took[1][1]/took[0][1], "ratio")
				b.ReportMetric(took[2][1]/took[0][1], "unchecked-ratio")
				b.ReportMetric(size/1e6/took[0][1], "rackd-MB/s")
				b.ReportMetric(size/1e6/took[1][1], "peer-MB/s")
				b.ReportMetric(size/1e6/took[2][1], "unchecked-MB/s")
				b.ReportMetric(processor[0][1], "rackd-cpu-s")
				b.ReportMetric(processor[1][1], "peer-cpu-s")
				b.ReportMetric(processor[2][1], "unchecked-cpu-s")
				b.ReportMetric(target[0][1], "target-cpu-s")
				b.ReportMetric(target[1][1], "peer-target-cpu-s")
			}
		})
	}
}

func shell(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s %v: %v: %s", name, args, err, out)
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
	for at := int64(0); at < size/2; at += 1 << 20 {
		random.Read(piece[:len(piece)/2])
		copy(piece[len(piece)/2:], bytes.Repeat(piece[:64], len(piece)/2/64))
		if _, err := f.WriteAt(piece, at); err != nil {
			b.Fatal(err)
		}
	}
}

// spent is the processor time of this process so far.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// asRackd writes as a deploy does, and returns the processor time.
func asRackd(b *testing.B, g *iscsitest.Tgt, image, format, sum string) time.Duration {
	b.Helper()
	before := spent(b)
	s, err := iscsi.Connect(b.Context(), iscsi.Target{Address: g.Address, IQN: benchIQN, LUN: 1, Initiator: "iqn.2026-11.org.example:rackd"}, iscsi.Options{})
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
	src, err := openSource(f, driver.DiskImage{HashAlgo: "sha256", HashValue: sum, Format: format})
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
	return spent(b) - before
}

// byHand writes with QEMU's initiator, and returns the processor time. An empty sum is not compared.
func byHand(b *testing.B, g *iscsitest.Tgt, image, format, sum string) time.Duration {
	b.Helper()
	cmd := exec.Command("sh", "-ec", `[ -z "$4" ] || [ "$(openssl dgst -sha256 -r "$1" | cut -d" " -f1)" = "$4" ]
qemu-img convert -n -W -t writeback -f "$2" -O raw "$1" "$3"`, "sh", image, format, fmt.Sprintf("iscsi://%s/%s/1", g.Address, benchIQN), sum)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
