package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// withPrograms is a file system of 24 MiB with programs of this machine and all that they load, each of them with its Debian package, and
// with files beside them.
func withPrograms(t *testing.T, programs map[string]string, files map[string]string) []byte {
	t.Helper()
	from := map[string]string{"/etc/mke2fs.conf": "/etc/mke2fs.conf"}
	for name, pkg := range programs {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("%v: install Debian's package %s on this machine (ops/setup/packages.sh test does)", err, pkg)
		}
		needs, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", program, err)
		}
		from["/usr/sbin/"+name] = program
		for _, word := range strings.Fields(string(needs)) {
			if filepath.IsAbs(word) {
				from[word] = word
			}
		}
	}
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "image")
	put := func(name string, b []byte) {
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for name, at := range from {
		b, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		put(name, b)
	}
	for name, text := range files {
		put(name, []byte(text))
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-d", dir, path, "24M").CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shownDisk is a disk that is a file, with loop devices that show its partitions: not every kernel shows those of a loop device.
type shownDisk struct {
	path string
	l    layout
	loop map[string]string // by what the partition is for
}

// shownPartitions is forPartition on a machine that shows the partitions. sizes are those of partitions that it shows with another size.
func shownPartitions(t *testing.T, img []byte, diskMiB int64, uefi bool, parts agentapi.Partitions, sizes map[string]int64) (*Deployer, agentapi.PrepareImageParams, shownDisk) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: a loop device and a mount want root")
	}
	d, params, path := forPartition(t, img, diskMiB, uefi, parts)
	l, err := plan(diskOf(t, path), &parts, nil, uefi)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/dev", "ironyard-test-") // the image's programs see no devices but those of /dev
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "disk")
	d.Machine = both{{Name: name, Size: diskMiB << 20}}
	s := shownDisk{path, l, map[string]string{}}
	s.loop["disk"] = looped(t, name, path, 0, diskMiB<<20)
	for role, p := range l.places {
		size := p.Size
		if other, is := sizes[role]; is {
			size = other
		}
		s.loop[role] = looped(t, deviceOf(name, p.Number), path, p.Start, size)
	}
	return d, params, s
}

// looped makes a device file of that name for a range of a file.
func looped(t *testing.T, name, path string, start, size int64) (device string) {
	t.Helper()
	device = loopDevice(t, path, "--offset", fmt.Sprint(start), "--sizelimit", fmt.Sprint(size))
	var is unix.Stat_t
	if err := unix.Stat(device, &is); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(is.Rdev)); err != nil {
		t.Fatal(err)
	}
	return device
}

// The image's mkfs makes an ephemeral partition of each format, with Ironic's label, and the format's own programs find no fault with it.
// After that the table says so, and the next deploy keeps it to the byte.
func TestTheImagesMkfsMakesTheEphemeralPartition(t *testing.T) {
	for name, c := range map[string]struct {
		pkg, kind string
		mib       int64
		check     []string
	}{
		"ext2":  {"e2fsprogs", "ext2", 16, []string{"e2fsck", "-f", "-n"}},
		"ext3":  {"e2fsprogs", "ext3", 16, []string{"e2fsck", "-f", "-n"}},
		"ext4":  {"e2fsprogs", "ext4", 16, []string{"e2fsck", "-f", "-n"}},
		"xfs":   {"xfsprogs", "xfs", formats["xfs"].least >> 20, []string{"xfs_repair", "-n"}},
		"btrfs": {"btrfs-progs", "btrfs", formats["btrfs"].least >> 20, []string{"btrfs", "check", "--readonly"}},
		// By the partition's size mkfs.vfat makes a FAT12, a FAT16 or a FAT32.
		"vfat of 2 MiB":   {"dosfstools", "vfat", 2, []string{"fsck.vfat", "-n"}},
		"vfat of 16 MiB":  {"dosfstools", "vfat", 16, []string{"fsck.vfat", "-n"}},
		"vfat of 520 MiB": {"dosfstools", "vfat", 520, []string{"fsck.vfat", "-n"}},
	} {
		t.Run(name, func(t *testing.T) {
			parts := agentapi.Partitions{RootMB: 32, EphemeralMB: c.mib, EphemeralFormat: c.kind}
			img := withPrograms(t, map[string]string{"mkfs." + c.kind: c.pkg}, nil)
			d, params, s := shownPartitions(t, img, c.mib+64, false, parts, nil)
			if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
				t.Fatal(err)
			}
			device, at := s.loop[forEphemeral], s.l.places[forEphemeral]
			said, err := exec.Command("blkid", "-p", "-o", "export", device).Output()
			if err != nil {
				t.Errorf("blkid: %v", err)
			}
			for _, want := range []string{"TYPE=" + c.kind, "LABEL=" + ephemeralLabel} {
				if !slices.Contains(strings.Fields(string(said)), want) {
					t.Errorf("blkid does not say %s:\n%s", want, said)
				}
			}
			if out, err := exec.Command(c.check[0], append(c.check[1:], device)...).CombinedOutput(); err != nil {
				t.Errorf("%v: %v: %s", c.check, err, out)
			}
			dump, err := exec.Command("sfdisk", "--dump", s.path).Output()
			if err != nil || strings.Count(string(dump), "type=83") != 2 {
				t.Errorf("sfdisk says %v:\n%s", err, dump)
			}
			kept := digest(t, s.path, at.Start, at.Size)
			parts.PreserveEphemeral = true
			params.ImageInfo.Partitions = &parts
			if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
				t.Fatal(err)
			}
			if digest(t, s.path, at.Start, at.Size) != kept {
				t.Error("the ephemeral partition was written to")
			}
		})
	}
}

