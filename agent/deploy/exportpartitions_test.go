package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/filesystem"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

var asker = netip.MustParseAddr("10.0.0.1")

// ordered is the order to export the disk of a machine for a partition image.
func ordered(p agentapi.PrepareImageParams, imageBytes int64) agentapi.StartISCSIParams {
	return agentapi.StartISCSIParams{WipeDiskMetadata: true, Image: p.ImageInfo, ImageBytes: imageBytes, ConfigDrive: p.ConfigDrive}
}

// put writes as a rackd does, through the target.
func put(t *testing.T, path string, data []byte, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, at); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
}

// A rackd writes a partition image to where the agent says. The disk ends as util-linux expects one that the agent has written alone.
func TestAPartitionImageByISCSI(t *testing.T) {
	img := rootImage(t)
	fs, err := filesystem.Identify(bytes.NewReader(img))
	if err != nil {
		t.Fatal(err)
	}
	drive := bytes.Repeat([]byte("config drive "), 50000)
	for name, c := range map[string]struct {
		uefi bool
		want []string // of blkid: which partition is what
	}{"BIOS": {false, []string{"swap", "", "ext4"}}, "UEFI": {true, []string{"vfat", "swap", "", "ext4"}}} {
		parts := agentapi.Partitions{RootMB: 8, SwapMB: 2}
		d, params, path := forPartition(t, img, 600, c.uefi, parts)
		p := &plug{}
		d.Target, params.ConfigDrive = p, gzipped(t, drive)
		l, err := plan(diskOf(t, path), &parts, drive, c.uefi)
		if err != nil {
			t.Fatal(err)
		}
		root := l.places[forRoot]
		got, err := d.Export(t.Context(), ordered(params, int64(len(img))), asker)
		if err != nil || p.out != path || got.RootOffset != root.Start || got.RootBytes != root.Size {
			t.Fatalf("%s: %+v, %v, out %q, want the root partition at %d", name, got, err, p.out, root.Start)
		}
		again := ordered(params, int64(len(img)))
		again.WipeDiskMetadata = false
		if more, err := d.Export(t.Context(), again, asker); err != nil || more.Disk != got.Disk || more.RootOffset != got.RootOffset {
			t.Errorf("%s: the same once more: %+v, %v", name, more, err)
		}
		put(t, path, img, got.RootOffset)
		done, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: got.Disk, ConfigDrive: params.ConfigDrive, ImageBytes: int64(len(img))})
		if err != nil || done.RootUUID != fs.UUID || done.PartitionUUIDs == nil || done.Root != fs.UUID || (done.ESP != "") != c.uefi || p.out != "" {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
		if d.PartitionUUIDs().Root != fs.UUID {
			t.Errorf("%s: the agent tells of %+v", name, d.PartitionUUIDs())
		}
		if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("No errors")) {
			t.Errorf("%s: sfdisk --verify: %v: %s", name, err, out)
		}
		for _, place := range l.places {
			if kind := blkid(path, place.Start, place.Size); kind != c.want[place.Number-1] {
				t.Errorf("%s: partition %d is %q, want %q", name, place.Number, kind, c.want[place.Number-1])
			}
		}
		there := make([]byte, len(drive))
		if _, err := diskOf(t, path).ReadAt(there, l.places[forDrive].Start); err != nil || !bytes.Equal(there, drive) {
			t.Errorf("%s: the config drive is not where the table says (%v)", name, err)
		}
		after := &Deployer{Machine: d.Machine, Log: d.Log, EFIVars: d.EFIVars}
		if at, number, err := after.written(t.Context(), done.RootUUID, nil); err != nil || at.Name != path || number != root.Number {
			t.Errorf("%s: found again: %s, partition %d, %v", name, at.Name, number, err)
		}
	}
}

// blkid is which file system util-linux finds in a range of a file.
func blkid(path string, start, size int64) string {
	said, _ := exec.Command("blkid", "-p", "-o", "value", "-s", "TYPE", "-O", fmt.Sprint(start), "-S", fmt.Sprint(size), path).Output()
	return strings.TrimSpace(string(said)) // it fails where it finds none
}

