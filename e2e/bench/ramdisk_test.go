package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// imagePort of the machine is where its iSCSI target is, in the benchmarks.
const imagePort = agentapi.DefaultISCSIPort

// virtual is the product's ramdisk in a virtual machine, with the programs of people beside the agent, and images for its disk.
type virtual struct {
	testing.TB
	*agentvm.VM
	ctx  context.Context
	disk string // file
	dir  string // of the images
	size int64  // of the raw image
	at   string // URL of the images, as the machine sees it
}

// kinds of images. convert are qemu-img's arguments, nil: the raw image itself.
var kinds = []struct {
	name, format string
	convert      []string
}{{"raw", "raw", nil}, {"qcow2", "qcow2", []string{}}, {"compressed", "qcow2", []string{"-c"}}}

// withoutCRC is the machine's processor. QEMU computes the instruction for CRC32C bit by bit, many times slower than the table that a
// kernel uses where there is no such instruction.
const withoutCRC = "max,-sse4.2"

// bootRamdisk makes the images and boots the machine, whose disk is a file on this host's medium.
func bootRamdisk(b *testing.B) *virtual {
	b.Helper()
	for _, name := range []string{"qemu-img", "curl", "sfdisk", "openssl", "qemu-system-x86_64"} {
		if _, err := exec.LookPath(name); err != nil {
			b.Fatal("needs qemu-system-x86, qemu-utils, qemu-block-extra, curl, fdisk and openssl: make packages-bench installs them")
		}
	}
	v := &virtual{TB: b, ctx: b.Context(), dir: b.TempDir(), size: int64(numbers(b, "IRONYARD_BENCH_MIB", "256")[0]) << 20}
	v.disk = filepath.Join(v.dir, "disk")
	v.makeImage(filepath.Join(v.dir, "raw"))
	for _, k := range kinds {
		if k.convert != nil {
			v.do("qemu-img", append([]string{"convert", "-W", "-m", "2", "-f", "raw", "-O", "qcow2",
				filepath.Join(v.dir, "raw"), filepath.Join(v.dir, k.name)}, k.convert...)...)
		}
	}
	files := httptest.NewServer(http.FileServer(http.Dir(v.dir)))
	b.Cleanup(files.Close)
	u, err := url.Parse(files.URL)
	if err != nil {
		b.Fatal(err)
	}
	v.at = "http://10.0.2.2:" + u.Port() + "/"
	v.emptyDisk()
	v.VM = agentvm.Boot(v.ctx, b, v.build(), agentvm.Hardware{Mode: "bios", NIC: "virtio-net-pci", Opens: imagePort,
		Processors: numbers(b, "IRONYARD_BENCH_PROCESSORS", "2")[0], Model: withoutCRC, MemoryMiB: 1024 + int(v.size>>20),
		Programs: []string{"curl", "qemu-img", "dd", "tee", "sync", "mktemp", "mkfifo", "cut", "cat", "rm", "sha256sum"},
		Drives: []string{"-drive", "if=none,id=d,format=raw,cache=writeback,discard=unmap,file=" + v.disk,
			"-device", "virtio-blk-pci,drive=d,serial=DISK1"}}, nil)
	return v
}

// build is the ramdisk with the kernel of the other virtual machines.
func (v *virtual) build() ramdisk.Result {
	v.Helper()
	return agentvm.Build(v.TB, debkernel.Cloud)
}