// sized is a disk for plan that has room for everything.
type sized struct {
	file
	sector int64
}

func (sized) Size() int64         { return 1 << 50 }
func (s sized) SectorSize() int64 { return s.sector }

// A size at which a format's mkfs fails is refused by name before anything is written. What is kept is not judged.
func TestSizesOfEphemeralFormats(t *testing.T) {
	for _, c := range []struct {
		format      string
		mib, sector int64
		says        string
	}{
		{"xfs", 299, 512, "ephemeral_format is xfs, and its partition is to have 299 MiB: xfs has 300 MiB at least"},
		{"xfs", 300, 512, ""},
		{"btrfs", 108, 512, "btrfs has 109 MiB at least"},
		{"btrfs", 109, 512, ""},
		{"vfat", 2 << 20, 512, "vfat has 2097151 MiB at most on this disk"},
		{"vfat", 2<<20 - 1, 512, ""},
		{"vfat", 2 << 20, 4096, ""},
		{"ext3", 16 << 20, 512, "ext3 has 16777215 MiB at most"},
		{"ext3", 16<<20 - 1, 512, ""},
		{"ext4", 16<<20 + 1, 512, ""},
		{"ext2", 1, 512, ""},
	} {
		p := agentapi.Partitions{RootMB: 8, EphemeralMB: c.mib, EphemeralFormat: c.format, DiskLabel: "gpt"}
		_, err := plan(sized{sector: c.sector}, &p, nil, false)
		var wrong *ParamError
		if c.says == "" && err != nil || c.says != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s of %d MiB: %v, want %q", c.format, c.mib, err, c.says)
		}
		p.PreserveEphemeral = true
		if _, err := plan(sized{sector: c.sector}, &p, nil, false); err != nil {
			t.Errorf("%s of %d MiB that is kept: %v", c.format, c.mib, err)
		}
	}
}

// unbootable looks that a deploy which failed has left nothing that boots, nothing mounted, and nothing that holds the disk.
func (s shownDisk) unbootable(t *testing.T, d *Deployer) {
	t.Helper()
	f := diskOf(t, s.path)
	for _, off := range []int64{0, f.size - disk.EndsSize} {
		end := make([]byte, disk.EndsSize)
		if _, err := f.ReadAt(end, off); err != nil || len(bytes.Trim(end, "\x00")) != 0 {
			t.Errorf("the MiB from byte %d is not empty (%v)", off, err)
		}
	}
	if _, err := d.InstallBootEntry(t.Context(), "", nil, efiboot.First, false); err == nil {
		t.Error("what has failed is made to boot")
	}
	s.free(t)
}

// free looks that nothing of the disk is mounted, or held.
func (s shownDisk) free(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for role, device := range s.loop {
		if strings.Contains(string(mounts), " "+device+" ") {
			t.Errorf("the %s partition is still mounted", role)
		}
		dev, err := disk.Open(device)
		if err != nil {
			t.Errorf("the %s partition is held: %v", role, err)
			continue
		}
		dev.Close()
	}
}

