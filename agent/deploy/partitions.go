package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/agent/bootloader"
	"github.com/ironyard/ironyard/agent/configdrive"
	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/filesystem"
	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// What partitions are for, in the words of ironic-python-agent.
const (
	forESP       = "efi system partition"
	forBIOS      = "BIOS Boot partition"
	forEphemeral = "ephemeral"
	forSwap      = "swap"
	forDrive     = "configdrive"
	forRoot      = "root"
)

// The sizes of partitions that no request names, and the labels, all of them Ironic's.
const (
	espBytes       = 550 << 20
	biosBytes      = 1 << 20
	espLabel       = "efi-part"
	swapLabel      = "swap1"
	ephemeralLabel = "ephemeral0"
	rootLabel      = "root"
)

// unready is the type of an ephemeral partition until its file system is made. A deploy that loses its power in between leaves it so.
const unready = partition.TypeReserved

const mib = 1 << 20

// checkPartitions refuses what cannot work whichever disk it is.
func checkPartitions(info agentapi.ImageInfo) error {
	bad := func(format string, args ...any) error {
		return &ParamError{fmt.Sprintf("image "+info.ID+": "+format, args...)}
	}
	p := info.Partitions
	switch {
	case p == nil || p.RootMB <= 0:
		return bad("it is a partition image, and root_mb does not say how large its partition is to be")
	case p.SwapMB < 0 || p.EphemeralMB < 0 || max(p.RootMB, p.SwapMB, p.EphemeralMB) > 1<<40:
		return bad("root_mb %d, swap_mb %d and ephemeral_mb %d are no sizes", p.RootMB, p.SwapMB, p.EphemeralMB)
	case p.DiskLabel != "" && p.DiskLabel != "gpt" && p.DiskLabel != "msdos":
		return bad("disk_label is %q: give gpt or msdos", p.DiskLabel)
	case p.PreserveEphemeral && p.EphemeralMB == 0:
		return bad("preserve_ephemeral is set, and there is no ephemeral partition: ephemeral_mb is 0")
	}
	if _, known := formats[p.EphemeralFormat]; p.EphemeralMB > 0 && !p.PreserveEphemeral && !known {
		return bad("ephemeral_format is %q: give ext2, ext3, ext4, xfs, btrfs or vfat", p.EphemeralFormat)
	}
	return nil
}

// layout is what becomes of a disk.
type layout struct {
	kind   partition.Kind
	want   []partition.Wanted
	places map[string]partition.Partition // by what they are for
}

// plan lays a disk out. The root partition is the last, so that the instance can make it larger. In front of the ephemeral
// partition is nothing whose size changes, so that it stays where it is when the node is rebuilt.
func plan(out partition.Disk, p *agentapi.Partitions, drive []byte, uefi bool) (layout, error) {
	l := layout{kind: partition.GPT, places: map[string]partition.Partition{}}
	if p.DiskLabel == "msdos" || p.DiskLabel == "" && !uefi {
		l.kind = partition.MBR
	}
	if uefi && l.kind == partition.MBR {
		return l, &ParamError{"disk_label is msdos, and the machine was booted by UEFI: use gpt, or boot mode bios"}
	}
	if p.EphemeralMB > 0 && !p.PreserveEphemeral {
		if err := formats[p.EphemeralFormat].fits(p.EphemeralFormat, p.EphemeralMB*mib, out.SectorSize()); err != nil {
			return l, err
		}
	}
	var roles []string
	add := func(role, label, kind string, size int64) {
		if size > 0 {
			roles = append(roles, role)
			l.want = append(l.want, partition.Wanted{Label: label, Type: kind, Size: size, Active: role == forRoot && !uefi})
		}
	}
	if uefi {
		add(forESP, espLabel, partition.TypeESP, espBytes)
	} else if l.kind == partition.GPT {
		add(forBIOS, "bios-boot", partition.TypeBIOSBoot, biosBytes)
	}
	add(forEphemeral, ephemeralLabel, partition.TypeLinux, p.EphemeralMB*mib)
	add(forSwap, swapLabel, partition.TypeSwap, p.SwapMB*mib)
	add(forDrive, configdrive.Label, partition.TypeLinux, int64(len(drive)))
	add(forRoot, rootLabel, partition.TypeLinux, p.RootMB*mib)
	places, err := partition.Layout(out, l.kind, l.want)
	if err != nil {
		return l, &ParamError{err.Error()}
	}
	for i, role := range roles {
		l.places[role] = places[i]
	}
	return l, nil
}

