package scenario

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/partitionimage"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A real Debian that comes as a partition image is deployed by a request of Ironic's fields and boots by BIOS from the disk that was
// laid out for it. It is rebuilt, and finds what the first instance has left on the ephemeral partition.
func TestPartitionImage(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("writes a real Debian twice; set IRONYARD_HARDWARE=1")
	}
	partitionImage(t, "part-0", nil, []string{"firmware bios", "root /dev/vda4 ext4", "root=UUID=", "label ephemeral0 /dev/vda1 ext4", "label swap1 /dev/vda2 swap", "part-instance"})
}

// A small system as a partition image is deployed by a request of Ironic's fields, by BIOS and by UEFI. As with a whole Debian, the image's
// own GRUB is installed by the image's own programs, and its instance boots from the disk that was laid out for it. By UEFI it is rebuilt,
// and finds what the first instance has left on the ephemeral partition.
func TestSmallPartitionImage(t *testing.T) {
	for name, want := range map[string]struct{ console, history []string }{
		"part-0": {
			[]string{"firmware bios", "root /dev/vda4 ext4", "label ephemeral0 /dev/vda1 ext4", "label swap1 /dev/vda2 swap"},
			[]string{"the image's GRUB is installed for BIOS on /dev/vda"}},
		"part-1": {
			[]string{"firmware uefi", "root /dev/vda5 ext4", "label efi-part /dev/vda1 vfat", "label ephemeral0 /dev/vda2 ext4", "label swap1 /dev/vda3 swap", "\t/boot/efi\tvfat\tumask=0077", "/EFI/BOOT/BOOTX64.EFI"},
			[]string{"the image's GRUB is installed for UEFI", `starts \EFI\BOOT\BOOTX64.EFI on partition 1 of /dev/vda`}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, 15*time.Minute)
			image, err := partitionimage.BuildSmall(ctx, partitionCache, kernelCache)
			if err != nil {
				t.Fatal(err)
			}
			i := asPartition(ctx, t, name, nil, image)
			said := i.words(ctx, t, "active")
			for _, w := range append(want.console, "root=UUID="+partitionimage.SmallUUID+" ", "init=/sbin/ironyard-mark", "label config-2", "part-instance") {
				if !strings.Contains(said, w) {
					t.Errorf("the instance does not say %q:\n%s", w, said)
				}
			}
			history := historyOf(ctx, t, i.id)
			for _, w := range want.history {
				if !strings.Contains(history, w) {
					t.Errorf("the history does not say %q:\n%s", w, history)
				}
			}
			if name == "part-1" {
				i.rebuilt(ctx, t)
			}
			undeployed(ctx, t, i.id)
		})
	}
}

// rebuilt has a node's second instance find what the first has left on the ephemeral partition.
func (i partitioned) rebuilt(ctx context.Context, t *testing.T) {
	t.Helper()
	i.info["preserve_ephemeral"] = true
	if said := i.words(ctx, t, "rebuild"); !strings.Contains(said, "kept by the first instance") {
		t.Errorf("the ephemeral partition did not survive the rebuild:\n%s", said)
	}
}

// partitionImage deploys a Debian to a machine, rebuilds it and takes it down. Its first system says all of want on its console, and the
// second finds what the first has left.
func partitionImage(t *testing.T, name string, change func(*operator.Machine), want []string) {
	t.Helper()
	ctx := limit(t, 25*time.Minute)
	image, err := partitionimage.Build(ctx, partitionCache, partitionimage.Debian)
	if err != nil {
		t.Fatal(err)
	}
	i := asPartition(ctx, t, name, change, image)
	said := i.words(ctx, t, "active")
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("the instance does not say %q:\n%s", w, said)
		}
	}
	i.rebuilt(ctx, t)
	undeployed(ctx, t, i.id)
}

// partitioned is a node whose instance comes as a partition image.
type partitioned struct {
	name, id string
	info     map[string]any
}

// asPartition enrols a machine and makes it available, for an instance with an ephemeral partition and swap beside its root.
func asPartition(ctx context.Context, t *testing.T, name string, change func(*operator.Machine), image partitionimage.Image) partitioned {
	t.Helper()
	served(t, image)
	id := enrolled(ctx, t, name, change)
	if err := theRack.Operator.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	info := partitionFields(image)
	info["root_gb"], info["swap_mb"], info["ephemeral_gb"] = 1, 64, 1
	return partitioned{name, id, info}
}

