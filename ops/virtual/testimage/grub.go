package testimage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// grubConfig boots without a menu. GRUB has set root to the ESP by then. The
// firmware's own console is silenced, because under UEFI it is the same serial line.
// Without a display GRUB for UEFI complains of "no suitable video mode", whatever
// gfxpayload says; Linux wants none.
const grubConfig = `serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
echo
echo "IRONYARD-GRUB $grub_platform"
linux /vmlinuz console=ttyS0,115200 quiet cryptomgr.notests
initrd /initrd
boot
`

// grubModules are built into both loaders, so that the ESP needs no module files.
var grubModules = []string{"part_gpt", "fat", "normal", "linux", "serial", "terminal", "echo", "boot"}

const bootImage = "/usr/lib/grub/i386-pc/boot.img"

// Offsets in GRUB's images for BIOS (include/grub/i386/pc/boot.h and
// grub-core/boot/i386/pc/diskboot.S of GRUB 2.06).
const (
	// kernelSector in boot.img: the sector of core.img, eight bytes.
	kernelSector = 0x5c
	// bootCode is how much of boot.img is code; disk signature and partition
	// table follow.
	bootCode = 0x1b8
	// firstBlock in core.img's first sector: start sector (eight bytes), sectors
	// (two) and load segment (two) of what follows that sector.
	firstBlock = 0x1f4
)

// makeEFILoader writes GRUB as the loader that UEFI starts from removable media. Its
// prefix has no device: GRUB takes the one that it was loaded from.
func makeEFILoader(ctx context.Context, path string) error {
	_, err := run(ctx, "", "grub-mkimage", append([]string{"-O", "x86_64-efi", "-p", "/grub", "-o", path}, grubModules...)...)
	return err
}

// writeBIOSLoader puts GRUB's first stage into the MBR and the rest into the BIOS boot
// partition. That is what grub-bios-setup does, but that wants a loop device.
func writeBIOSLoader(ctx context.Context, scratch string, disk io.ReadWriteSeeker) error {
	path := filepath.Join(scratch, "core.img")
	// The prefix names the partition, on whichever disk the BIOS booted.
	args := append([]string{"-O", "i386-pc", "-p", "(,gpt2)/grub", "-o", path, "biosdisk"}, grubModules...)
	if _, err := run(ctx, "", "grub-mkimage", args...); err != nil {
		return err
	}
	core, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	boot, err := os.ReadFile(bootImage)
	if err != nil {
		return fmt.Errorf("package grub-pc-bin: %w", err)
	}
	if err := placeLoader(boot, core, biosStart/sector); err != nil {
		return err
	}
	for _, part := range []struct {
		data []byte
		at   int64
	}{{boot[:bootCode], 0}, {core, biosStart}} {
		if _, err := disk.Seek(part.at, io.SeekStart); err != nil {
			return err
		}
		if _, err := disk.Write(part.data); err != nil {
			return err
		}
	}
	return nil
}

// placeLoader tells both stages that core starts at the given sector of the disk.
func placeLoader(boot, core []byte, at uint64) error {
	switch {
	case len(boot) != sector:
		return fmt.Errorf("boot.img has %d bytes, want %d", len(boot), sector)
	case len(core) <= sector:
		return fmt.Errorf("core.img of %d bytes has no second sector", len(core))
	case len(core) > biosSize:
		return fmt.Errorf("core.img of %d bytes does not fit the BIOS boot partition of %d", len(core), biosSize)
	}
	rest := (len(core) - 1) / sector
	if got := binary.LittleEndian.Uint16(core[firstBlock+8:]); int(got) != rest {
		return fmt.Errorf("core.img says that %d sectors follow its first, it has %d: its format is not GRUB 2.06's", got, rest)
	}
	if binary.LittleEndian.Uint16(boot[sector-2:]) != 0xaa55 {
		return errors.New("boot.img is no boot sector")
	}
	binary.LittleEndian.PutUint64(boot[kernelSector:], at)
	binary.LittleEndian.PutUint64(core[firstBlock:], at+1)
	return nil
}
