// Package paramdisk finds the second virtual medium on which a machine is told the parameters of its boot: a small disk with a FAT volume
// of the label ir-vfd-dev, and parameters.txt on it. rackd makes it, as Ironic does for ironic-python-agent.
//
// It may import agent/kmod. Invariant: the disk is a whole one on USB, or a floppy disk, of 64 MiB at most. What a former user of the
// machine has written to a partition, or to a disk of the machine, tells the agent nothing.
package paramdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/kmod"
)

const (
	label = "ir-vfd-dev"
	file  = "parameters.txt"
	// most is how large the disk may be, and mostText its file.
	most     = 64 << 20
	mostText = 64 << 10
)

// Wait is how long a disk may take to come: a BMC's USB bus is slow to start.
const Wait = time.Minute

// lookEvery is how often the machine's disks are looked at.
const lookEvery = 200 * time.Millisecond

// ErrNone is returned where no such disk comes.
var ErrNone = errors.New("no USB or floppy disk with the label " + label + " has come")

// Machine is where disks are looked for: below / in the ramdisk.
type Machine struct{ Root string }

// Words waits for the disk, and returns what it says as words of a kernel's command line.
func (m Machine) Words(ctx context.Context, log *slog.Logger) (string, error) {
	device, err := m.await(ctx)
	if err != nil {
		return "", err
	}
	text, err := read(log, device)
	if err != nil {
		return "", err
	}
	log.Info("parameters read from a second medium", "device", device, "bytes", len(text))
	return strings.Join(strings.Fields(text), " "), nil
}

// await looks for the disk until it is there, or Wait is over.
func (m Machine) await(ctx context.Context) (device string, err error) {
	ctx, cancel := context.WithTimeout(ctx, Wait)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if device, ok := m.find(); ok {
			return device, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("%w within %s: is it in the BMC's virtual drive?", ErrNone, Wait)
		}
	}
}

func (m Machine) find() (device string, ok bool) {
	list, err := os.ReadDir(filepath.Join(m.Root, "sys/block")) // whole disks alone
	if err != nil {
		return "", false
	}
	for _, d := range list {
		if device := filepath.Join(m.Root, "dev", d.Name()); m.virtual(d.Name()) && labelOf(device) == label {
			return device, true
		}
	}
	return "", false
}

// virtual reports whether a disk may be a BMC's.
func (m Machine) virtual(name string) bool {
	at := filepath.Join(m.Root, "sys/block", name)
	text, err := os.ReadFile(filepath.Join(at, "size"))
	if err != nil {
		return false
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || sectors <= 0 || sectors > most/512 {
		return false
	}
	place, err := os.Readlink(at)
	return err == nil && (strings.Contains(place, "/usb") || strings.HasPrefix(name, "fd"))
}

// labelOf reads the label of a FAT12 or FAT16 volume, in small letters: some who make such volumes write capitals.
func labelOf(device string) string {
	f, err := os.Open(device)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 512)
	if _, err := io.ReadFull(f, b); err != nil || b[38] != 0x29 || b[510] != 0x55 || b[511] != 0xaa {
		return ""
	}
	return strings.ToLower(strings.TrimRight(string(b[43:54]), " "))
}

// read mounts the disk for as long as it is read.
func read(log *slog.Logger, device string) (text string, err error) {
	at, err := os.MkdirTemp("", "parameters")
	if err != nil {
		return "", err
	}
	defer os.Remove(at)
	mount := func() error {
		return unix.Mount(device, at, "vfat", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC, "")
	}
	if err = mount(); errors.Is(err, unix.ENODEV) {
		kmod.Load(log, kmod.FileSystems)
		err = mount()
	}
	if err != nil {
		return "", fmt.Errorf("mounting the medium of parameters, %s: %w", device, err)
	}
	defer func() {
		if uerr := unix.Unmount(at, 0); uerr != nil {
			err = errors.Join(err, fmt.Errorf("unmounting the medium of parameters, %s: %w", device, uerr))
		}
	}()
	f, err := os.Open(filepath.Join(at, file))
	if err != nil {
		return "", fmt.Errorf("the medium of parameters, %s: %w", device, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostText+1))
	if err == nil && len(b) > mostText {
		err = fmt.Errorf("it has more than %d bytes", mostText)
	}
	if err != nil {
		return "", fmt.Errorf("%s of the medium of parameters, %s: %w", file, device, err)
	}
	return string(b), nil
}