// words asks for a deploy and returns what its instance says.
func (i partitioned) words(ctx context.Context, t *testing.T, verb string) string {
	t.Helper()
	o := theRack.Operator
	if err := o.Set(ctx, i.id, "/instance_info", i.info); err != nil {
		t.Fatal(err)
	}
	console := consoleFromNow(t, i.name)
	began := time.Now()
	if err := o.Ask(ctx, i.id, verb, map[string]any{"meta_data": map[string]any{"hostname": "part-instance"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, i.id, provision.Active); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for {
		line, err := console.Wait(ctx, regexp.MustCompile(partitionimage.Mark+".*"))
		if err != nil {
			t.Fatalf("no instance on the console: %v\n%s", err, said.String())
		}
		said.WriteString(line + "\n")
		if strings.Contains(line, partitionimage.Up) {
			t.Logf("%s: %s, %.0f s from the request to the instance's words", i.name, verb, time.Since(began).Seconds())
			return said.String()
		}
	}
}

// partitionFields are the fields of an instance that is a partition image, but for the sizes of its partitions.
func partitionFields(image partitionimage.Image) map[string]any {
	return map[string]any{"image_source": theRack.ImageURL(filepath.Base(image.Path)), "image_checksum": image.SHA256, "image_disk_format": "raw", "image_compression": "zstd",
		"image_type": "partition"}
}

// served puts an image where the rack gets its images from.
func served(t *testing.T, image partitionimage.Image) {
	t.Helper()
	at := filepath.Join(imageFolder, filepath.Base(image.Path))
	if err := os.Symlink(image.Path, at); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
}

// A partition image whose instance asks for netboot gets no boot loader. Its kernel and its ramdisk come by the network at each start,
// by BIOS and by UEFI. They mount the root partition that was written.
func TestPartitionImageByNetwork(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("writes a real Debian; set IRONYARD_HARDWARE=1")
	}
	image, err := partitionimage.Build(limit(t, 25*time.Minute), partitionCache, partitionimage.Debian)
	if err != nil {
		t.Fatal(err)
	}
	served(t, image)
	kernel, initramfs, err := partitionimage.BootFiles(partitionCache)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(imageFolder, "part.kernel"), kernel, 0o644), os.WriteFile(filepath.Join(imageFolder, "part.initramfs"), initramfs, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	info := map[string]any{"image_source": theRack.ImageURL(filepath.Base(image.Path)), "image_checksum": image.SHA256, "image_disk_format": "raw", "image_compression": "zstd",
		"root_gb": 1, "kernel": theRack.ImageURL("part.kernel"), "ramdisk": theRack.ImageURL("part.initramfs"),
		"ramdisk_kernel_arguments": "console=ttyS0,115200 quiet init=/sbin/ironyard-mark", "capabilities": map[string]any{"boot_option": "netboot"}}
	for _, name := range []string{"part-0", "part-1"} {
		t.Run(name, func(t *testing.T) {
			ctx, o := limit(t, 20*time.Minute), theRack.Operator
			id := enrolled(ctx, t, name, nil)
			if err := o.MakeAvailable(ctx, id); err != nil {
				t.Fatal(err)
			}
			if err := o.Set(ctx, id, "/instance_info", info); err != nil {
				t.Fatal(err)
			}
			instance := func(start func() error) {
				t.Helper()
				console := consoleFromNow(t, name)
				if err := start(); err != nil {
					t.Fatal(err)
				}
				line, err := console.Wait(ctx, regexp.MustCompile(partitionimage.Mark+"(cmdline.*|up)"))
				if err != nil {
					t.Fatalf("no instance on the console: %v", err)
				}
				if !strings.Contains(line, "root=UUID=") || !strings.Contains(line, "ironyard-mark") || strings.Contains(line, "BOOT_IMAGE=/") {
					t.Errorf("the instance's kernel was started with %s", line)
				}
				if _, err := console.Wait(ctx, regexp.MustCompile(partitionimage.Up)); err != nil {
					t.Fatal(err)
				}
			}
			instance(func() error { return o.Ask(ctx, id, "active", nil) })
			if _, err := o.Wait(ctx, id, provision.Active); err != nil {
				t.Fatal(err)
			}
			instance(func() error { return o.Power(ctx, id, "rebooting") })
			undeployed(ctx, t, id)
		})
	}
}
