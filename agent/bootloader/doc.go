// Package bootloader makes a disk boot whose root partition holds a partition image: it puts the image's boot loader where the
// firmware looks for it.
//
// It may import agent/confine, agent/esp and agent/filesystem. On UEFI the image's own loaders are copied to the EFI system
// partition. If it brings none, and on BIOS, the image's GRUB is installed by the image's own programs, confined. Invariants: what is
// mounted is unmounted, whatever happens; nothing of the image is followed out of it; what was written is read back after it was
// unmounted. Sources: ironic-python-agent's image extension for what is done; shim's README.fallback; GRUB's manual.
package bootloader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/confine"
	"github.com/ironyard/ironyard/agent/filesystem"
)

// bound is how long a program of an image may take.
const bound = 30 * time.Minute

// Disk is a disk that a partition image was written to.
type Disk struct {
	Device string // of the disk
	Root   string // of the root partition
	ESP    string // of the EFI system partition; empty on BIOS
	// RootFS is what is on the root partition, and ESPUUID the EFI system partition's name.
	RootFS  filesystem.Found
	ESPUUID string
}

// CannotError says why the image cannot be made to boot.
type CannotError struct{ Reason string }

func (e *CannotError) Error() string { return "the image cannot be made to boot: " + e.Reason }

// FaultType names the error as ironic-python-agent does.
func (*CannotError) FaultType() string { return "CommandExecutionError" }

func cannot(format string, args ...any) error { return &CannotError{fmt.Sprintf(format, args...)} }

// Install makes the disk boot and returns what it did, for people. The disk's file systems are not mounted before and after.
func Install(ctx context.Context, log *slog.Logger, d Disk) (said string, err error) {
	before := map[string]sum{}
	err = Mounted(d.Root, d.RootFS.Kind, false, func(dir string) error {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		i := &installation{log: log, disk: d, dir: dir, root: root}
		if d.ESP == "" {
			said, err = i.bios(ctx)
		} else {
			said, err = i.uefi(ctx)
		}
		if err != nil {
			return err
		}
		return sums(root, before)
	})
	if err != nil {
		return "", err
	}
	after := map[string]sum{}
	err = Mounted(d.Root, d.RootFS.Kind, true, func(dir string) error {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		return sums(root, after)
	})
	if err != nil {
		return "", fmt.Errorf("reading back what was written: %w", err)
	}
	return said, same("the root partition", before, after)
}

// Mounted calls do with the folder where the device is mounted meanwhile. When it returns, all is on the device, and the device
// is free.
func Mounted(device string, kind filesystem.Kind, readOnly bool, do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	flags := uintptr(unix.MS_NODEV | unix.MS_NOSUID)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount(device, dir, string(kind), flags, ""); err != nil {
		return fmt.Errorf("mounting %s as %s: %w", device, kind, err)
	}
	defer func() {
		if uerr := unix.Unmount(dir, 0); uerr != nil {
			err = errors.Join(err, fmt.Errorf("unmounting %s: %w", device, uerr))
		}
	}()
	if err := do(dir); err != nil {
		return err
	}
	return syncFS(dir)
}

// syncFS returns when the file system at dir is on its device, or with the error of a write that failed.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("writing out the file system: %w", err)
	}
	return nil
}

// installation is the work on one mounted image.
type installation struct {
	log  *slog.Logger
	disk Disk
	dir  string // where the root partition is mounted
	root *os.Root
}

// run runs a program of the image, which sees the disk and its partitions.
func (i *installation) run(ctx context.Context, command ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("it did not end in %v", bound))
	defer cancel()
	devices := []string{i.disk.Device, i.disk.Root}
	links := map[string]string{"/dev/disk/by-uuid/" + i.disk.RootFS.UUID: "../../" + filepath.Base(i.disk.Root)}
	if i.disk.ESP != "" {
		devices = append(devices, i.disk.ESP)
		links["/dev/disk/by-uuid/"+i.disk.ESPUUID] = "../../" + filepath.Base(i.disk.ESP)
	}
	i.log.Info("running a program of the image", "command", command)
	return confine.Run(ctx, confine.Job{Root: i.dir, Devices: devices, Links: links, Command: command,
		Env: []string{"GRUB_DISABLE_OS_PROBER=true", "GRUB_SAVEDEFAULT=true"}})
}

// grub is the image's GRUB: distributions call it grub or grub2.
type grub struct {
	install, mkconfig string // paths; empty if it is not there
	folder            string // of its files, below the root
}

func (i *installation) grub() grub {
	for _, name := range []string{"grub2", "grub"} {
		g := grub{confine.Lookup(i.root, name+"-install"), confine.Lookup(i.root, name+"-mkconfig"), "boot/" + name}
		if g.install != "" || g.mkconfig != "" {
			return g
		}
	}
	return grub{folder: "boot/grub"}
}

// configure has GRUB's configuration made again: the image was made on another disk.
func (i *installation) configure(ctx context.Context, g grub) error {
	if g.mkconfig == "" {
		return nil
	}
	if err := i.root.MkdirAll(g.folder, 0o755); err != nil {
		return err
	}
	return i.run(ctx, g.mkconfig, "-o", "/"+g.folder+"/grub.cfg")
}

func (i *installation) bios(ctx context.Context) (string, error) {
	g := i.grub()
	if g.install == "" {
		return "", cannot("the machine boots by BIOS, and the image has neither grub-install nor grub2-install: install GRUB for BIOS in the image, use a whole-disk image, or boot mode uefi")
	}
	if err := i.run(ctx, g.install, "--target=i386-pc", i.disk.Device); err != nil {
		return "", err
	}
	if err := i.configure(ctx, g); err != nil {
		return "", err
	}
	return fmt.Sprintf("the image's GRUB is installed for BIOS on %s", i.disk.Device), nil
}

// fstab is the table of file systems below the image's root.
const fstab = "etc/fstab"

// maxFstab is how long it may be, in bytes.
const maxFstab = 1 << 20

// openRegular opens a file of the image. A pipe in its place is not waited for, and what is longer than most bytes is refused.
func openRegular(root *os.Root, name string, most int64) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = cannot("its /%s is no file", name)
	case st.Size() > most:
		err = cannot("its /%s has %d bytes; at most %d are read", name, st.Size(), most)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// addToFstab adds the EFI system partition to the image's table of file systems, unless that has a line for it.
func (i *installation) addToFstab() error {
	f, err := openRegular(i.root, fstab, maxFstab)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the image mounts nothing
	}
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("reading %s: %w", fstab, err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && !strings.HasPrefix(f[0], "#") && f[1] == "/boot/efi" {
			return nil
		}
	}
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		raw = append(raw, '\n')
	}
	raw = fmt.Appendf(raw, "UUID=%s\t/boot/efi\tvfat\tumask=0077\t0\t1\n", i.disk.ESPUUID)
	return i.root.WriteFile(fstab, raw, 0o644)
}