// do runs a program of this host.
func (v *virtual) do(name string, args ...string) {
	v.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		v.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// makeImage makes a raw image: of each MiB of its first half three quarters are used, and half of that compresses well.
func (v *virtual) makeImage(path string) {
	v.Helper()
	f, err := os.Create(path)
	if err != nil {
		v.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(v.size); err != nil {
		v.Fatal(err)
	}
	random, piece := rand.NewChaCha8([32]byte{2}), make([]byte, 768<<10)
	for at := int64(1 << 20); at < v.size/2; at += 1 << 20 {
		random.Read(piece[:len(piece)/2])
		copy(piece[len(piece)/2:], bytes.Repeat(piece[:64], len(piece)/2/64))
		if _, err := f.WriteAt(piece, at); err != nil {
			v.Fatal(err)
		}
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader(fmt.Sprintf("label: gpt\nsize=%dMiB\n", v.size>>21))
	if out, err := cmd.CombinedOutput(); err != nil {
		v.Fatalf("sfdisk: %v: %s", err, out)
	}
}

// sum is the SHA-256 of an image in hex.
func (v *virtual) sum(name string) string {
	v.Helper()
	out, err := exec.Command("openssl", "dgst", "-sha256", "-r", filepath.Join(v.dir, name)).Output()
	if err != nil {
		v.Fatal(err)
	}
	sum, _, _ := strings.Cut(string(out), " ")
	return sum
}

// emptyDisk makes the machine's disk one that holds nothing. It has some more room than the image needs.
func (v *virtual) emptyDisk() {
	v.Helper()
	v.do("truncate", "-s", "0", v.disk)
	v.do("truncate", "-s", strconv.FormatInt(v.size+64<<20, 10), v.disk)
}

// compare looks that the disk holds the image. The agent moves the copy of the partition table to the disk's end.
func (v *virtual) compare() {
	v.Helper()
	v.do("cmp", "-i", "1048576", "-n", strconv.FormatInt(v.size-2<<20, 10), filepath.Join(v.dir, "raw"), v.disk)
}

// way is one in which the image is written. writer is the processor time of a writer on this host, in seconds, once write has returned;
// nil: there is none.
type way struct {
	name   string
	write  func()
	writer func() float64
}

// spentFor is what one write has taken, in seconds: time, and of this host's processors for the whole machine and for a writer beside it.
type spentFor struct{ time, machine, writer float64 }

// beside writes an image in each of the ways in turn, several times, compares each time, and reports medians. The first way is the
// product's, and the second that which its ratio is to. Ratios to others have the other's name.
func (v *virtual) beside(b *testing.B, in []way) {
	b.Helper()
	pairs := numbers(b, "IRONYARD_BENCH_PAIRS", "3")[0]
	for b.Loop() {
		all := make([][]spentFor, len(in))
		for range pairs {
			for i, w := range in {
				v.emptyDisk()
				before, began := v.Processor(b), time.Now()
				w.write()
				took, writer := time.Since(began), 0.0
				if w.writer != nil {
					writer = w.writer()
				}
				all[i] = append(all[i], spentFor{took.Seconds(), (v.Processor(b) - before).Seconds(), writer})
				v.compare()
			}
		}
		var words []string
		mb, ours := float64(v.size)/1e6, spentFor{}
		for i, w := range in {
			words = append(words, w.name+": "+list(all[i]))
			m := spentFor{median(all[i], func(s spentFor) float64 { return s.time }), median(all[i], func(s spentFor) float64 { return s.machine }),
				median(all[i], func(s spentFor) float64 { return s.writer })}
			prefix := ""
			switch i {
			case 0:
				ours = m
			case 1:
			default:
				prefix = w.name + "-"
			}
			if i > 0 {
				b.ReportMetric(m.time/ours.time, prefix+"ratio")
				b.ReportMetric((m.machine+m.writer)/(ours.machine+ours.writer), prefix+"cpu-ratio")
			}
			b.ReportMetric(mb/m.time, w.name+"-MB/s")
			b.ReportMetric(m.machine, w.name+"-machine-cpu-s")
			if w.writer != nil {
				b.ReportMetric(m.writer, w.name+"-writer-cpu-s")
			}
		}
		b.Logf("%d MiB, %s", v.size>>20, strings.Join(words, "; "))
		b.ReportMetric(float64(v.size>>20), "MiB")
	}
	b.ReportMetric(0, "ns/op") // says nothing
}

func list(all []spentFor) string {
	var words []string
	for _, s := range all {
		words = append(words, fmt.Sprintf("%.1f s (processor %.1f s)", s.time, s.machine+s.writer))
	}
	return strings.Join(words, ", ")
}

func median(all []spentFor, of func(spentFor) float64) float64 {
	var values []float64
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkRamdiskDirect writes images to the disk of a virtual machine that has booted the product's ramdisk. They come from one server
// by HTTP. The agent gets the command that the deploy interface direct gives it: with checksum and read-back. By hand it is done in the
// same ramdisk, with `curl` and `dd` for raw, and with `curl` into memory and `qemu-img convert` for qcow2. Debian's programs are put
// into the ramdisk for that. They compare the checksum by `sha256sum`, or not. All write in turn, until the data is on the medium. ratio
// is the agent's speed as a part of that with the checksum, unchecked-ratio of that without. cpu-ratio is the same of
// processor time, which is that of the whole emulated machine on this host.
// IRONYARD_BENCH_MIB is the image's size, IRONYARD_BENCH_PAIRS how often each writes, and IRONYARD_BENCH_PROCESSORS how many processors
// the machine has. Without KVM the machine is some tens of times slower than its host.
func BenchmarkRamdiskDirect(b *testing.B) {
	v := bootRamdisk(b)
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			sum, from := v.sum(k.name), v.at+k.name
			v.beside(b, []way{
				{name: "agent", write: func() { v.byAgent(b, from, sum, k.format) }},
				{name: "peer", write: func() { v.byHand(b, from, sum, k.format) }},
				{name: "unchecked", write: func() { v.byHand(b, from, "", k.format) }},
			})
		})
	}
}

// byAgent has the agent write.
func (v *virtual) byAgent(b *testing.B, from, sum, format string) {
	b.Helper()
	c := v.Run(v.ctx, agentapi.CmdPrepareImage, agentapi.PrepareImageParams{ImageInfo: agentapi.ImageInfo{ID: "bench", URLs: []string{from},
		HashAlgo: "sha256", HashValue: sum, DiskFormat: format, ImageType: agentapi.ImageWholeDisk, BootMode: "bios", MinDiskBytes: 1}})
	if c.Status != agentapi.CommandSucceeded {
		b.Fatalf("the agent: %+v", c.Error)
	}
	var result agentapi.PrepareImageResult
	if err := json.Unmarshal(c.Result, &result); err != nil || result.Written.DoneBytes != v.size {
		b.Fatalf("the agent has written %+v (%v)", result, err)
	}
}

// byHand writes by a script. An empty sum is not compared. An emulated processor without SHA instructions sums faster by sha256sum than
// by openssl.
func (v *virtual) byHand(b *testing.B, from, sum, format string) {
	b.Helper()
	same := `[ "$(cut -d" " -f1 $d/sum)" = ` + sum + ` ]; `
	fetch, dd := `curl -sSf `+from+` | `, `dd of=/dev/vda bs=1M iflag=fullblock conv=notrunc,fsync status=none`
	write := fetch + dd
	switch {
	case format == "raw" && sum != "":
		write = `mkfifo $d/copy; sha256sum < $d/copy > $d/sum & ` + fetch + `tee $d/copy | ` + dd + `; wait $!; ` + same
	case format != "raw":
		check := ""
		if sum != "" {
			check = `sha256sum $d/file > $d/sum; ` + same
		}
		write = `curl -sSf -o $d/file ` + from + `; ` + check + `qemu-img convert -n -W -f ` + format + ` -O raw $d/file /dev/vda; sync /dev/vda`
	}
	v.Shell(v.ctx, b, `d=$(mktemp -d -p /tmp); trap "rm -rf $d" EXIT; `+write)
}
