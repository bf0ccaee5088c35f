package bootmedium

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Loader is GRUB as this host has it. Immutable once found, safe for concurrent use.
type Loader struct {
	bios     []byte
	mbr      []byte // what the BIOS loads of a stick; it loads bios
	esp      []part
	problems map[string]error // of a firmware that no image here starts
	signed   bool
	opened   []io.Closer
}

// Firmwares, in the words of a node's boot mode.
const (
	UEFI = "uefi"
	BIOS = "bios"
)

// Where Debian has GRUB: below root, which is / but in tests.
const (
	shimFile     = "usr/lib/shim/shimx64.efi.signed"
	signedFile   = "usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed"
	unsignedFile = "usr/lib/grub/x86_64-efi/monolithic/gcdx64.efi"
	biosFolder   = "usr/lib/grub/i386-pc"
)

// biosModules are what GRUB needs to read the medium and to start Linux.
var biosModules = []string{"biosdisk", "iso9660", "part_msdos", "normal", "linux", "search", "search_fs_file", "echo", "test", "configfile"}

// biosConfig finds the medium among the drives: first on the one that GRUB was loaded from, since another may look like a medium.
const biosConfig = "search --no-floppy --file --hint=$root --set=root /" + markPath + "\nset prefix=($root)/boot/grub\nconfigfile /" + menuPath + "\n"

// mkimageWithin bounds grub-mkimage, which takes a moment.
const mkimageWithin = 30 * time.Second

// FindLoader looks for GRUB on this host. Problem tells what is missing. A rackd whose machines boot from the
// network needs none of it. The caller closes the loader.
func FindLoader(ctx context.Context) *Loader { return findLoader(ctx, "/") }

func findLoader(ctx context.Context, root string) *Loader {
	l := &Loader{problems: map[string]error{}}
	if err := l.uefi(root); err != nil {
		l.problems[UEFI] = fmt.Errorf("no GRUB for UEFI on rackd's host: install Debian's grub-efi-amd64-bin, or shim-signed and grub-efi-amd64-signed for secure boot: %w", err)
	}
	if err := l.biosImage(ctx, root); err != nil {
		l.problems[BIOS] = fmt.Errorf("no GRUB for BIOS on rackd's host: install Debian's grub-pc-bin and grub-common: %w", err)
	}
	return l
}

// Problem says why no image made here starts on a firmware; nil: it does. A nil loader is a rackd that boots no machines.
func (l *Loader) Problem(firmware string) error {
	if l == nil {
		return errors.New("this rackd boots no machines")
	}
	return l.problems[firmware]
}

// Signed reports whether UEFI starts images with secure boot on, by the keys that firmwares have from Microsoft.
func (l *Loader) Signed() bool { return l != nil && l.signed }

// Close closes the files of the boot loader. Images made before read no more of them.
func (l *Loader) Close() error {
	var errs []error
	for _, c := range l.opened {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// uefi lays out the FAT volume: shim and Debian's signed GRUB where both are there, else GRUB alone.
func (l *Loader) uefi(root string) (err error) {
	files, err := l.open(root, [2]string{"BOOTX64.EFI", shimFile}, [2]string{"GRUBX64.EFI", signedFile})
	if l.signed = err == nil; err != nil {
		if files, err = l.open(root, [2]string{"BOOTX64.EFI", unsignedFile}); err != nil {
			return err
		}
	}
	l.esp, err = fatVolume(files)
	return err
}

func (l *Loader) open(root string, named ...[2]string) (files []fatFile, err error) {
	for _, n := range named {
		f, c, err := OpenFile(filepath.Join(root, n[1]))
		if err != nil {
			return nil, err
		}
		l.opened = append(l.opened, c)
		files = append(files, fatFile{n[0], f})
	}
	return files, nil
}

// leastBIOS is the size of GRUB's image up to the place that bootImage writes to.
const leastBIOS = 2556

// hybridFile is GRUB's boot sector of an image of a CD that is shown as a disk.
const hybridFile = "boot_hybrid.img"

func (l *Loader) biosImage(ctx context.Context, root string) error {
	tool, err := exec.LookPath("grub-mkimage")
	if err != nil {
		return err
	}
	modules := filepath.Join(root, biosFolder)
	if _, err := os.Stat(filepath.Join(modules, "cdboot.img")); err != nil {
		return err
	}
	sector, err := os.ReadFile(filepath.Join(modules, hybridFile))
	if err != nil {
		return err
	}
	if len(sector) != block {
		return fmt.Errorf("%s has %d bytes, and a boot sector %d", filepath.Join(modules, hybridFile), len(sector), block)
	}
	dir, err := os.MkdirTemp("", "ironyard-grub-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config, out := filepath.Join(dir, "early.cfg"), filepath.Join(dir, "eltorito.img")
	if err := os.WriteFile(config, []byte(biosConfig), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mkimageWithin)
	defer cancel()
	args := slices.Concat([]string{"-d", modules, "-O", "i386-pc-eltorito", "-p", "/boot/grub", "-c", config, "-o", out}, biosModules)
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("grub-mkimage: %w: %s", err, strings.TrimSpace(said.String()))
	}
	image, err := os.ReadFile(out)
	if err == nil && len(image) < leastBIOS {
		err = fmt.Errorf("grub-mkimage made %d bytes, which are no image for a CD", len(image))
	}
	if err == nil {
		l.bios, l.mbr = image, sector
	}
	return err
}
