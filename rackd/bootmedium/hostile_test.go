package bootmedium

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// console is what a machine writes, safe for concurrent use.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}
func (c *console) String() string { c.mu.Lock(); defer c.mu.Unlock(); return c.text.String() }

// The last tenant's disk may look like a medium: it has the mark that GRUB looks for, and a configuration. The machine boots from the
// medium all the same, whatever is on its disk: else the ramdisk that is to erase the disk would be the disk's own system.
func TestADiskThatLooksLikeAMedium(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("it boots virtual machines: set IRONYARD_E2E=1")
	}
	l := FindLoader(t.Context())
	defer l.Close()
	for _, mode := range []string{UEFI, BIOS} {
		if err := l.Problem(mode); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	m, err := l.Image(Contents{Kernel: fileOf(random(100_000)), Ramdisk: fileOf(random(100_000))})
	if err != nil {
		t.Fatal(err)
	}
	medium, disk, tree := filepath.Join(dir, "medium.iso"), filepath.Join(dir, "disk.img"), filepath.Join(dir, "tree")
	f, err := os.Create(medium)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, io.NewSectionReader(m, 0, m.Size())); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{markPath: "Ironyard ramdisk\n", ".disk/mini-info": "x\n", menuPath: "echo 'OF THE DISK'\n", "boot/grub/x86_64-efi/grub.cfg": "echo 'OF THE DISK'\n"} {
		at := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, "xorriso", "-as", "mkisofs", "-quiet", "-R", "-o", disk, tree)
	if err := os.Truncate(disk, 64<<20); err != nil {
		t.Fatal(err)
	}
	const cd = "id=m,if=none,format=raw,readonly=on,file="
	for name, args := range map[string][]string{
		"UEFI, a CD":        {"-bios", "/usr/share/ovmf/OVMF.fd", "-drive", cd + medium, "-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=m,bootindex=0"},
		"UEFI, a USB stick": {"-bios", "/usr/share/ovmf/OVMF.fd", "-drive", cd + medium, "-device", "qemu-xhci", "-device", "usb-storage,drive=m,bootindex=0"},
		"BIOS, a CD":        {"-drive", cd + medium, "-device", "ide-cd,drive=m,bus=ide.1,bootindex=0"},
		"BIOS, a USB stick": {"-drive", cd + medium, "-device", "qemu-xhci", "-device", "usb-storage,drive=m,bootindex=0"},
	} {
		if strings.HasPrefix(name, "UEFI") && os.Getenv("IRONYARD_HARDWARE") == "" {
			continue // its firmware takes its time
		}
		t.Run(name, func(t *testing.T) {
			args = append(args, "-machine", "q35", "-m", "512", "-nographic", "-monitor", "none", "-serial", "stdio", "-no-reboot", "-nic", "none",
				"-drive", "id=d,if=none,format=raw,snapshot=on,file="+disk, "-device", "ide-hd,drive=d,bus=ide.2,bootindex=1")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var said console
			cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { cancel(); _ = cmd.Wait() }()
			for ctx.Err() == nil && !strings.Contains(said.String(), "from the medium") && !strings.Contains(said.String(), "OF THE DISK") {
				time.Sleep(100 * time.Millisecond)
			}
			if strings.Contains(said.String(), "OF THE DISK") {
				t.Error("the machine has booted what its disk says")
			}
			if ctx.Err() != nil {
				t.Errorf("it has booted nothing: %q", said.String())
			}
		})
	}
}