// script is an image's mkfs.ext4 that is a script of the shell. Its last argument is the partition.
func script(t *testing.T, text string) []byte {
	t.Helper()
	return withPrograms(t, map[string]string{"sh": "dash"}, map[string]string{"/usr/sbin/mkfs.ext4": "#!/usr/sbin/sh\n" + text})
}

// An image's mkfs that fails, or that makes nothing, fails the deploy. The next one with a better image succeeds on the same machine.
func TestAnEphemeralPartitionThatIsNotMade(t *testing.T) {
	parts := agentapi.Partitions{RootMB: 32, EphemeralMB: 16, EphemeralFormat: "ext4"}
	for name, c := range map[string]struct {
		text string
		says []string
	}{
		"it fails":      {"echo half of it >\"$5\"\necho no such luck >&2\nexit 3\n", []string{"ext4, 16 MiB, /dev/", "mkfs.ext4 -q -F -L ephemeral0", "no such luck", "exit status 3"}},
		"makes nothing": {"exit 0\n", []string{"reading back the ephemeral partition (ext4, 16 MiB, /dev/", "no file system"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, params, s := shownPartitions(t, script(t, c.text), 96, false, parts, nil)
			_, err := d.Prepare(t.Context(), params, ignore)
			for _, want := range c.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %q: %v", want, err)
				}
			}
			s.unbootable(t, d)
			better, order, _ := fixture(t, withPrograms(t, map[string]string{"mkfs.ext4": "e2fsprogs"}, nil))
			params.ImageInfo.URLs, params.ImageInfo.HashValue = order.ImageInfo.URLs, order.ImageInfo.HashValue
			d.Images = better.Images
			if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
				t.Errorf("a better image after it: %v", err)
			}
		})
	}
}

// begun cancels a deploy when the image's mkfs has written to its partition.
func begun(ctx context.Context, t *testing.T, device string, cancel func()) {
	t.Helper()
	for ctx.Err() == nil {
		head := make([]byte, 5)
		f, err := os.Open(device)
		if err == nil {
			_, err = f.ReadAt(head, 0)
			f.Close()
		}
		if err != nil {
			t.Errorf("looking for what mkfs writes: %v", err)
			cancel()
		}
		if string(head) == "begun" {
			cancel()
		}
		<-time.After(10 * time.Millisecond)
	}
}

// A deploy that is aborted while the image's mkfs runs ends the program with its children.
func TestADeployIsAbortedWhileMkfsRuns(t *testing.T) {
	parts := agentapi.Partitions{RootMB: 32, EphemeralMB: 16, EphemeralFormat: "ext4"}
	d, params, s := shownPartitions(t, script(t, "echo begun >\"$5\"\n(while :; do :; done) &\nwhile :; do :; done\n"), 96, false, parts, nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("mkfs did not begin"))
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		begun(ctx, t, s.loop[forEphemeral], cancel)
	}()
	_, err := d.Prepare(ctx, params, ignore)
	cancel()
	<-done
	if !errors.Is(context.Cause(ctx), context.Canceled) || err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("%v, %v", err, context.Cause(ctx))
	}
	s.unbootable(t, d)
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if said, err := os.ReadFile(p); err == nil && bytes.Contains(said, []byte(d.Machine.(both)[0].Name)) {
			t.Errorf("%s still runs: %q", filepath.Dir(p), said)
		}
	}
}

// The kernel keeps its view of a disk's old partitions. So the device file of the ephemeral partition stands for a larger part of the disk
// than the new table says. The image's mkfs would write over what lies behind it.
func TestAPartitionThatTheKernelShowsAsItWas(t *testing.T) {
	t.Parallel()
	img := withPrograms(t, map[string]string{"mkfs.ext4": "e2fsprogs"}, nil)
	var log bytes.Buffer
	d, params, s := shownPartitions(t, img, 96, false, agentapi.Partitions{RootMB: 32, EphemeralMB: 16, EphemeralFormat: "ext4"}, map[string]int64{forEphemeral: 60 << 20})
	d.Log = slog.New(slog.NewTextHandler(&log, nil))
	_, err := d.Prepare(t.Context(), params, ignore)
	if err == nil || !strings.Contains(err.Error(), "the kernel does not show partition /dev/") || !strings.Contains(err.Error(), "it has 62914560 bytes from byte 1048576 there, and the table has 16777216 from 1048576") {
		t.Errorf("%v", err)
	}
	if strings.Contains(log.String(), "making the ephemeral") {
		t.Error("the image's mkfs was run")
	}
	s.unbootable(t, d)
}
