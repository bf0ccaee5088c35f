package testimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/diskfs/go-diskfs/partition/gpt"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/uki"
)

// The disk of arm64, in bytes: table, EFI system partition, backup table. The kernel is not compressed, so the partition is larger.
const (
	armESPStart = 1 * mib
	armESPSize  = 64 * mib
	armDiskSize = armESPStart + armESPSize + 1*mib
)

const (
	armDiskGUID = "6B1D0F5E-0011-4A5C-9D3E-1A0C7E57D15C"
	armESPGUID  = "6B1D0F5E-0013-4A5C-9D3E-1A0C7E57D15C"
)

// armCommandLine is that of the instance's kernel. The firmware speaks on the same line.
const armCommandLine = "console=ttyAMA0,115200 quiet"

// The stub is the program that starts the kernel in a unified kernel image.
const (
	stubPackage = "systemd-boot-efi:arm64"
	stubFile    = "lib/systemd/boot/efi/linuxaa64.efi.stub"
)

// arm64 is the image of arm64: firmware starts kernel and initramfs as one program, without a boot loader.
type arm64 struct {
	init, stub []byte
	kernel     debkernel.Kernel
}

// readARM64 reads what the image is made of.
func readARM64(ctx context.Context, o Options, scratch string) (a arm64, err error) {
	if a.kernel, err = debkernel.Fetch(ctx, o.CacheDir, debkernel.CloudARM64); err != nil {
		return a, err
	}
	if a.stub, err = debkernel.File(ctx, o.CacheDir, stubPackage, stubFile); err != nil {
		return a, err
	}
	a.init, err = readInit(ctx, o.Init, ARM64, scratch)
	return a, err
}

func (a arm64) inputs(context.Context) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "builder %d\narm64\ninit %x\nkernel %s\nmodules %s\nstub %x\n%s\n",
		builder, sha256.Sum256(a.init), a.kernel.Version, strings.Join(modules, " "), sha256.Sum256(a.stub), armCommandLine)
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (a arm64) write(ctx context.Context, scratch, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = writeTable(f, armDiskSize, armDiskGUID,
		&gpt.Partition{Index: 1, Start: armESPStart / sector, End: (armESPStart+armESPSize)/sector - 1, Type: gpt.EFISystemPartition, Name: "esp", GUID: armESPGUID})
	if err != nil {
		return fmt.Errorf("writing the partition table: %w", err)
	}
	if err := a.fill(ctx, scratch, path); err != nil {
		return fmt.Errorf("filling the EFI system partition: %w", err)
	}
	return f.Close()
}

// fill makes a FAT32 in the image, with the program that firmware starts from a disk that it has no boot entry for.
func (a arm64) fill(ctx context.Context, scratch, path string) error {
	archive, err := packInitramfs(a.init, a.kernel)
	if err != nil {
		return fmt.Errorf("packing the initramfs: %w", err)
	}
	image, err := os.ReadFile(a.kernel.Image)
	if err != nil {
		return err
	}
	program, err := uki.Build(uki.Parts{Stub: a.stub, Kernel: image, Initramfs: archive, CommandLine: armCommandLine, OSRelease: "ID=ironyard-instance\n"})
	if err != nil {
		return err
	}
	loader := filepath.Join(scratch, "bootaa64.efi")
	if err := os.WriteFile(loader, program, 0o644); err != nil {
		return err
	}
	return makeESP(ctx, path, armESPStart, armESPSize, []string{"::EFI", "::EFI/BOOT"}, []placed{{loader, "::EFI/BOOT/BOOTAA64.EFI"}})
}
