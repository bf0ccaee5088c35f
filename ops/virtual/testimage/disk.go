package testimage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"

	"github.com/ironyard/ironyard/ops/debkernel"
)

const (
	sector = 512
	mib    = 1 << 20
)

// The disk, in bytes: table, BIOS boot partition, EFI system partition, backup table.
// The size of the ESP is what FAT32 takes: it must have 65525 clusters or more.
const (
	biosStart = 1 * mib
	biosSize  = 1 * mib
	espStart  = biosStart + biosSize
	espSize   = 48 * mib
	diskSize  = espStart + espSize + 1*mib
)

// Identifiers are fixed, for the image's bytes to be.
const (
	diskGUID = "6B1D0F5E-0001-4A5C-9D3E-1A0C7E57D15C"
	biosGUID = "6B1D0F5E-0002-4A5C-9D3E-1A0C7E57D15C"
	espGUID  = "6B1D0F5E-0003-4A5C-9D3E-1A0C7E57D15C"
	espID    = "1A0C7E57"
	espLabel = "IRONYARD"
)

// x64 is the image of amd64: GRUB starts it, under UEFI and BIOS alike.
type x64 struct {
	init   []byte
	kernel debkernel.Kernel
}

// readX64 reads what the image is made of.
func readX64(ctx context.Context, o Options, scratch string) (x x64, err error) {
	if x.kernel, err = debkernel.Fetch(ctx, o.CacheDir, debkernel.Cloud); err != nil {
		return x, err
	}
	x.init, err = readInit(ctx, o.Init, AMD64, scratch)
	return x, err
}

func (x x64) inputs(ctx context.Context) (string, error) {
	return inputs(ctx, x.init, x.kernel.Version)
}

func (x x64) write(ctx context.Context, scratch, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = writeTable(f, diskSize, diskGUID,
		&gpt.Partition{Index: 1, Start: biosStart / sector, End: espStart/sector - 1, Type: gpt.BIOSBoot, Name: "bios-boot", GUID: biosGUID},
		&gpt.Partition{Index: 2, Start: espStart / sector, End: (espStart+espSize)/sector - 1, Type: gpt.EFISystemPartition, Name: "esp", GUID: espGUID})
	if err != nil {
		return fmt.Errorf("writing the partition table: %w", err)
	}
	if err := writeBIOSLoader(ctx, scratch, f); err != nil {
		return fmt.Errorf("installing GRUB for BIOS: %w", err)
	}
	if err := x.fill(ctx, scratch, path); err != nil {
		return fmt.Errorf("filling the EFI system partition: %w", err)
	}
	return f.Close()
}

// writeTable gives the disk its size, and writes both copies of the GPT and the protective MBR.
func writeTable(f *os.File, size int64, guid string, partitions ...*gpt.Partition) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	t := &gpt.Table{LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true, GUID: guid, Partitions: partitions}
	w, err := file.New(f, false).Writable()
	if err != nil {
		return err
	}
	return t.Write(w, size)
}

// fill makes a FAT32 in the image, with the boot loader for UEFI and, for both
// loaders, GRUB's configuration, kernel and initramfs.
func (x x64) fill(ctx context.Context, scratch, path string) error {
	archive, err := packInitramfs(x.init, x.kernel)
	if err != nil {
		return fmt.Errorf("packing the initramfs: %w", err)
	}
	loader := filepath.Join(scratch, "bootx64.efi")
	if err := makeEFILoader(ctx, loader); err != nil {
		return err
	}
	ramdisk, config := filepath.Join(scratch, "initrd"), filepath.Join(scratch, "grub.cfg")
	if err := os.WriteFile(ramdisk, archive, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(config, []byte(grubConfig), 0o644); err != nil {
		return err
	}
	return makeESP(ctx, path, espStart, espSize, []string{"::EFI", "::EFI/BOOT", "::grub"}, []placed{
		{loader, "::EFI/BOOT/BOOTX64.EFI"}, {config, "::grub/grub.cfg"}, {x.kernel.Image, "::vmlinuz"}, {ramdisk, "::initrd"}})
}

// placed is a file and its place on the EFI system partition.
type placed struct{ from, to string }

// makeESP makes a FAT32 from start bytes of the image on, with folders and files in this order.
func makeESP(ctx context.Context, path string, start, size int, folders []string, files []placed) error {
	if _, err := run(ctx, "", "mkfs.vfat", "--invariant", "-F", "32", "-s", "1", "-i", espID, "-n", espLabel,
		"--offset", strconv.Itoa(start/sector), path, strconv.Itoa(size/1024)); err != nil {
		return err
	}
	volume := path + "@@" + strconv.Itoa(start)
	if _, err := run(ctx, "", "mmd", append([]string{"-i", volume}, folders...)...); err != nil {
		return err
	}
	for _, f := range files {
		if _, err := run(ctx, "", "mcopy", "-i", volume, f.from, f.to); err != nil {
			return err
		}
	}
	return nil
}
