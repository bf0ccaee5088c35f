package deploy

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// A disk takes each zero of an erasure, and keeps what the former tenant had.
func TestAnErasureOfADiskThatLies(t *testing.T) {
	d, _, path := fixture(t, nil)
	err := d.Erase(t.Context(), hints.Rules{}, func(p agentapi.Progress) {
		if p.DoneBytes < p.TotalBytes {
			return
		}
		// The disk is opened by its name once more to be read back.
		if err := errors.Join(os.WriteFile(path+".other", before, 0o600), os.Rename(path+".other", path)); err != nil {
			t.Error(err)
		}
	})
	if different, is := errors.AsType[*disk.DifferentError](err); !is || different.Disk != path {
		t.Errorf("a disk that keeps its bytes counts as erased: %v", err)
	}
}

// A disk takes no more bytes from some place on. The kernel tells of it when the disk is flushed, and zeros are read back there all the
// same.
func TestAnErasureOfADiskThatFailsAtItsEnd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: a file system and a loop device to fail on want root")
	}
	store := t.TempDir()
	if err := unix.Mount("tmpfs", store, "tmpfs", 0, "size=6m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(store, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	back := filepath.Join(store, "back")
	if err := errors.Join(os.WriteFile(back, bytes.Repeat([]byte{1}, 4096), 0o600), os.Truncate(back, 12<<20)); err != nil {
		t.Fatal(err)
	}
	device := loopDevice(t, back)
	d := &Deployer{Machine: both{{Name: device, Size: 12 << 20}}, Log: slog.New(slog.DiscardHandler)}
	if err := d.Erase(t.Context(), hints.Rules{}, ignore); !errors.Is(err, unix.EIO) && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a disk that has failed counts as erased: %v", err)
	}
}

// A disk takes a partition image, and keeps what it had.
func TestADiskThatLiesOfAPartitionImage(t *testing.T) {
	d, params, path := forPartition(t, rootImage(t), 64, false, agentapi.Partitions{RootMB: 8})
	swapped := false
	_, err := d.Prepare(t.Context(), params, func(p agentapi.Progress) {
		if swapped || p.DoneBytes != p.TotalBytes {
			return
		}
		swapped = true
		// The disk is opened by its name once more to be read back.
		if err := errors.Join(os.WriteFile(path+".other", bytes.Repeat(before, 4), 0o600), os.Rename(path+".other", path)); err != nil {
			t.Error(err)
		}
	})
	if different, is := errors.AsType[*disk.DifferentError](err); !is || different.Disk != path {
		t.Errorf("a disk that keeps its bytes counts as written: %v", err)
	}
}
