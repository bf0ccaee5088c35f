package ramdisk_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/paramdisk"
)

// TestParametersOfASecondMedium boots a ramdisk whose command line names no rackd. It finds the parameters on a USB stick, and calls.
// A disk of the machine that looks like that stick is not believed. Set IRONYARD_E2E=1.
func TestParametersOfASecondMedium(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots the ramdisk in QEMU; set IRONYARD_E2E=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	disk := func(name string, words []string) string {
		image, err := paramdisk.Image(words)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	built := agentvm.Build(t, debkernel.Generic)
	vm := agentvm.Boot(ctx, t, built, agentvm.Hardware{Mode: "bios", NIC: "e1000e",
		Drives: []string{"-drive", "if=none,id=d,format=raw,file=" + disk("former", []string{"ipa-api-url=https://evil.example"}), "-device", "ide-hd,drive=d"},
		Parameters: func(words []string) (args []string, line string) {
			return []string{"-drive", "if=none,id=p,format=raw,readonly=on,file=" + disk("stick", words), "-device", "qemu-xhci,id=usb", "-device", "usb-storage,bus=usb.0,drive=p,removable=on"}, "boot_method=vmedia"
		}}, nil)
	t.Logf("first heartbeat after %.1f s", time.Since(vm.Began).Seconds())
	if console := vm.Console(t); !strings.Contains(console, "parameters read from a second medium") || strings.Contains(console, "evil.example") {
		t.Errorf("console:\n%s", console)
	}
	var inv agentapi.Inventory
	c := vm.Run(ctx, agentapi.CmdGetInventory, nil)
	if err := json.Unmarshal(c.Result, &inv); err != nil {
		t.Fatal(err)
	}
	for _, d := range inv.Disks {
		if d.Name != "/dev/sda" {
			t.Errorf("the stick counts as a disk of the machine: %+v", d)
		}
	}
}
