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

// writeDisk makes the raw image at path.
func writeDisk(ctx context.Context, scratch, path string, init []byte, kernel debkernel.Kernel) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(diskSize); err != nil {
		return err
	}
	if err := writeTable(f); err != nil {
		return fmt.Errorf("writing the partition table: %w", err)
	}
	if err := writeBIOSLoader(ctx, scratch, f); err != nil {
		return fmt.Errorf("installing GRUB for BIOS: %w", err)
	}
	if err := fillESP(ctx, scratch, path, init, kernel); err != nil {
		return fmt.Errorf("filling the EFI system partition: %w", err)
	}
	return f.Close()
}

// writeTable writes both copies of the GPT and the protective MBR.
func writeTable(f *os.File) error {
	t := &gpt.Table{
		LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true, GUID: diskGUID,
		Partitions: []*gpt.Partition{
			{Index: 1, Start: biosStart / sector, End: espStart/sector - 1, Type: gpt.BIOSBoot, Name: "bios-boot", GUID: biosGUID},
			{Index: 2, Start: espStart / sector, End: (espStart+espSize)/sector - 1, Type: gpt.EFISystemPartition, Name: "esp", GUID: espGUID},
		},
	}
	w, err := file.New(f, false).Writable()
	if err != nil {
		return err
	}
	return t.Write(w, diskSize)
}

// fillESP makes a FAT32 in the image, with the boot loader for UEFI and, for both
// loaders, GRUB's configuration, kernel and initramfs.
func fillESP(ctx context.Context, scratch, path string, init []byte, kernel debkernel.Kernel) error {
	archive, err := packInitramfs(init, kernel)
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
	if _, err := run(ctx, "", "mkfs.vfat", "--invariant", "-F", "32", "-s", "1", "-i", espID, "-n", espLabel,
		"--offset", strconv.Itoa(espStart/sector), path, strconv.Itoa(espSize/1024)); err != nil {
		return err
	}
	volume := path + "@@" + strconv.Itoa(espStart)
	if _, err := run(ctx, "", "mmd", "-i", volume, "::EFI", "::EFI/BOOT", "::grub"); err != nil {
		return err
	}
	for _, c := range []struct{ from, to string }{
		{loader, "::EFI/BOOT/BOOTX64.EFI"}, {config, "::grub/grub.cfg"}, {kernel.Image, "::vmlinuz"}, {ramdisk, "::initrd"},
	} {
		if _, err := run(ctx, "", "mcopy", "-i", volume, c.from, c.to); err != nil {
			return err
		}
	}
	return nil
}
