// Package deploy puts an instance onto a disk: it chooses the disk, writes the
// image, repairs the partition table's place, adds the config drive, and makes the
// boot entry.
//
// Or it lays the disk out, writes a partition image to the root partition, and puts the image's boot loader in place.
//
// It may import protocol/agentapi and the agent's packages for each of these. Only
// one call runs at a time; agent/command sees to that.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/configdrive"
	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/agent/esp"
	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
	"github.com/ironyard/ironyard/protocol/sectors"
)

// Disks is a machine whose disks may appear late (agent/diskwatch).
type Disks interface {
	// Settled returns the disks once their list is stable and check accepts it, else an error.
	// complete says that disks which check accepts are all that the machine has.
	// Check is told of the machine's other disks too: nothing can be written to them.
	Settled(ctx context.Context, complete bool, check func([]agentapi.Disk, []agentapi.UnfitDisk) error) ([]agentapi.Disk, error)
}

// Deployer deploys to the disks of one machine. Its fields are set before use.
type Deployer struct {
	Machine Disks
	Images  *image.Writer
	Log     *slog.Logger
	// EraseShared erases also disks with file systems that other machines may be using.
	EraseShared bool
	// EFIVars is the folder of EFI variables.
	EFIVars string
	// Forget has the machine's watch forget which disks it has shown; nil: it remembers none.
	Forget func()
	// Target exports disks; nil outside the ramdisk.
	Target Target

	exported exported
	// FileSystems loads what the kernel needs to mount file systems, once, before the first is mounted; nil: it needs nothing.
	FileSystems func()
	// Containers runs containers that install themselves; nil: the ramdisk has no podman. ContainerModules loads what the kernel needs for
	// them, before each; nil: it needs nothing.
	Containers       Containers
	ContainerModules func()
	// Mappings removes what the device mapper has on a disk; nil: there is none.
	Mappings Mappings

	// root is the disk of the last successful Prepare of this process, and partitions what a partition image was written to there.
	root       agentapi.Disk
	partitions *agentapi.PartitionUUIDs
}

// ParamError says that a command's parameters cannot be used.
type ParamError struct{ Reason string }

func (e *ParamError) Error() string { return e.Reason }

// FaultType names the error as ironic-python-agent does.
func (e *ParamError) FaultType() string { return "InvalidCommandParamsError" }

// Prepare writes the image and the config drive. Everything that can be checked
// is checked before the disk is touched.
func (d *Deployer) Prepare(ctx context.Context, p agentapi.PrepareImageParams, report func(agentapi.Progress)) (agentapi.PrepareImageResult, error) {
	var none agentapi.PrepareImageResult
	info := p.ImageInfo
	if err := checkType(&info); err != nil {
		return none, err
	}
	h, err := hints.Parse(info.RootDeviceHints)
	if err != nil {
		return none, &ParamError{err.Error()}
	}
	h.ByInstance = info.RootByInstance
	kept, err := hints.ParseKept(info.SkipBlockDevices)
	if err != nil {
		return none, &ParamError{err.Error()}
	}
	var drive []byte
	if p.ConfigDrive != "" {
		if drive, err = configdrive.Decode(p.ConfigDrive); err != nil {
			return none, err
		}
	}
	decision, err := d.decide(ctx, hints.Rules{Root: h, Kept: kept, Known: info.KnownDisks, VolumesChanged: info.VolumesChanged, MinBytes: info.MinDiskBytes}, true)
	if err != nil {
		return none, err
	}
	target := decision.Image
	d.Log.Info("writing image", "image", info.ID, "disk", target.Name, "disk_bytes", target.Size, "model", target.Model,
		"serial", target.Serial, "hints", h.String(), "format", info.DiskFormat, "compression", info.Compression)
	out, err := d.open(ctx, target)
	if err != nil {
		return none, err
	}
	defer out.Close()
	d.root, d.partitions, d.exported = agentapi.Disk{}, nil, exported{} // what a rackd has written is no longer what it was
	if info.Partitions != nil {
		return d.partitioned(ctx, info, target, out, drive, report)
	}
	written, err := d.write(ctx, info, out, report)
	if err != nil {
		return none, err
	}
	id, err := d.finish(out, drive, written.DoneBytes)
	if err != nil {
		return none, err
	}
	d.root = target
	d.Log.Info("image written", "image", info.ID, "disk", target.Name, "bytes", written.DoneBytes, "seconds", written.Seconds, "mb_per_s", written.MBPerSec)
	return agentapi.PrepareImageResult{RootDevice: target.Name, RootUUID: id, Written: written}, nil
}

// checkType refuses an image of another type, and partitions that cannot be. An image of a whole disk has none.
func checkType(info *agentapi.ImageInfo) error {
	switch info.ImageType {
	case "", agentapi.ImageWholeDisk, "whole-disk-image":
		info.Partitions = nil
		return nil
	case agentapi.ImagePartition:
		return checkPartitions(*info)
	}
	return &ParamError{fmt.Sprintf("image %s is of type %q: give whole-disk or partition", info.ID, info.ImageType)}
}

