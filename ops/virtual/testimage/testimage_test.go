package testimage

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/agent/partition"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cache is the folder that all tests of the machine share.
func cache() string {
	if dir := os.Getenv("IRONYARD_CACHE"); dir != "" {
		return dir
	}
	user, err := os.UserCacheDir()
	if err != nil {
		user = os.TempDir()
	}
	return filepath.Join(user, "ironyard")
}

// shared returns the image from the shared cache.
func shared(t *testing.T) Images { t.Helper(); return buildIn(t, filepath.Join(cache(), "image")) }

func buildIn(t *testing.T, dir string) Images { t.Helper(); return buildFor(t, "", dir) }

// sharedARM64 is the image of arm64 from the shared cache.
func sharedARM64(t *testing.T) Images {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: fetches Debian's kernel of arm64; set IRONYARD_E2E=1")
	}
	return buildFor(t, ARM64, filepath.Join(cache(), "image-arm64"))
}

func buildFor(t *testing.T, arch, dir string) Images {
	t.Helper()
	started := time.Now()
	images, err := Build(t.Context(), Options{Arch: arch, CacheDir: filepath.Join(cache(), "kernel"), OutDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("image after %s", time.Since(started).Round(time.Millisecond))
	return images
}

func TestSameBytesEachTime(t *testing.T) {
	t.Run("amd64", func(t *testing.T) { sameBytes(t, shared(t), "") })
	t.Run("arm64", func(t *testing.T) { sameBytes(t, sharedARM64(t), ARM64) })
}

// sameBytes builds an image a second time, which must be the first.
func sameBytes(t *testing.T, first Images, arch string) {
	dir := t.TempDir()
	second := buildFor(t, arch, dir)
	for _, pair := range [][2]File{{first.Raw, second.Raw}, {first.QCOW2, second.QCOW2}, {first.RawZstd, second.RawZstd}} {
		got, err := describe(pair[1].Path)
		if err != nil || got != pair[1] {
			t.Errorf("%s is not what Build says: %+v, %v", pair[1].Path, got, err)
		}
		if pair[0].SHA256 != pair[1].SHA256 || pair[0].Size != pair[1].Size {
			t.Errorf("two builds differ: %+v, %+v", pair[0], pair[1])
		}
	}
	if second.VirtualSize != second.Raw.Size {
		t.Errorf("virtual size %d, raw image of %d bytes", second.VirtualSize, second.Raw.Size)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".build-*")); err != nil || len(left) != 0 {
		t.Errorf("scratch folders left: %v, %v", left, err)
	}
}

func TestBuildsOnlyWhatChanged(t *testing.T) {
	dir := t.TempDir()
	o := Options{CacheDir: filepath.Join(cache(), "kernel"), OutDir: dir, Init: filepath.Join(t.TempDir(), "init")}
	stat := func(init string) os.FileInfo {
		t.Helper()
		if err := os.WriteFile(o.Init, []byte(init), 0o755); err != nil {
			t.Fatal(err)
		}
		images, err := Build(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(images.Raw.Path)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	first := stat("one")
	if !os.SameFile(first, stat("one")) {
		t.Error("built again from the same init")
	}
	other := stat("two")
	if os.SameFile(first, other) {
		t.Error("not built again from another init")
	}
	if err := os.Truncate(filepath.Join(dir, rawName), 1); err != nil {
		t.Fatal(err)
	}
	if got := stat("two"); got.Size() != diskSize {
		t.Errorf("a broken raw image of %d bytes was kept", got.Size())
	}
}

// Builders that start together on one folder agree, and one of them does the work.
func TestConcurrentBuilders(t *testing.T) {
	dir := t.TempDir()
	var g errgroup.Group
	var got [3]Images
	for i := range got {
		g.Go(func() (err error) {
			got[i], err = Build(t.Context(), Options{CacheDir: filepath.Join(cache(), "kernel"), OutDir: dir})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got[0] != got[1] || got[1] != got[2] {
		t.Errorf("builders disagree: %+v", got)
	}
}

// What the agent relies on: both boot partitions by type, no config-2, a table that
// may grow.
func TestPartitions(t *testing.T) {
	t.Run("amd64", func(t *testing.T) {
		partitionsAre(t, shared(t), "bios-boot 21686148-6449-6E6F-744E-656564454649, esp "+partition.TypeESP)
	})
	t.Run("arm64", func(t *testing.T) { partitionsAre(t, sharedARM64(t), "esp "+partition.TypeESP) })
}

func partitionsAre(t *testing.T, images Images, want string) {
	f, err := os.Open(images.Raw.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := partition.Read(rawDisk{f})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var end int64
	for _, p := range table.Partitions() {
		got = append(got, p.Label+" "+p.Type)
		end = max(end, p.Start+p.Size)
	}
	if free := images.VirtualSize - end; free < mib {
		t.Errorf("%d bytes behind the last partition are free, want %d", free, mib)
	}
	if table.Kind() != partition.GPT || strings.Join(got, ", ") != want {
		t.Errorf("%s with %s, want %s", table.Kind(), got, want)
	}
}

func TestPlaceLoader(t *testing.T) {
	images := func() (boot, core []byte) {
		boot, core = make([]byte, sector), make([]byte, 3*sector-7)
		binary.LittleEndian.PutUint16(boot[sector-2:], 0xaa55)
		binary.LittleEndian.PutUint16(core[firstBlock+8:], 2)
		return boot, core
	}
	boot, core := images()
	if err := placeLoader(boot, core, 2048); err != nil {
		t.Fatal(err)
	}
	if at, next := binary.LittleEndian.Uint64(boot[kernelSector:]), binary.LittleEndian.Uint64(core[firstBlock:]); at != 2048 || next != 2049 {
		t.Errorf("first stage loads sector %d, second %d", at, next)
	}
	for name, spoil := range map[string]func(boot, core []byte) ([]byte, []byte){
		"short boot":  func(b, c []byte) ([]byte, []byte) { return b[1:], c },
		"no boot":     func(b, c []byte) ([]byte, []byte) { return make([]byte, sector), c },
		"short core":  func(b, c []byte) ([]byte, []byte) { return b, c[:sector] },
		"large core":  func(b, c []byte) ([]byte, []byte) { return b, make([]byte, biosSize+1) },
		"other count": func(b, c []byte) ([]byte, []byte) { return b, c[:2*sector] },
	} {
		boot, core := spoil(images())
		if err := placeLoader(boot, core, 2048); err == nil {
			t.Errorf("%s accepted", name)
		}
	}
}

func TestNoImageForOtherArchitectures(t *testing.T) {
	_, err := Build(t.Context(), Options{Arch: "riscv64", CacheDir: t.TempDir(), OutDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), `none for architecture "riscv64"`) {
		t.Errorf("%v", err)
	}
}