// A rebuild by iSCSI leaves the ephemeral partition to the byte: where it ends well, where rackd gives up, and where it cannot end.
func TestTheEphemeralPartitionIsPreservedByISCSI(t *testing.T) {
	t.Parallel()
	img := rootImage(t)
	parts := agentapi.Partitions{RootMB: 8, SwapMB: 2, EphemeralMB: 5, PreserveEphemeral: true}
	d, params, path := forPartition(t, img, 32, false, parts)
	d.Target = &plug{}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader("label: dos\nstart=2048, size=10240, type=83\nsize=8192, type=82\nsize=16384, type=83, bootable\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
	kept := digest(t, path, 1<<20, 5<<20)
	untouched := func(when string) {
		t.Helper()
		if digest(t, path, 1<<20, 5<<20) != kept {
			t.Errorf("%s: the ephemeral partition was written to", when)
		}
	}
	export := func() agentapi.StartISCSIResult {
		t.Helper()
		got, err := d.Export(t.Context(), ordered(params, int64(len(img))), asker)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := export()
	untouched("exported")
	put(t, path, img, got.RootOffset)
	if err := d.StopExport(t.Context(), got.Disk); err != nil {
		t.Fatal(err)
	}
	untouched("given up")
	if kind := blkid(path, got.RootOffset, got.RootBytes); kind != "" {
		t.Errorf("given up: the root partition still holds %s", kind)
	}
	got = export()
	put(t, path, []byte("no file system"), got.RootOffset)
	if _, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: got.Disk}); err == nil || !strings.Contains(err.Error(), "it has to begin with a file system of kind") {
		t.Errorf("what is no file system: %v", err)
	}
	untouched("no file system")
	got = export()
	put(t, path, img, got.RootOffset)
	if _, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: got.Disk}); err != nil {
		t.Fatal(err)
	}
	untouched("finished")
	moved := parts
	moved.EphemeralMB = 6
	params.ImageInfo.Partitions = &moved
	before := digest(t, path, 0, 0)
	if _, err := d.Export(t.Context(), ordered(params, int64(len(img))), asker); err == nil || !strings.Contains(err.Error(), "have different values from previous deployment") {
		t.Errorf("one of another size: %v", err)
	}
	if digest(t, path, 0, 0) != before {
		t.Error("a refused export has written to the disk")
	}
}

// What cannot be is refused before the disk is exported or written. A layout that has moved makes it another disk: what a rackd has
// written is not where it would look.
func TestPartitionsThatCannotBeExported(t *testing.T) {
	img := rootImage(t)
	d, params, path := forPartition(t, img, 32, false, agentapi.Partitions{RootMB: 3})
	p := &plug{}
	d.Target = p
	before := digest(t, path, 0, 0)
	var wrong *ParamError
	if _, err := d.Export(t.Context(), ordered(params, int64(len(img))), asker); !errors.As(err, &wrong) || err.Error() != "Root partition is too small for requested image. Image virtual size: 4 MB, Root size: 3 MB" {
		t.Errorf("a root too small: %v", err)
	}
	params.ImageInfo.Partitions = &agentapi.Partitions{}
	if _, err := d.Export(t.Context(), ordered(params, 0), asker); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "root_mb does not say") {
		t.Errorf("no root: %v", err)
	}
	if p.out != "" || digest(t, path, 0, 0) != before {
		t.Errorf("exported %q, or written to", p.out)
	}
	params.ImageInfo.Partitions = &agentapi.Partitions{RootMB: 8}
	first, err := d.Export(t.Context(), ordered(params, 0), asker)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: first.Disk, ConfigDrive: gzipped(t, make([]byte, 1<<20))}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "laid out for one of up to 0") {
		t.Errorf("a config drive without a place: %v", err)
	}
	params.ConfigDrive = gzipped(t, make([]byte, 1<<20))
	order := ordered(params, 0)
	order.WipeDiskMetadata = false
	second, err := d.Export(t.Context(), order, asker)
	if err != nil || second.Disk == first.Disk || second.RootOffset == first.RootOffset {
		t.Errorf("a root partition that has moved: %+v after %+v, %v", second, first, err)
	}
}
