package scenario

import (
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

// partitionImage deploys a Debian to a machine, rebuilds it and takes it down. Its first system says all of want on its console, and the
// second finds what the first has left.
func partitionImage(t *testing.T, name string, change func(*operator.Machine), want []string) {
	t.Helper()
	ctx := limit(t, 25*time.Minute)
	image, err := partitionimage.Build(ctx, partitionCache, partitionimage.Debian)
	if err != nil {
		t.Fatal(err)
	}
	served(t, image)
	o := theRack.Operator
	id := enrolled(ctx, t, name, change)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	info := map[string]any{"image_source": theRack.ImageURL(filepath.Base(image.Path)), "image_checksum": image.SHA256, "image_disk_format": "raw", "image_compression": "zstd",
		"image_type": "partition", "root_gb": 1, "swap_mb": 64, "ephemeral_gb": 1}
	instance := func(verb string) string {
		t.Helper()
		if err := o.Set(ctx, id, "/instance_info", info); err != nil {
			t.Fatal(err)
		}
		console := consoleFromNow(t, name)
		began := time.Now()
		if err := o.Ask(ctx, id, verb, map[string]any{"meta_data": map[string]any{"hostname": "part-instance"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(ctx, id, provision.Active); err != nil {
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
				t.Logf("%s: %s, %.0f s from the request to the instance's words", name, verb, time.Since(began).Seconds())
				return said.String()
			}
		}
	}
	said := instance("active")
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("the instance does not say %q:\n%s", w, said)
		}
	}
	info["preserve_ephemeral"] = true
	if said := instance("rebuild"); !strings.Contains(said, "kept by the first instance") {
		t.Errorf("the ephemeral partition did not survive the rebuild:\n%s", said)
	}
	undeployed(ctx, t, id)
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
