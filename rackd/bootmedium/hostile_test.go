package bootmedium

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// console is what a machine writes, safe for concurrent use.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // takes one when there is more
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
	return c.text.Write(p)
}

// String is the text without what moves the cursor: a slow machine's SeaBIOS does so within words.
func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cursor.ReplaceAllString(c.text.String(), "")
}

// cursor are a terminal's control sequences (ECMA-48).
var cursor = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// machineWithin bounds how long a machine takes to say what it is to say, beside others on few processors.
const machineWithin = 5 * time.Minute

// consoleOf starts a machine of QEMU and returns what it has said when it has said one of the words, is off or has taken too long.
func consoleOf(t *testing.T, args []string, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), machineWithin)
	defer cancel()
	said := console{more: make(chan struct{}, 1)}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	defer func() { cancel(); <-ended }()
	for !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said.String(), word) }) {
		select {
		case <-said.more:
		case <-ended:
			return said.String()
		}
	}
	return said.String()
}

// inFile writes an image into a file.
func inFile(t *testing.T, m *Image) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "medium.iso")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, io.NewSectionReader(m, 0, m.Size())); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// ofTheDisk is what a machine says that has taken its configuration from lookalike.
const ofTheDisk = "OF THE DISK"

// lookalike is a disk that looks like a medium: it has the mark that GRUB looks for, and a configuration.
func lookalike(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	disk, tree := filepath.Join(dir, "disk.img"), filepath.Join(dir, "tree")
	for name, text := range map[string]string{markPath: "Ironyard ramdisk\n", ".disk/mini-info": "x\n", menuPath: "echo '" + ofTheDisk + "'\n", "boot/grub/x86_64-efi/grub.cfg": "echo '" + ofTheDisk + "'\n"} {
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
	return disk
}

// machineWith are QEMU's arguments for a machine with such a disk.
func machineWith(disk string, more ...string) []string {
	return append(more, "-m", "512", "-nographic", "-monitor", "none", "-serial", "stdio", "-no-reboot", "-nic", "none",
		"-drive", "id=d,if=none,format=raw,snapshot=on,file="+disk, "-device", "ide-hd,drive=d,bus=ide.2,bootindex=1")
}

// drive is the argument of a drive with a medium.
const drive = "id=m,if=none,format=raw,readonly=on,file="

// The last tenant's disk may look like a medium. The machine boots from the medium all the same, whatever is on its disk: else the ramdisk
// that is to erase the disk would be the disk's own system.
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
	m, err := l.Image(Contents{Kernel: fileOf(random(100_000)), Ramdisk: fileOf(random(100_000))})
	if err != nil {
		t.Fatal(err)
	}
	medium, disk := inFile(t, m), lookalike(t)
	for name, args := range map[string][]string{
		"UEFI, a CD":        {"-bios", "/usr/share/ovmf/OVMF.fd", "-drive", drive + medium, "-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=m,bootindex=0"},
		"UEFI, a USB stick": {"-bios", "/usr/share/ovmf/OVMF.fd", "-drive", drive + medium, "-device", "qemu-xhci", "-device", "usb-storage,drive=m,bootindex=0"},
		"BIOS, a CD":        {"-drive", drive + medium, "-device", "ide-cd,drive=m,bus=ide.1,bootindex=0"},
		"BIOS, a USB stick": {"-drive", drive + medium, "-device", "qemu-xhci", "-device", "usb-storage,drive=m,bootindex=0"},
	} {
		if strings.HasPrefix(name, "UEFI") && os.Getenv("IRONYARD_HARDWARE") == "" {
			continue // its firmware takes its time
		}
		t.Run(name, func(t *testing.T) {
			switch said := consoleOf(t, machineWith(disk, append(args, "-machine", "q35")...), fromTheMedium, ofTheDisk); {
			case strings.Contains(said, ofTheDisk):
				t.Error("the machine has booted what its disk says")
			case !strings.Contains(said, fromTheMedium):
				t.Errorf("it has booted nothing: %q", said)
			}
		})
	}
}

// fromTheMedium is what GRUB says of a medium's configuration.
const fromTheMedium = "Ironyard: loading kernel and ramdisk from the medium"
