package pythonagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/rack"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/testimage"
)

// Of the machines. The ramdisk takes most of the memory; on a smaller disk the agent writes
// no image.
const (
	memoryMiB = 3072
	diskMiB   = 4608
)

var (
	theRack *rack.Rack
	images  testimage.Images
)

func TestMain(m *testing.M) {
	ramdisk := os.Getenv("IRONYARD_PYTHON_AGENT")
	if os.Getenv("IRONYARD_E2E") == "" || ramdisk == "" {
		fmt.Println("not run: ironic-python-agent on a virtual machine (set IRONYARD_E2E=1 and IRONYARD_PYTHON_AGENT to the folder of its ramdisk)")
		os.Exit(0)
	}
	code, err := run(m, ramdisk)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the virtual rack:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, ramdisk string) (code int, err error) {
	dir, err := os.MkdirTemp("", "ironyard-python-")
	if err != nil {
		return 1, err
	}
	ctx := context.Background()
	o, err := prepare(ctx, dir, ramdisk)
	if err != nil {
		return 1, err
	}
	err = rack.Run(ctx, o, func(_ context.Context, r *rack.Rack) error {
		theRack = r
		code = m.Run()
		return nil
	})
	err = errors.Join(err, rack.Down(ctx, dir))
	if code == 0 && err == nil {
		return 0, os.RemoveAll(dir)
	}
	fmt.Println("kept for a look:", dir)
	return code, err
}

func prepare(ctx context.Context, dir, ramdisk string) (rack.Options, error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return rack.Options{}, err
	}
	cache := os.Getenv("IRONYARD_CACHE")
	if cache == "" {
		cache = filepath.Join(root, ".cache")
	}
	log, err := os.Create(filepath.Join(dir, "central.log"))
	if err != nil {
		return rack.Options{}, err
	}
	o := rack.Options{Name: "python", Dir: dir, Listen: "127.0.0.1:0", Rackd: filepath.Join(root, "bin", "rackd"),
		Images: filepath.Join(dir, "images"), APIInside: true, Log: slog.New(slog.NewTextHandler(log, nil)),
		Kernel: filepath.Join(ramdisk, "kernel"), Ramdisk: filepath.Join(ramdisk, "initramfs"),
		// Overwriting a whole disk under software emulation takes longer than everything else.
		RackdArgs: []string{"--ansible-dir", filepath.Join(dir, "ansible"), "--clean-priority", "deploy.erase_devices=0", "--kernel-params", "console=tty0 console=ttyS0,115200 ipa-insecure=1 ipa-debug=1 ipa-inspection-collectors=default,logs"},
		Machines:  []machine.Config{{Name: "uefi-0", Firmware: machine.UEFI, MemoryMiB: memoryMiB, DiskMiB: diskMiB}, {Name: "bios-0", Firmware: machine.BIOS, MemoryMiB: memoryMiB, DiskMiB: diskMiB}}}
	images, err = testimage.Build(ctx, testimage.Options{CacheDir: filepath.Join(cache, "kernel"), OutDir: filepath.Join(cache, "image")})
	if err != nil {
		return o, err
	}
	if err := os.Mkdir(o.Images, 0o755); err != nil {
		return o, err
	}
	if err := playbooks(filepath.Join(dir, "ansible"), ramdisk, o.Images); err != nil {
		return o, err
	}
	return o, os.Symlink(images.QCOW2.Path, filepath.Join(o.Images, filepath.Base(images.QCOW2.Path)))
}

// limit bounds a test's waiting: under software emulation the ramdisk boots for minutes.
func limit(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, fmt.Errorf("not within %s", d))
	t.Cleanup(cancel)
	return ctx
}

// enrolled enrols a machine; its node is left for a look when the test has failed.
func enrolled(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	m, err := theRack.Enrolment(name)
	if err != nil {
		t.Fatal(err)
	}
	m.Clean = true
	id, err := theRack.Operator.Enrol(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			if err := theRack.Operator.Delete(context.Background(), id); err != nil {
				t.Errorf("delete node %s: %v", name, err)
			}
		}
	})
	return id
}

func qcow2() operator.Image {
	return operator.Image{URL: theRack.ImageURL(filepath.Base(images.QCOW2.Path)), SHA256: images.QCOW2.SHA256, DiskFormat: "qcow2"}
}
