package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ironyard/ironyard/agent/bootloader"
	"github.com/ironyard/ironyard/agent/confine"
	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/filesystem"
	"github.com/ironyard/ironyard/agent/partition"
)

// mkfsBound is how long the making of a file system may take.
const mkfsBound = 30 * time.Minute

// format is a file system that an ephemeral partition may have.
type format struct {
	mkfs []string // the image's program, its arguments for no questions, and the one before the label
	// The partition's least size in bytes, and its most in bytes and in sectors; 0: none. Programs fail below and above, and that of FAT
	// leaves the rest of a larger partition unused.
	least, most, mostSectors int64
}

// formats are what ephemeral_format may be. Sizes are those of xfsprogs (5.19 and later; those before took 16 MiB), of btrfs-progs with two
// copies of the metadata, of e2fsprogs with blocks of 4 KiB, and of FAT's count of sectors.
var formats = map[string]format{
	"ext2":  {mkfs: []string{"mkfs.ext2", "-q", "-F", "-L"}, most: (1<<32 - 1) << 12},
	"ext3":  {mkfs: []string{"mkfs.ext3", "-q", "-F", "-L"}, most: (1<<32 - 1) << 12},
	"ext4":  {mkfs: []string{"mkfs.ext4", "-q", "-F", "-L"}},
	"xfs":   {mkfs: []string{"mkfs.xfs", "-q", "-f", "-L"}, least: 300 << 20},
	"btrfs": {mkfs: []string{"mkfs.btrfs", "-q", "-f", "-L"}, least: 109 << 20},
	"vfat":  {mkfs: []string{"mkfs.vfat", "-n"}, mostSectors: 1<<32 - 1},
}

// fits refuses a partition of a size at which the format's program fails. Nothing has been written by then.
func (f format) fits(name string, size, sector int64) error {
	most := f.most
	if f.mostSectors > 0 {
		most = f.mostSectors * sector
	}
	switch {
	case size < f.least:
		return &ParamError{fmt.Sprintf("ephemeral_format is %s, and its partition is to have %d MiB: %s has %d MiB at least. Give a larger ephemeral_gb, or another format",
			name, size/mib, name, f.least/mib)}
	case most > 0 && size > most:
		return &ParamError{fmt.Sprintf("ephemeral_format is %s, and its partition is to have %d MiB: %s has %d MiB at most on this disk. Give a smaller ephemeral_gb, or another format",
			name, size/mib, name, most/mib)}
	}
	return nil
}

// formatEphemeral has the image's own program make the file system of the ephemeral partition: the instance is to use it, and
// the ramdisk has no such program. If it fails, the disk must not boot.
func (d *Deployer) formatEphemeral(ctx context.Context, name string, l layout, root filesystem.Found, kind string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, wipe(name))
		}
	}()
	place := l.places[forEphemeral]
	at, rootAt := deviceOf(name, place.Number), deviceOf(name, l.places[forRoot].Number)
	if err := errors.Join(waitFor(at, place), waitFor(rootAt, l.places[forRoot])); err != nil {
		return err
	}
	d.loadFileSystems()
	began := time.Now()
	d.Log.Info("making the ephemeral partition's file system", "partition", at, "format", kind, "mib", place.Size/mib)
	if err := runMkfs(ctx, at, rootAt, root.Kind, kind); err != nil {
		return fmt.Errorf("making the file system of the ephemeral partition (%s, %d MiB, %s): %w", kind, place.Size/mib, at, err)
	}
	made, err := identify(name, place)
	if err != nil {
		return fmt.Errorf("reading back the ephemeral partition (%s, %d MiB, %s): %w", kind, place.Size/mib, at, err)
	}
	if want := filesystem.Kind(kind); made.Kind != want && (made.Kind != filesystem.Ext || !slices.Contains([]string{"ext2", "ext3"}, kind)) {
		return fmt.Errorf("the ephemeral partition %s reads back as %s, not %s", at, made.Kind, kind)
	}
	if err := d.ready(name, l); err != nil {
		return fmt.Errorf("telling in the partition table that the ephemeral partition is made: %w", err)
	}
	d.Log.Info("ephemeral partition made", "partition", at, "format", kind, "seconds", time.Since(began).Seconds())
	return nil
}

// runMkfs runs the program of the image on rootAt that makes a file system at the device, and returns when that is on the medium.
func runMkfs(ctx context.Context, at, rootAt string, root filesystem.Kind, kind string) (err error) {
	// What the kernel could not write it tells those alone that had the partition open meanwhile.
	open, err := os.Open(at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	err = bootloader.Mounted(rootAt, root, false, func(dir string) error {
		below, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer below.Close()
		program := formats[kind].mkfs
		path := confine.Lookup(below, program[0])
		if path == "" {
			return &ParamError{fmt.Sprintf("ephemeral_format is %s, and the image has no %s to make it with: install it in the image, or use a format that the image knows", kind, program[0])}
		}
		command := append(append([]string{path}, program[1:]...), ephemeralLabel, at)
		ctx, cancel := context.WithTimeoutCause(ctx, mkfsBound, fmt.Errorf("it did not end in %v", mkfsBound))
		defer cancel()
		return confine.Run(ctx, confine.Job{Root: dir, Devices: []string{at}, Command: command})
	})
	if err != nil {
		return err
	}
	if err := open.Sync(); err != nil {
		return fmt.Errorf("writing out %s: %w", at, err)
	}
	return nil
}

// ready gives the ephemeral partition its type, when its file system is on the medium.
func (d *Deployer) ready(name string, l layout) (err error) {
	out, err := disk.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Flush(); err != nil {
		return err
	}
	noted := &noted{Disk: out, writes: map[int64][]byte{}}
	table, err := partition.Read(noted)
	if err == nil {
		err = table.SetType(l.places[forEphemeral].Number, l.want[l.places[forEphemeral].Number-1].Type)
	}
	if err == nil {
		err = table.Write()
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return err
	}
	return d.readBack(noted, nil, partition.Partition{})
}

// identify reads what is on a partition of a disk that is not open, past what the kernel kept of it.
func identify(name string, p partition.Partition) (filesystem.Found, error) {
	dev, err := disk.Open(name)
	if err != nil {
		return filesystem.Found{}, err
	}
	defer dev.Close()
	if err := dev.Refresh(); err != nil {
		return filesystem.Found{}, err
	}
	return filesystem.Identify(dev.Part(name, p.Start, p.Size))
}
