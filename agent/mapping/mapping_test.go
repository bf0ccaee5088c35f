package mapping

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sysfs is one with devices and what they stand on. A device's name begins with its disk's, or with dm-.
func sysfs(t *testing.T, on map[string][]string) string {
	t.Helper()
	sys := t.TempDir()
	write := func(text string, name ...string) {
		t.Helper()
		path := filepath.Join(sys, "class/block", filepath.Join(name...))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"sda1", "sda2", "sdb1"} {
		write("1\n", part[:3], part, "partition")
		write("1\n", part, "partition")
	}
	write("", "sda/queue/rotational")
	for dev, below := range on {
		id := "CRYPT-LUKS2-1"
		if dev == "dm-7" {
			id = "mpath-3600"
		}
		write("name of "+dev+"\n", dev, "dm/name")
		write(id+"\n", dev, "dm/uuid")
		for _, b := range below {
			write("", dev, "slaves", b)
			write("", b, "holders", dev)
		}
	}
	return sys
}

// What stands on the disk alone is removed, the top first. Nothing else is: another disk's, what stands on two disks and what is on that,
// several paths, and holders that are no mappings.
func TestOnlyMappingsOfTheDiskAreRemoved(t *testing.T) {
	sys := sysfs(t, map[string][]string{
		"dm-3": {"sda2"}, "dm-1": {"dm-3"}, "dm-2": {"dm-1", "sda1"}, // a chain, whose numbers tell no order
		"dm-4": {"sdb1"}, "dm-5": {"sda1", "sdb1"}, "dm-6": {"dm-5"}, "dm-7": {"sda"}, "md0": {"sda2"},
	})
	var gone []string
	k := Kernel{Sys: sys, Remove: func(name string) error { gone = append(gone, strings.TrimPrefix(name, "name of ")); return nil }}
	removed, err := k.Clear("/dev/sda")
	if want := []string{"dm-2", "dm-1", "dm-3"}; err != nil || !slices.Equal(gone, want) || len(removed) != 3 {
		t.Errorf("removed %v, want %v (%v)", gone, want, err)
	}
	gone = nil
	k.Remove = func(name string) error { gone = append(gone, name); return unix.EBUSY }
	if _, err := k.Clear("/dev/sda"); err == nil || len(gone) != 1 || !strings.Contains(err.Error(), "removing mapping name of dm-2 (dm-2), which keeps disk /dev/sda in use: ") {
		t.Errorf("one that is open: %v after %v", err, gone)
	}
	if removed, err := k.Clear("/tmp/file"); err != nil || removed != nil {
		t.Errorf("what is no disk: %v, %v", removed, err)
	}
}

// The kernel takes the size of its structure from the request's number.
func TestTheRequestIsTheKernels(t *testing.T) {
	if size := unsafe.Sizeof(control{}); size != devRemove>>16&0x3fff || unsafe.Offsetof(control{}.name) != 48 || unsafe.Offsetof(control{}.uuid) != 176 {
		t.Errorf("%d bytes", size)
	}
}