// keep looks for the ephemeral partition of the last deploy, and takes over its name. It is an error if it is not exactly where the
// layout has it.
func (l *layout) keep(out partition.Disk) error {
	want := l.places[forEphemeral]
	refuse := func(is string) error {
		return &ParamError{fmt.Sprintf("preserve_ephemeral is set. The following parameters have different values from previous deployment: "+
			"disk %s %s, and root_gb, swap_mb, ephemeral_gb, disk_label or boot mode ask for an ephemeral partition %d of %d MiB from MiB %d. Nothing was written",
			out.Name(), is, want.Number, want.Size/mib, want.Start/mib)}
	}
	table, err := partition.Read(out)
	var parts []partition.Partition
	kind := l.kind
	if err == nil {
		parts, kind = table.Partitions(), table.Kind()
	} else if l.kind == partition.GPT {
		// The power may have gone while a rebuild before this one wrote the table.
		if copied, cerr := partition.Copy(out); cerr == nil {
			parts, err = copied, nil
		}
	}
	if errors.Is(err, partition.ErrNone) {
		return refuse("has no partition table")
	}
	if err != nil {
		return err
	}
	if kind != l.kind {
		return refuse(fmt.Sprintf("has a partition table of kind %s, not %s", kind, l.kind))
	}
	var has []string
	for _, p := range parts {
		if p.Number == want.Number && p.Start == want.Start && p.Size == want.Size {
			switch p.Type {
			case want.Type:
				l.want[want.Number-1].GUID = p.GUID
				return nil
			case partition.TypeIn(l.kind, unready):
				return &ParamError{fmt.Sprintf("preserve_ephemeral is set, and the ephemeral partition %d of disk %s has no file system yet: the deploy that made it ended before, "+
					"perhaps with the power. Nothing was written. Deploy without preserve_ephemeral: no instance has used that partition", p.Number, out.Name())}
			}
		}
		has = append(has, fmt.Sprintf("%d of %d MiB from MiB %d", p.Number, p.Size/mib, p.Start/mib))
	}
	return refuse("has partitions " + strings.Join(has, ", "))
}

// area is a partition in the making: what is written to it is remembered, to be read back whole.
type area struct {
	*disk.Part
	noted *noted
	start int64
}

func (a area) WriteAt(p []byte, off int64) (int, error) { return a.noted.WriteAt(p, a.start+off) }

// partitioned writes a partition image and all partitions beside it. The partition table is written last: before that nothing on
// the disk boots.
func (d *Deployer) partitioned(ctx context.Context, info agentapi.ImageInfo, target agentapi.Disk, out *disk.Disk, drive []byte,
	report func(agentapi.Progress)) (agentapi.PrepareImageResult, error) {
	var none agentapi.PrepareImageResult
	want := info.Partitions
	l, err := plan(out, want, drive, d.uefi())
	if err != nil {
		return none, err
	}
	if want.PreserveEphemeral {
		if err := l.keep(out); err != nil {
			return none, err
		}
	}
	w := newPartitioning(d, out, l, want.PreserveEphemeral)
	written, err := w.write(ctx, info, drive, report)
	if err != nil {
		return none, w.undo(err)
	}
	result, err := w.complete(ctx, target, want)
	if err != nil {
		return none, err
	}
	result.Written = written
	d.Log.Info("partition image written", "image", info.ID, "disk", target.Name, "table", l.kind, "partitions", len(l.want), "root_uuid", w.root.UUID,
		"bytes", written.DoneBytes, "seconds", written.Seconds, "mb_per_s", written.MBPerSec)
	return result, nil
}

// complete makes the ephemeral partition's file system on a disk whose table is written. It closes the disk, and remembers it.
func (w *partitioning) complete(ctx context.Context, target agentapi.Disk, want *agentapi.Partitions) (agentapi.PrepareImageResult, error) {
	var none agentapi.PrepareImageResult
	d, name := w.d, target.Name
	// The image's mkfs opens the disk by this name. While the disk is held the name means no other one.
	held, err := d.hold(ctx, target)
	if err != nil {
		return none, w.undo(err)
	}
	defer held.Close()
	if err := w.out.Close(); err != nil {
		return none, err
	}
	if want.EphemeralMB > 0 && !want.PreserveEphemeral {
		if err := d.formatEphemeral(ctx, name, w.layout, w.root, want.EphemeralFormat); err != nil {
			return none, err
		}
	}
	uuids := &agentapi.PartitionUUIDs{Partitions: map[string]string{}, Root: w.root.UUID, ESP: w.espUUID}
	for role, p := range w.layout.places {
		uuids.Partitions[role] = deviceOf(name, p.Number)
	}
	d.root, d.partitions = target, uuids
	return agentapi.PrepareImageResult{RootDevice: name, RootUUID: w.root.UUID, PartitionUUIDs: uuids}, nil
}

