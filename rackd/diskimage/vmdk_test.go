package diskimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A VMDK file may end within its last grain as well. Whole ones are taken, also where the disk ends within a grain.
func TestAVMDKFileThatEndsWithinAGrain(t *testing.T) {
	r := newRack(t)
	for _, size := range []int{2 << 20, 1<<20 + 512} {
		raw := make([]byte, size)
		rand.NewChaCha8([32]byte{5}).Read(raw)
		for _, options := range [][]string{{}, {"-o", "zeroed_grain=on"}, {"-o", "subformat=streamOptimized"}} {
			whole := foreign(t, "vmdk", raw, options...)
			if _, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", whole), "", ""); err != nil {
				t.Errorf("%d bytes, %v: a whole file: %v", size, options, err)
			}
		}
	}
	raw := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{6}).Read(raw)
	whole := foreign(t, "vmdk", raw)
	for _, lack := range []int{512, 32 << 10} {
		if _, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", whole[:len(whole)-lack]), "", ""); !errors.Is(err, ErrRefused) {
			t.Errorf("a file that lacks %d bytes: %v", lack, err)
		}
	}
}

// The directory's length is what the header says. A file of a few bytes and a long hole takes no memory for it.
func TestTheDirectoryOfAVMDKFileIsBounded(t *testing.T) {
	header := make([]byte, vmdkHeader)
	binary.LittleEndian.PutUint64(header[12:], 1<<41)
	binary.LittleEndian.PutUint64(header[20:], 1)
	binary.LittleEndian.PutUint32(header[44:], 1)
	binary.LittleEndian.PutUint64(header[56:], 1)
	if err := vmdkWhole(bytes.NewReader(header), 1<<44); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "directory") {
		t.Error(err)
	}
}

// FuzzVMDK lets the tables of a VMDK file be anything, also of one that is said to be long.
func FuzzVMDK(f *testing.F) {
	raw := make([]byte, 200<<10)
	rand.NewChaCha8([32]byte{5}).Read(raw)
	dir := f.TempDir()
	in, out := filepath.Join(dir, "raw"), filepath.Join(dir, "vmdk")
	if err := os.WriteFile(in, raw, 0o600); err != nil {
		f.Fatal(err)
	}
	if text, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "vmdk", in, out).CombinedOutput(); err != nil {
		f.Fatalf("qemu-img (Debian package qemu-utils): %v: %s", err, text)
	}
	whole, err := os.ReadFile(out)
	if err != nil {
		f.Fatal(err)
	}
	if err := vmdkWhole(bytes.NewReader(whole), int64(len(whole))); err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:64<<10], int64(len(whole)))
	f.Add(whole[:64<<10], int64(1<<40))
	f.Fuzz(func(t *testing.T, head []byte, size int64) {
		if size < 0 {
			return
		}
		if err := vmdkWhole(bytes.NewReader(head), size); err != nil && !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
	})
}
