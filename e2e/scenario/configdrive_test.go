package scenario

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/initramfs"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Names of the files of an instance whose user space looks for its config drive by the label, as cloud-init does. Its kernel drives USB.
const (
	seekingKernel  = "seeking-kernel"
	seekingRamdisk = "seeking-ramdisk"
)

// seek is that user space, of busybox: findfs is what tells the label.
const seek = `#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
for m in $(/bin/busybox cat /modules.list); do /bin/busybox insmod $m; done
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
	dev=$(/bin/busybox findfs LABEL=config-2 2>/dev/null) && break
	/bin/busybox sleep 1
done
/bin/busybox mount -o ro $dev /config
echo "SEEKER-FOUND $dev user_data=$(/bin/busybox cat /config/openstack/latest/user_data) meta=$(/bin/busybox cat /config/openstack/latest/meta_data.json)"
while true; do /bin/busybox sleep 60; done
`

var found = regexp.MustCompile(`SEEKER-FOUND .*`)

// seeking makes the files of that instance, and returns its fields.
func seeking(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	fields := map[string]string{"kernel": theRack.ImageURL(seekingKernel), "ramdisk": theRack.ImageURL(seekingRamdisk), "ramdisk_kernel_arguments": "console=ttyS0"}
	if _, err := os.Stat(filepath.Join(imageFolder, seekingRamdisk)); err == nil {
		return fields
	}
	cache := filepath.Join(filepath.Dir(partitionCache), "kernel")
	kernel, err := debkernel.Fetch(ctx, cache, debkernel.Generic)
	if err != nil {
		t.Fatal(err)
	}
	shell, err := debkernel.File(ctx, cache, "busybox-static", "bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := kernel.Modules("xhci_pci", "usb_storage", "sd_mod", "isofs", "vfat", "nls_cp437", "nls_ascii", "nls_utf8")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := initramfs.NewWriter(&out)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"config", "dev", "proc", "sys"} {
		must(w.AddDir(dir, 0o755))
	}
	must(w.AddDevice("dev/console", initramfs.CharDevice, 0o600, 5, 1))
	must(w.AddFile("bin/busybox", 0o755, shell))
	must(w.AddFile("init", 0o755, []byte(seek)))
	var list strings.Builder
	for _, m := range modules {
		must(w.AddFile("lib/"+m.Name+".ko", 0o644, m.Data))
		fmt.Fprintf(&list, "/lib/%s.ko\n", m.Name)
	}
	must(w.AddFile("modules.list", 0o644, []byte(list.String())))
	must(w.Close())
	must(os.Symlink(kernel.Image, filepath.Join(imageFolder, seekingKernel)))
	must(os.WriteFile(filepath.Join(imageFolder, seekingRamdisk), out.Bytes(), 0o644))
	return fields
}

// An instance without a disk finds its config drive by the label, in a second virtual drive, of a USB stick or a floppy, at each boot: also
// when the rackd that has deployed it is gone. Its address ends with the instance. make hardware runs it.
func TestConfigDriveByMedium(t *testing.T) {
	hardwareOnly(t)
	for _, name := range []string{"bios-0", "uefi-0", "floppy-0", "floppy-1"} {
		t.Run(name, func(t *testing.T) { findsItsDrive(t, name) })
	}
}

func findsItsDrive(t *testing.T, name string) {
	ctx := limit(t, 8*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, name, func(m *operator.Machine) {
		m.Interfaces = map[string]string{"boot": "redfish-virtual-media", "deploy": "ramdisk"}
	})
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	for field, value := range seeking(ctx, t) {
		if err := o.Set(ctx, id, "/instance_info/"+field, value); err != nil {
			t.Fatal(err)
		}
	}
	drive := map[string]any{"meta_data": map[string]any{"hostname": "seeker"}, "user_data": "secret-" + name}
	finds := func(after string, act func() error) {
		t.Helper()
		console, began := consoleFromNow(t, name), time.Now()
		if err := act(); err != nil {
			t.Fatal(err)
		}
		line, err := console.Wait(ctx, found)
		if err != nil {
			t.Fatalf("after %s the instance does not say what it found: %v", after, err)
		}
		for _, want := range []string{"/dev/sd", "user_data=secret-" + name, `"hostname":"seeker"`, id} {
			if !strings.Contains(line, want) {
				t.Errorf("after %s it found %q, want %q in it", after, line, want)
			}
		}
		t.Logf("after %s it has its config drive %.1f s later: %s", after, time.Since(began).Seconds(), line)
	}
	finds("the deploy", func() error {
		if err := o.Ask(ctx, id, "active", drive); err != nil {
			return err
		}
		_, err := o.Wait(ctx, id, provision.Active)
		return err
	})
	alone(t)
	finds("a reboot", func() error { return o.Power(ctx, id, "rebooting") })
	at := second(name)
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: ns.DialContext, DisableKeepAlives: true}}
	read := func() int {
		t.Helper()
		resp, err := client.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := read(); got != http.StatusOK {
		t.Errorf("the config drive is answered with %d", got)
	}
	undeployed(ctx, t, id)
	empty(t, name)
	if got := read(); got != http.StatusNotFound {
		t.Errorf("after the instance its config drive is answered with %d", got)
	}
}