// decide waits for the machine's disks and says what becomes of each. An image needs a disk that fits.
// An erasure needs one to erase, unless the machine is known to have none. It waits for controllers without disks also where those of
// the last inspection are all there: a disk that came since then must not go to the next tenant as it is.
func (d *Deployer) decide(ctx context.Context, r hints.Rules, forImage bool) (decision hints.Decision, err error) {
	if r.VolumesChanged && d.Forget != nil {
		d.Forget()
	}
	_, err = d.Machine.Settled(ctx, forImage && len(r.Known) > 0, func(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) error {
		var err error
		switch decision, err = r.Decide(disks, unfit); {
		case err != nil:
			return err
		case forImage:
			return decision.NoImage
		}
		return decision.NoErasure
	})
	return decision, err
}

func (d *Deployer) write(ctx context.Context, info agentapi.ImageInfo, out image.Disk, report func(agentapi.Progress)) (agentapi.Progress, error) {
	began, logged := time.Now(), time.Now()
	var last agentapi.Progress
	n, err := d.Images.Write(ctx, image.Spec{
		ID: info.ID, URLs: info.URLs, HashAlgo: info.HashAlgo, HashValue: info.HashValue, Format: info.DiskFormat, Compression: info.Compression,
	}, out, func(done, total int64) {
		last = progress(done, total, time.Since(began))
		report(last)
		if time.Since(logged) > 5*time.Second {
			logged = time.Now()
			d.Log.Info("writing", "done_bytes", done, "total_bytes", total, "mb_per_s", last.MBPerSec)
		}
	})
	if err != nil {
		return last, err
	}
	last = progress(n, n, time.Since(began))
	report(last)
	return last, nil
}

func progress(done, total int64, took time.Duration) agentapi.Progress {
	s := max(took.Seconds(), 0.001)
	return agentapi.Progress{DoneBytes: done, TotalBytes: total, Seconds: s, MBPerSec: float64(done) / 1e6 / s}
}

// finish makes the partition table fit the disk, adds the config drive, and waits
// until the kernel sees the partitions. It returns the disk's identifier. If it fails the disk
// must not boot. imageBytes is the size of the image, 0 where it is not known.
func (d *Deployer) finish(out *disk.Disk, drive []byte, imageBytes int64) (id string, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, out.WipeEnds(), out.Flush())
		}
	}()
	noted := &noted{Disk: out, writes: map[int64][]byte{}}
	table, err := partition.Read(noted)
	if errors.Is(err, partition.ErrNone) {
		return "", &image.FormatError{Image: "just written", Reason: "it has no partition table, so it is not a whole-disk image; use an image with a GPT or MBR"}
	}
	if err != nil {
		return "", err
	}
	if len(table.Partitions()) == 0 {
		return "", &image.FormatError{Image: "just written", Reason: "its partition table is empty"}
	}
	if err := errors.Join(otherSectors(out, imageBytes), cutOff(table, imageBytes)); err != nil {
		return "", err
	}
	if err := table.GrowToDisk(); err != nil {
		return "", err
	}
	var place partition.Partition
	if drive != nil {
		if place, err = configdrive.Place(out, table, int64(len(drive))); err != nil {
			return "", err
		}
		if err := configdrive.Write(out, place, drive); err != nil {
			return "", err
		}
		d.Log.Info("config drive written", "partition", place.Number, "bytes", len(drive))
	}
	if err := table.Write(); err != nil {
		return "", err
	}
	if err := out.Flush(); err != nil {
		return "", err
	}
	if err := d.readBack(noted, drive, place); err != nil {
		return "", err
	}
	return table.ID(), d.reread(out)
}

// otherSectors refuses an image that was made for sectors of another size than the disk's.
func otherSectors(out *disk.Disk, imageBytes int64) error {
	err := sectors.Fit(out, imageBytes, out.Name(), out.SectorSize())
	if wrong, is := errors.AsType[*sectors.Error](err); is {
		return &image.FormatError{Image: "just written", Reason: wrong.Error()}
	}
	return err
}

// cutOff refuses an image that ends before the last partition of its GPT, such as a file that is still being copied. Behind its end lies
// what the disk had before.
func cutOff(table partition.Table, imageBytes int64) error {
	if table.Kind() != partition.GPT || imageBytes == 0 {
		return nil
	}
	for _, p := range table.Partitions() {
		if end := p.Start + p.Size; end > imageBytes {
			return &image.FormatError{Image: "just written", Reason: fmt.Sprintf("it was cut off: its partition %d ends at byte %d, and the image has %d bytes", p.Number, end, imageBytes)}
		}
	}
	return nil
}

// noted is a disk that remembers what was written through it, which is the partition table.
type noted struct {
	*disk.Disk
	writes map[int64][]byte // by offset
}

// WriteAt implements partition.Disk.
func (n *noted) WriteAt(p []byte, off int64) (int, error) {
	n.writes[off] = bytes.Clone(p)
	return n.Disk.WriteAt(p, off)
}

