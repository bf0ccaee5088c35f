package diskimage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

const (
	// memory and processor bound one run of qemu-img: bytes of address space, as Ironic has it, and seconds. To measure an image is to
	// read its tables: the few that take longer are made to.
	memory    = 2 << 30
	processor = 3600
	measuring = 120
	// slack is added to what qemu-img says that it will write, in bytes.
	slack = 16 << 20
	// unprivileged is the user and group that qemu-img runs as where rackd is root.
	unprivileged = 65534
	// maxSaid bounds what is kept of the program's output.
	maxSaid = 64 << 10
)

// converter makes qcow2 of a foreign format. It implements imagecache.Maker.
type converter struct{ from diskformat.Info }

// drivers of QEMU, with the options that leave it nothing to guess.
var drivers = map[string]string{
	diskformat.VMDK: "driver=vmdk",
	diskformat.VHD:  "driver=vpc,force_size_calc=current_size",
	diskformat.VHDX: "driver=vhdx",
	diskformat.VDI:  "driver=vdi",
}

// input names the first file that is handed to qemu-img; output the second. By these names a process opens them without a
// way through the cache's folder, which is root's alone.
const (
	input  = "/proc/self/fd/3"
	output = "/proc/self/fd/4"
)

func (c converter) source() string {
	return drivers[c.from.Format] + ",read-only=on,file.driver=file,file.locking=off,file.filename=" + input
}

// Way implements imagecache.Maker.
func (c converter) Way() string { return c.from.Format + "-qcow2" }

// Need implements imagecache.Maker.
func (c converter) Need(ctx context.Context, in *os.File, _ int64) (int64, error) {
	if c.from.Format == diskformat.VMDK { // of a file that was cut off it reads zeros, and its other drivers refuse such
		if _, err := c.run(ctx, 0, []*os.File{in}, "check", "--image-opts", c.source()); err != nil {
			return 0, err
		}
		info, err := in.Stat()
		if err != nil {
			return 0, fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
		}
		if err := vmdkWhole(in, info.Size()); err != nil {
			return 0, err
		}
	}
	text, err := c.run(ctx, 0, []*os.File{in}, "measure", "--output=json", "-O", "qcow2", "--image-opts", c.source())
	if err != nil {
		return 0, err
	}
	var said struct {
		Required int64 `json:"required"`
	}
	if err := json.Unmarshal(text, &said); err != nil || said.Required <= 0 {
		return 0, fmt.Errorf("measure an image of format %s: qemu-img said %.200q", c.from.Format, text)
	}
	return said.Required + slack, nil
}

// Make implements imagecache.Maker.
func (c converter) Make(ctx context.Context, in, out *os.File, most int64) error {
	if err := out.Chmod(0o666); err != nil {
		return fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
	}
	// One piece after the other: the same image gives the same file.
	_, err := c.run(ctx, most, []*os.File{in, out}, "convert", "-m", "1", "-O", "qcow2", "-o", "compat=1.1", "--image-opts", c.source(), output)
	if chmod := out.Chmod(0o600); err == nil {
		err = chmod
	}
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
	}
	made, err := diskformat.Inspect(out, info.Size())
	if err != nil {
		return fmt.Errorf("convert an image of format %s: what qemu-img wrote is unusable: %w", c.from.Format, err)
	}
	if made.Format != diskformat.QCOW2 || made.Bytes != c.from.Bytes {
		return fmt.Errorf("%w: converting it from %s gives a disk of %d bytes, and its headers tell of %d", ErrRefused, c.from.Format, made.Bytes, c.from.Bytes)
	}
	return nil
}

// run runs qemu-img with files as its descriptors 3 and on, and with at most that many bytes written to a file.
func (c converter) run(ctx context.Context, most int64, files []*os.File, args ...string) ([]byte, error) {
	program, err := exec.LookPath("qemu-img")
	if err != nil {
		return nil, fmt.Errorf("%w: its format %s has to be converted, and the host of this rackd has no qemu-img (Debian package qemu-utils); install it, or give a raw or qcow2 image", ErrRefused, c.from.Format)
	}
	// The folder around the files is root's alone; the program runs as another user.
	if err := files[0].Chmod(0o644); err != nil {
		return nil, fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
	}
	seconds := processor
	if most == 0 { // it writes nothing
		seconds = measuring
	}
	bounds := []string{"--as=" + strconv.Itoa(memory), "--cpu=" + strconv.Itoa(seconds), "--fsize=" + strconv.FormatInt(most, 10), "--core=0", "--nofile=256", "--", program}
	start := func(flags uintptr) ([]byte, []byte, error) {
		cmd := exec.CommandContext(ctx, "prlimit", append(bounds, args...)...)
		cmd.ExtraFiles, cmd.Env, cmd.Dir = files, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
			cmd.SysProcAttr.Cloneflags = flags
		}
		var out, errs head64
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		return out.Bytes(), errs.Bytes(), err
	}
	text, said, err := start(unix.CLONE_NEWNET | unix.CLONE_NEWIPC)
	if errors.Is(err, unix.EPERM) { // a container may not make namespaces
		text, said, err = start(0)
	}
	switch {
	case err == nil:
		return text, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("convert an image of format %s: %w", c.from.Format, context.Cause(ctx))
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w: its format %s has to be converted, and the host of this rackd has no prlimit (Debian package util-linux), which bounds that", ErrRefused, c.from.Format)
	}
	words := strings.TrimSpace(strings.ReplaceAll(string(said), input, "the image"))
	if strings.Contains(words, "File too large") {
		return nil, fmt.Errorf("%w: converting it from %s gives more than the %d bytes that its headers tell of", ErrRefused, c.from.Format, most)
	}
	if strings.Contains(words, "No space left") {
		return nil, fmt.Errorf("%w: no space to convert an image of format %s", imagecache.ErrFull, c.from.Format)
	}
	return nil, fmt.Errorf("%w: qemu-img cannot convert it from %s (%w): %.500q", ErrRefused, c.from.Format, err, words)
}

// head64 keeps the first maxSaid bytes that are written to it.
type head64 struct{ bytes.Buffer }

func (h *head64) Write(p []byte) (int, error) {
	if room := maxSaid - h.Len(); room > 0 {
		h.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