// partitioning is the work on one disk.
type partitioning struct {
	d       *Deployer
	out     *disk.Disk
	layout  layout
	kept    bool // the ephemeral partition stays
	noted   *noted
	touched bool

	root    filesystem.Found
	espUUID string
}

func newPartitioning(d *Deployer, out *disk.Disk, l layout, kept bool) *partitioning {
	return &partitioning{d: d, out: out, layout: l, kept: kept, noted: &noted{Disk: out, writes: map[int64][]byte{}}}
}

// area is the partition that is for something.
func (w *partitioning) area(role string) area {
	p := w.layout.places[role]
	return area{w.out.Part(fmt.Sprintf("partition %d (%s) of %s", p.Number, role, w.out.Name()), p.Start, p.Size), w.noted, p.Start}
}

// each calls do with each partition that is written.
func (w *partitioning) each(do func(role string, a area) error) error {
	for role := range w.layout.places {
		if role == forEphemeral && w.kept {
			continue
		}
		if err := do(role, w.area(role)); err != nil {
			return err
		}
	}
	return nil
}

// undo makes that the disk does not boot. An ephemeral partition that is to stay, stays.
func (w *partitioning) undo(err error) error {
	if !w.touched {
		return err
	}
	if !w.kept {
		return errors.Join(err, w.out.WipeEnds(), w.out.Flush())
	}
	return errors.Join(err, w.each(func(_ string, a area) error { return a.WipeEnds() }), w.out.Flush())
}

func (w *partitioning) write(ctx context.Context, info agentapi.ImageInfo, drive []byte, report func(agentapi.Progress)) (written agentapi.Progress, err error) {
	root := w.area(forRoot)
	// The image goes first: nothing of the disk is touched before it is known to fit and to be there.
	written, err = w.d.write(ctx, info, &watched{root.Part, w.empty}, report)
	if small, is := errors.AsType[*image.TooSmallError](err); is {
		err = rootTooSmall(small.ImgBytes, small.AtLeast, root.Size())
	}
	if err != nil {
		return written, err
	}
	if err := w.judge(info.ID); err != nil {
		return written, err
	}
	return written, w.finish(drive)
}

// rootTooSmall says it in Ironic's words.
func rootTooSmall(imageBytes int64, atLeast bool, root int64) error {
	size := fmt.Sprint((imageBytes + mib - 1) / mib)
	if atLeast {
		size = "more than " + size
	}
	return &ParamError{fmt.Sprintf("Root partition is too small for requested image. Image virtual size: %s MB, Root size: %d MB", size, root/mib)}
}

// judge looks which file system the image has brought.
func (w *partitioning) judge(id string) (err error) {
	if w.root, err = filesystem.Identify(w.area(forRoot)); err != nil || w.root.Kind != filesystem.Ext && w.root.Kind != filesystem.XFS {
		return &image.FormatError{Image: id, Reason: fmt.Sprintf("it is no partition image that this agent can make boot: it has to begin with a file system of kind ext2, ext3, ext4 or xfs (%s): %v",
			w.root.Kind, err)}
	}
	return nil
}

// watched is the root partition. Before the first write to it the rest of the disk is emptied.
type watched struct {
	*disk.Part
	before func() error
}

// WipeEnds implements image.Disk. It is the first call of each attempt that writes.
func (w *watched) WipeEnds() error {
	if before := w.before; before != nil {
		w.before = nil
		if err := before(); err != nil {
			return err
		}
	}
	return w.Part.WipeEnds()
}

// empty takes what was on the disk: its table, and what lay at the ends of the new partitions.
func (w *partitioning) empty() error {
	w.touched = true
	if !w.kept {
		if err := w.out.WipeEnds(); err != nil {
			return err
		}
	}
	return w.each(func(_ string, a area) error { return a.WipeEnds() })
}

// finish makes what lies beside the root partition, then the table, reads all back, and shows the kernel the partitions.
func (w *partitioning) finish(drive []byte) (err error) {
	if p, there := w.layout.places[forESP]; there {
		if w.espUUID, err = filesystem.FormatFAT32(w.area(forESP), espLabel, p.Start/w.out.SectorSize()); err != nil {
			return err
		}
	}
	if _, there := w.layout.places[forSwap]; there {
		if err := filesystem.FormatSwap(w.area(forSwap), swapLabel); err != nil {
			return err
		}
	}
	place := w.layout.places[forDrive]
	if len(drive) > 0 {
		if err := configdrive.Write(w.out, place, drive); err != nil {
			return err
		}
	} else {
		drive = nil
	}
	table, err := partition.New(w.noted, w.layout.kind, w.layout.want)
	if at, made := w.layout.places[forEphemeral]; err == nil && made && !w.kept {
		err = table.SetType(at.Number, unready)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(w.out.Flush(), table.Write(), w.out.Flush()); err != nil {
		return err
	}
	if err := w.d.readBack(w.noted, drive, place); err != nil {
		return err
	}
	return w.d.reread(w.out)
}

// deviceOf is the device file of a partition.
func deviceOf(disk string, number int) string {
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		return fmt.Sprintf("%sp%d", disk, number)
	}
	return fmt.Sprintf("%s%d", disk, number)
}