// readBack reads from the medium what was written: of the image a piece in each window, the
// partition table and the config drive whole.
func (d *Deployer) readBack(out *noted, drive []byte, place partition.Partition) error {
	began := time.Now()
	if err := out.Verify(); err != nil {
		return err
	}
	for off, table := range out.writes {
		if err := out.VerifyAt(table, off); err != nil {
			return fmt.Errorf("partition table: %w", err)
		}
	}
	if drive != nil {
		if err := out.VerifyAt(drive, place.Start); err != nil {
			return fmt.Errorf("config drive: %w", err)
		}
	}
	d.Log.Info("read back what was written", "disk", out.Name(), "seconds", time.Since(began).Seconds())
	return nil
}

// reread shows the kernel the new table. The kernel's view is a convenience, what
// counts is on the disk: a busy device is reported, not fatal.
func (d *Deployer) reread(out *disk.Disk) error {
	err := out.RereadPartitions()
	for range 5 {
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		<-time.After(200 * time.Millisecond) // somebody is probing the partitions
		err = out.RereadPartitions()
	}
	if errors.Is(err, unix.EBUSY) {
		d.Log.Warn("the kernel keeps its old view of the partitions until the next boot", "disk", out.Name(), "error", err)
		return nil
	}
	return err
}

// InstallBootEntry makes the firmware start the disk that was written last; id is what Prepare
// returned for it, and may be empty while this process has written it. kept are the node's disks that are never
// written to. A disk with a partition image gets its boot loader before.
// On a machine booted by BIOS there is no entry to make, and asked says that it is to run by UEFI, so that is an error. It
// returns what it did, for people.
func (d *Deployer) InstallBootEntry(ctx context.Context, id string, kept hints.Kept, at efiboot.Place, asked bool) (string, error) {
	root, number, err := d.written(ctx, id, kept)
	if err != nil {
		return "", err
	}
	uefi := d.uefi()
	if !uefi && asked {
		return d.noBootEntry(asked)
	}
	held, err := d.hold(ctx, root)
	if err != nil {
		return "", err
	}
	defer held.Close()
	loader := ""
	if number > 0 {
		if loader, err = d.bootLoader(ctx, root.Name, number, uefi); err != nil {
			return "", err
		}
		d.Log.Info("boot loader installed", "how", loader)
	}
	if !uefi && loader != "" {
		return loader, nil
	}
	if !uefi {
		return d.noBootEntry(asked)
	}
	entry, err := d.bootEntry(root.Name, at, asked)
	if err == nil && loader != "" {
		entry = loader + "; " + entry
	}
	return entry, err
}

// uefi reports whether the machine was booted by UEFI.
func (d *Deployer) uefi() bool {
	_, err := os.Stat(filepath.Clean(d.EFIVars))
	return err == nil
}

// bootEntry makes an entry for the loader on the disk's EFI system partition.
func (d *Deployer) bootEntry(root string, at efiboot.Place, asked bool) (string, error) {
	dev, err := disk.Open(root)
	if err != nil {
		return "", err
	}
	defer dev.Close()
	table, err := partition.Read(dev)
	if err != nil {
		return "", err
	}
	reason := "it has no EFI system partition, but the machine was booted by UEFI: use a UEFI image or boot mode bios"
	for _, p := range table.Partitions() {
		if p.Type != partition.TypeESP {
			continue
		}
		loader, err := esp.Loader(dev, p.Start, p.Size)
		unchecked := ""
		if errors.Is(err, esp.ErrUnreadable) { // firmware may read it all the same
			loader, unchecked = efiboot.Loader(), fmt.Sprintf("; it is not known whether there is one: %v", err)
		} else if err != nil {
			reason = fmt.Sprintf("partition %d: %v. The machine was booted by UEFI: use a UEFI image for its architecture or boot mode bios", p.Number, err)
			continue
		}
		n, err := efiboot.Install(d.EFIVars, p, dev.SectorSize(), loader, at)
		if errors.Is(err, efiboot.ErrUnsupported) {
			return d.noBootEntry(asked)
		}
		if err != nil {
			return "", err
		}
		said := fmt.Sprintf("Boot%04X starts %s on partition %d of %s%s", n, loader, p.Number, root, unchecked)
		if at == efiboot.BehindBooted {
			said += ", after the entry of the network"
		}
		d.Log.Info("boot entry made", "entry", said)
		return said, nil
	}
	return "", &image.FormatError{Image: "on " + root, Reason: reason}
}

// noBootEntry is what InstallBootEntry says of a machine without EFI variables.
func (d *Deployer) noBootEntry(asked bool) (string, error) {
	if asked {
		return "", errors.New("no boot entry: the node asks for boot mode uefi, but its ramdisk has no EFI variables, so the machine was booted by BIOS. " +
			"Set the mode in its firmware, or remove boot_mode and secure_boot from the capabilities")
	}
	d.Log.Info("no boot entry: there are no EFI variables")
	return "nothing to do: the machine was booted by BIOS", nil
}

// PartitionUUIDs says what the last Prepare of this process has written a partition image to.
func (d *Deployer) PartitionUUIDs() agentapi.PartitionUUIDs {
	if d.partitions == nil {
		return agentapi.PartitionUUIDs{Partitions: map[string]string{}}
	}
	return *d.partitions
}
