package testimage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/initramfs"
)

const (
	module      = "github.com/ironyard/ironyard"
	initPackage = module + "/ops/virtual/testimage/init"
)

// modules are what the instance needs of its kernel: the disk, the file systems of
// config drives with their character sets, the power button, and what firmware tells
// of an iSCSI disk that it boots from.
var modules = []string{"virtio_pci", "virtio_blk", "isofs", "vfat", "nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8", "button", "evdev", "iscsi_ibft"}

// readInit returns the program that becomes process 1: the given one, or one built
// from this project's source for an architecture.
func readInit(ctx context.Context, given, arch, scratch string) ([]byte, error) {
	if given == "" {
		given = filepath.Join(scratch, "init")
		if err := compile(ctx, arch, given); err != nil {
			return nil, err
		}
	}
	data, err := os.ReadFile(given)
	if err != nil {
		return nil, fmt.Errorf("reading the image's init: %w", err)
	}
	return data, nil
}

// compile builds the init so that its bytes depend on the source and the compiler
// alone: no paths, no build id, no mention of the commit.
func compile(ctx context.Context, arch, to string) error {
	root, err := goCommand(ctx, "", arch, "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return fmt.Errorf("finding the source of the image's init (run inside the project's folder, or give Options.Init): %w", err)
	}
	_, err = goCommand(ctx, strings.TrimSpace(root), arch, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", to, initPackage)
	if err != nil {
		return fmt.Errorf("building the image's init: %w", err)
	}
	return nil
}

func goCommand(ctx context.Context, dir, arch string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// packInitramfs makes the instance's whole user space. Init loads the modules in
// the order of /modules.list.
func packInitramfs(init []byte, kernel debkernel.Kernel) ([]byte, error) {
	files, err := kernel.Modules(modules...)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, err := initramfs.Compress(&out, initramfs.Zstd)
	if err != nil {
		return nil, err
	}
	w := initramfs.NewWriter(z)
	for _, dir := range []string{"config", "dev", "proc", "sys"} {
		if err := w.AddDir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	// The kernel gives process 1 this console before devtmpfs is there.
	if err := w.AddDevice("dev/console", initramfs.CharDevice, 0o600, 5, 1); err != nil {
		return nil, err
	}
	if err := w.AddFile("init", 0o755, init); err != nil {
		return nil, err
	}
	var list strings.Builder
	for _, f := range files {
		target := "/lib/modules/" + kernel.Version + "/" + f.Target
		if err := w.AddFile(target, 0o644, f.Data); err != nil {
			return nil, err
		}
		fmt.Fprintln(&list, target)
	}
	if err := w.AddFile("modules.list", 0o644, []byte(list.String())); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