// wipe makes that a disk does not boot.
func wipe(name string) error {
	out, err := disk.Open(name)
	if err != nil {
		return err
	}
	defer out.Close()
	return out.WipeEnds()
}

// loadFileSystems lets the kernel mount what images have, once.
func (d *Deployer) loadFileSystems() {
	if load := d.FileSystems; load != nil {
		d.FileSystems = nil
		load()
	}
}

// bootLoader makes the disk with the partition image boot and returns what it did, for people.
func (d *Deployer) bootLoader(ctx context.Context, name string, number int, uefi bool) (string, error) {
	dev, err := disk.Open(name)
	if err != nil {
		return "", err
	}
	b, places, err := bootDisk(dev, number, uefi)
	if err := errors.Join(err, d.reread(dev), dev.Close()); err != nil {
		return "", err
	}
	for _, p := range places {
		if err := waitFor(deviceOf(name, p.Number), p); err != nil {
			return "", err
		}
	}
	d.loadFileSystems()
	said, err := bootloader.Install(ctx, d.Log, b)
	if err == nil && !uefi {
		err = bootCode(name)
	}
	if err != nil {
		return "", errors.Join(err, unboot(name, b.ESP != "", places))
	}
	return said, nil
}

// bootCodeSize is how many bytes of a disk's first sector are code; the partition table begins behind them.
const bootCodeSize = 440

// unboot takes from a disk what firmware would start after an installation that ended in the middle. All else stays, also an ephemeral
// partition that the next deploy is to keep.
func unboot(name string, uefi bool, places []partition.Partition) error {
	dev, err := disk.Open(name)
	if err != nil {
		return err
	}
	defer dev.Close()
	if !uefi {
		first := make([]byte, dev.SectorSize())
		if _, err := dev.ReadAt(first, 0); err != nil {
			return err
		}
		clear(first[:bootCodeSize])
		if _, err := dev.WriteAt(first, 0); err != nil {
			return err
		}
		return dev.Flush()
	}
	for _, p := range places {
		if p.Type == partition.TypeESP {
			err = errors.Join(err, dev.Part(name, p.Start, p.Size).WipeEnds())
		}
	}
	return err
}

// bootDisk says where the parts are of a disk with a partition image, and which partitions they are.
func bootDisk(dev *disk.Disk, number int, uefi bool) (b bootloader.Disk, places []partition.Partition, err error) {
	table, err := partition.Read(dev)
	if err != nil {
		return b, nil, err
	}
	b.Device = dev.Name()
	for _, p := range table.Partitions() {
		part := dev.Part(dev.Name(), p.Start, p.Size)
		switch {
		case p.Number == number:
			if b.RootFS, err = filesystem.Identify(part); err != nil {
				return b, nil, err
			}
			b.Root, places = deviceOf(dev.Name(), p.Number), append(places, p)
		case uefi && p.Type == partition.TypeESP:
			fs, err := filesystem.Identify(part)
			if err != nil {
				return b, nil, fmt.Errorf("the EFI system partition: %w", err)
			}
			b.ESP, b.ESPUUID, places = deviceOf(dev.Name(), p.Number), fs.UUID, append(places, p)
		}
	}
	if uefi && b.ESP == "" {
		return b, nil, &image.FormatError{Image: "on " + dev.Name(), Reason: "the disk was laid out for BIOS, and the machine was booted by UEFI: deploy the node again"}
	}
	return b, places, nil
}

// bootCode looks whether a BIOS finds code in the disk's first sector, on the medium.
func bootCode(name string) error {
	dev, err := disk.Open(name)
	if err != nil {
		return err
	}
	defer dev.Close()
	first := make([]byte, dev.SectorSize())
	if _, err := dev.ReadAt(first, 0); err != nil {
		return err
	}
	if first[0] == 0 || first[510] != 0x55 || first[511] != 0xaa {
		return &bootloader.CannotError{Reason: "its GRUB reports success, and the disk's first sector has no boot code"}
	}
	return dev.VerifyAt(first, 0)
}
