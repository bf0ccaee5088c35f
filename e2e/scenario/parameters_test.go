package scenario

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/protocol/provision"
)

// fixedImage is the name of an operator's image of a ramdisk that knows no rackd.
const fixedImage = "fixed.iso"

// madeFixed makes that image by grub-mkrescue. Its kernel drives USB.
func madeFixed(ctx context.Context, t *testing.T) {
	t.Helper()
	dir, out := t.TempDir(), t.TempDir()
	built, err := ramdisk.Build(ctx, ramdisk.Options{KernelPackage: debkernel.Generic, CacheDir: filepath.Join(filepath.Dir(partitionCache), "kernel"), OutDir: out})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "boot/grub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"kernel": built.Kernel, "ramdisk": built.Initramfs} {
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	config := "linux /kernel console=ttyS0 panic=10 boot_method=vmedia\ninitrd /ramdisk\nboot\n"
	if err := os.WriteFile(filepath.Join(dir, "boot/grub/grub.cfg"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, "grub-mkrescue", "-o", filepath.Join(imageFolder, fixedImage), dir).CombinedOutput(); err != nil {
		t.Fatalf("grub-mkrescue: %v: %s", err, out)
	}
}

// second is what a machine's BMC has in its drive for a second medium. Those of floppy-0 and floppy-1 have one of a floppy for it.
func second(name string) (image string) {
	if strings.HasPrefix(name, "floppy-") {
		return theRack.BMC(name).InsertedFloppy()
	}
	return theRack.BMC(name).InsertedStick()
}

// A ramdisk in an operator's image knows no rackd. It finds the parameters of its boot in a second virtual drive, and deploys: on a USB
// stick, on a floppy beside a CD, and on a floppy beside the stick that it boots from. The medium and its address go with the ramdisk.
// make hardware runs it.
func TestDeployByAnImageWithParameters(t *testing.T) {
	hardwareOnly(t)
	madeFixed(t.Context(), t)
	for _, name := range []string{"uefi-0", "floppy-0", "floppy-1"} {
		t.Run(name, func(t *testing.T) { deploysByParameters(t, name) })
	}
}

func deploysByParameters(t *testing.T, name string) {
	ctx := limit(t, 10*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, name, func(m *operator.Machine) { m.Interfaces = map[string]string{"boot": "redfish-virtual-media"} })
	for field, value := range map[string]any{"deploy_iso": theRack.ImageURL(fixedImage), "config_via_removable": true, "kernel_append_params": "ipa-debug=1"} {
		if err := o.Set(ctx, id, "/driver_info/"+field, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	console, began := consoleFromNow(t, name), time.Now()
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	line, err := console.Wait(ctx, regexp.MustCompile(`parameters read from a second medium.*`))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(line, "/dev/sd") {
		t.Errorf("the agent says %q", line)
	}
	t.Logf("%.0f s after the request: %s", time.Since(began).Seconds(), strings.TrimSpace(line))
	at := second(name)
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: ns.DialContext, DisableKeepAlives: true}}
	read := func() (int, []byte) {
		t.Helper()
		resp, err := client.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b
	}
	status, disk := read()
	path := filepath.Join(t.TempDir(), "parameters.img")
	if err := os.WriteFile(path, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(ctx, "mtype", "-i", path, "::parameters.txt").CombinedOutput()
	if err != nil || status != http.StatusOK || !bytes.Contains(said, []byte("ironyard-node="+id)) || !bytes.Contains(said, []byte("ipa-debug=1\n")) {
		t.Errorf("the medium is answered with %d, and mtype reads %q, %v", status, said, err)
	}
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is active after %.0f s", name, time.Since(began).Seconds())
	empty(t, name)
	if status, _ := read(); status != http.StatusNotFound {
		t.Errorf("after the deploy the medium's address is answered with %d", status)
	}
	undeployed(ctx, t, id)
	empty(t, name)
}
