// Package esptest makes EFI system partitions for tests.
//
// It may import agent/efiboot, for the path of the loader. The file system is go-diskfs's.
package esptest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat16"

	"github.com/ironyard/ironyard/agent/efiboot"
)

// Fill puts a FAT with a boot loader into a disk image, size bytes from offset start: 5 MiB at least.
func Fill(t testing.TB, image []byte, start, size int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "esp"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	volume, err := fat16.Create(file.New(f, false), size, 0, 0, "ESP", true)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(strings.ReplaceAll(efiboot.Loader(), `\`, "/"), "/")
	if err := volume.Mkdir(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	loader, err := volume.OpenFile(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loader.Write([]byte("a boot loader")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(image[start:start+size], 0); err != nil {
		t.Fatal(err)
	}
}
