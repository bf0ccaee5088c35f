package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	kgzip "compress/gzip"

	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/agent/filesystem"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// rootImage is a file system of e2fsprogs with a file in it.
func rootImage(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "image")
	if err := os.WriteFile(filepath.Join(dir, "hello"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// forPartition is a machine with a disk of so many MiB, and the order to write a partition image to it.
func forPartition(t *testing.T, img []byte, diskMiB int64, uefi bool, p agentapi.Partitions) (*Deployer, agentapi.PrepareImageParams, string) {
	t.Helper()
	d, params, path := fixture(t, img)
	if err := os.Truncate(path, diskMiB<<20); err != nil {
		t.Fatal(err)
	}
	d.Machine = both{{Name: path, Size: diskMiB << 20}}
	if !uefi {
		d.EFIVars = filepath.Join(d.EFIVars, "none")
	}
	params.ImageInfo.ImageType, params.ImageInfo.Partitions = "partition", &p
	return d, params, path
}

func gzipped(t *testing.T, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	z := kgzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// Util-linux finds the partitions where they were asked for, and in each what belongs there.
func TestPartitionsOfADisk(t *testing.T) {
	img := rootImage(t)
	fs, err := filesystem.Identify(bytes.NewReader(img))
	if err != nil {
		t.Fatal(err)
	}
	drive := bytes.Repeat([]byte("config drive "), 50000)
	for name, c := range map[string]struct {
		uefi  bool
		parts agentapi.Partitions
		want  []string // of blkid: which partition is what
		table []string
	}{
		"BIOS": {false, agentapi.Partitions{RootMB: 8, SwapMB: 2}, []string{"swap", "", "ext4"}, []string{"label: dos", "type=82", "bootable"}},
		"BIOS with a GPT": {false, agentapi.Partitions{RootMB: 8, DiskLabel: "gpt"}, []string{"", "", "ext4"},
			[]string{"label: gpt", "type=21686148-6449-6E6F-744E-656564454649", `name="config-2"`}},
		"UEFI": {true, agentapi.Partitions{RootMB: 8, SwapMB: 2}, []string{"vfat", "swap", "", "ext4"}, []string{"label: gpt", "size=     1126400, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B"}},
	} {
		d, params, path := forPartition(t, img, 600, c.uefi, c.parts)
		params.ConfigDrive = gzipped(t, drive)
		got, err := d.Prepare(t.Context(), params, ignore)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.RootUUID != fs.UUID || got.Root != fs.UUID || (got.ESP != "") != c.uefi || d.PartitionUUIDs().Root != fs.UUID {
			t.Errorf("%s: %+v %+v", name, got, got.PartitionUUIDs)
		}
		if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("No errors")) {
			t.Errorf("%s: sfdisk --verify: %v: %s", name, err, out)
		}
		dump, err := exec.Command("sfdisk", "--dump", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.table {
			if !bytes.Contains(dump, []byte(want)) {
				t.Errorf("%s: sfdisk does not say %q:\n%s", name, want, dump)
			}
		}
		disk, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		l, err := plan(diskOf(t, path), &c.parts, drive, c.uefi)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range l.places {
			if kind := blkid(path, p.Start, p.Size); kind != c.want[p.Number-1] {
				t.Errorf("%s: partition %d is %q, want %q", name, p.Number, kind, c.want[p.Number-1])
			}
			holds := func(want []byte) bool {
				data := make([]byte, min(int64(len(want)), p.Size))
				if _, err := disk.ReadAt(data, p.Start); err != nil {
					t.Fatal(err)
				}
				return bytes.Equal(data, want)
			}
			switch p.Number {
			case l.places[forRoot].Number:
				if !holds(img) {
					t.Errorf("%s: the root partition does not hold the image", name)
				}
			case l.places[forDrive].Number:
				if !holds(drive) {
					t.Errorf("%s: the config drive is not there", name)
				}
			}
		}
		disk.Close()
		// An agent that was started again finds the disk, and which partition is the root, by what it said of them.
		again := &Deployer{Machine: d.Machine, Log: d.Log, EFIVars: d.EFIVars}
		if at, root, err := again.written(t.Context(), got.RootUUID, nil); err != nil || at.Name != path || root != l.places[forRoot].Number {
			t.Errorf("%s: found again: %s, partition %d, %v", name, at.Name, root, err)
		}
	}
}

// file is a disk for plan.
type file struct {
	*os.File
	size int64
}

func (f file) Size() int64     { return f.size }
func (file) SectorSize() int64 { return 512 }

func diskOf(t *testing.T, path string) file {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return file{f, st.Size()}
}

// digest is the checksum of a range of a file; of all of it where size is 0.
func digest(t *testing.T, path string, start, size int64) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if size == 0 {
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		size = st.Size() - start
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, start, size)); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// What cannot be is refused with the reason, and nothing is written.
func TestPartitionsThatCannotBe(t *testing.T) {
	t.Parallel()
	img := rootImage(t)
	for name, c := range map[string]struct {
		uefi  bool
		parts agentapi.Partitions
		says  string
	}{
		"no root":             {false, agentapi.Partitions{}, "root_mb does not say"},
		"a root too small":    {false, agentapi.Partitions{RootMB: 3}, "Root partition is too small for requested image. Image virtual size: more than 3 MB, Root size: 3 MB"},
		"a disk too small":    {false, agentapi.Partitions{RootMB: 8, SwapMB: 64}, "has room for"},
		"a format of none":    {false, agentapi.Partitions{RootMB: 8, EphemeralMB: 2, EphemeralFormat: "ntfs"}, `ephemeral_format is "ntfs"`},
		"an XFS too small":    {false, agentapi.Partitions{RootMB: 8, EphemeralMB: 2, EphemeralFormat: "xfs"}, "xfs has 300 MiB at least"},
		"a label of none":     {false, agentapi.Partitions{RootMB: 8, DiskLabel: "apm"}, `disk_label is "apm"`},
		"msdos with UEFI":     {true, agentapi.Partitions{RootMB: 8, DiskLabel: "msdos"}, "the machine was booted by UEFI"},
		"nothing to preserve": {false, agentapi.Partitions{RootMB: 8, PreserveEphemeral: true}, "ephemeral_mb is 0"},
		"no former partition": {false, agentapi.Partitions{RootMB: 8, EphemeralMB: 2, PreserveEphemeral: true}, "have different values from previous deployment"},
	} {
		d, params, path := forPartition(t, img, 32, c.uefi, c.parts)
		before := digest(t, path, 0, 0)
		if _, err := d.Prepare(t.Context(), params, ignore); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		// How large an image is shows only while it comes, where its server does not say.
		if name != "a root too small" && digest(t, path, 0, 0) != before {
			t.Errorf("%s: the disk was written to", name)
		}
	}
	d, params, _ := forPartition(t, img, 32, false, agentapi.Partitions{RootMB: 8})
	params.ImageInfo.ImageType = "tarball"
	if _, err := d.Prepare(t.Context(), params, ignore); err == nil || !strings.Contains(err.Error(), "give whole-disk or partition") {
		t.Errorf("an image of another type: %v", err)
	}
}

// A rebuild leaves the ephemeral partition as it is, to the byte, also when the rest changes and when it fails.
func TestTheEphemeralPartitionIsPreserved(t *testing.T) {
	img := rootImage(t)
	parts := agentapi.Partitions{RootMB: 8, SwapMB: 2, EphemeralMB: 5, PreserveEphemeral: true}
	d, params, path := forPartition(t, img, 32, false, parts)
	first := parts
	first.PreserveEphemeral = false
	l, err := plan(diskOf(t, path), &first, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader("label: dos\nstart=2048, size=10240, type=83\nsize=8192, type=82\nsize=16384, type=83, bootable\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
	at := l.places[forEphemeral]
	kept := digest(t, path, at.Start, at.Size)
	params.ConfigDrive = gzipped(t, make([]byte, 1<<20))
	if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
		t.Fatal(err)
	}
	if digest(t, path, at.Start, at.Size) != kept {
		t.Error("the ephemeral partition was written to")
	}
	dump, _ := exec.Command("sfdisk", "--dump", path).Output()
	if n := strings.Count(string(dump), "start="); n != 4 {
		t.Errorf("the table was not made anew:\n%s", dump)
	}
	// One that fails: the root partition does not boot, and the ephemeral one stays.
	params.ImageInfo.HashValue = strings.Repeat("0", 64)
	if _, err := d.Prepare(t.Context(), params, ignore); err == nil {
		t.Fatal("a wrong checksum was accepted")
	}
	if digest(t, path, at.Start, at.Size) != kept {
		t.Error("a failure took the ephemeral partition")
	}
	if _, err := d.InstallBootEntry(t.Context(), "", nil, efiboot.First, false); err == nil {
		t.Error("what has failed is made to boot")
	}
	moved := parts
	moved.EphemeralMB = 6
	params.ImageInfo.Partitions = &moved
	var wrong *ParamError
	if _, err := d.Prepare(t.Context(), params, ignore); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "partition 1 of 6 MiB from MiB 1") {
		t.Errorf("one of another size: %v", err)
	}
}

// An image that is no file system that can be made to boot leaves nothing that boots.
func TestAPartitionImageThatIsNone(t *testing.T) {
	d, params, path := forPartition(t, bytes.Repeat([]byte("no file system. "), 1<<18), 32, false, agentapi.Partitions{RootMB: 8})
	if _, err := d.Prepare(t.Context(), params, ignore); err == nil || !strings.Contains(err.Error(), "it has to begin with a file system of kind ext2, ext3, ext4 or xfs") {
		t.Errorf("%v", err)
	}
	first := make([]byte, 1<<20)
	f := diskOf(t, path)
	if _, err := f.ReadAt(first, 0); err != nil || len(bytes.Trim(first, "\x00")) != 0 {
		t.Errorf("the disk's start is not empty, %v", err)
	}
}
