package deploy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/confine"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/agent/esp/esptest"
	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side. Most of them wait for a disk to keep what was written.
const atOnce = 4

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == confine.Argument {
		os.Exit(confine.Main()) // as the agent does
	}
	sidebyside.Tests(atOnce)
	goleak.VerifyTestMain(m)
}

// both are the disks of a machine, which are all there.
type both []agentapi.Disk

func (b both) Settled(_ context.Context, _ bool, check func([]agentapi.Disk, []agentapi.UnfitDisk) error) ([]agentapi.Disk, error) {
	return b, check(b, nil)
}

const size = 16 << 20

// before is what the disk of a fixture holds before a test. It is made once: large memory is dear under the race detector.
var before = bytes.Repeat([]byte{0xd7}, size)

func fixture(t *testing.T, img []byte) (*Deployer, agentapi.PrepareImageParams, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(img) }))
	t.Cleanup(s.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	sum := sha256.Sum256(img)
	return &Deployer{
			Machine: both{{Name: path, Size: size}}, Log: slog.New(slog.DiscardHandler), EFIVars: t.TempDir(),
			Images: &image.Writer{Client: &http.Client{Transport: tr}, SpoolDir: t.TempDir(), SpoolLimit: func() int64 { return 1 << 30 }},
		}, agentapi.PrepareImageParams{ImageInfo: agentapi.ImageInfo{
			ID: "i", URLs: []string{s.URL}, HashAlgo: "sha256", HashValue: hex.EncodeToString(sum[:]), DiskFormat: "raw", MinDiskBytes: 1,
		}}, path
}

func partitioned(t *testing.T, script string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bootable is an image whose first partition is an EFI system partition with a boot loader.
func bootable(t *testing.T) []byte {
	t.Helper()
	b := partitioned(t, "label: gpt\nsize=5MiB, type=U\n")
	esptest.Fill(t, b, 1<<20, 5<<20)
	return b
}

func ignore(agentapi.Progress) {}

// A disk of the last inspection that is not there fails the deploy and the cleaning by name, and
// nothing is written, also not to the disks that are there.
func TestADiskOfTheLastInspectionIsMissing(t *testing.T) {
	d, p, path := fixture(t, partitioned(t, "label: dos\nsize=4MiB\n"))
	d.Machine = both{{Name: path, Size: size, Serial: "HERE"}}
	known := []agentapi.KnownDisk{{Serial: "here", Size: size}, {Serial: "GONE", WWN: "0x5000c500a1b2c3d4", Size: 960 << 30}}
	p.ImageInfo.KnownDisks = known
	_, deployed := d.Prepare(t.Context(), p, ignore)
	for what, err := range map[string]error{"deploy": deployed, "metadata": d.EraseMetadata(t.Context(), hints.Rules{Known: known}), "erase": d.Erase(t.Context(), hints.Rules{Known: known}, ignore)} {
		var missing *hints.MissingError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), `serial "GONE"`) || strings.Contains(err.Error(), `serial "here"`) || !strings.Contains(err.Error(), "inspect the node again") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b, _ := os.ReadFile(path); !bytes.Equal(b, before) {
		t.Error("the disk that is there was written to")
	}
	p.ImageInfo.KnownDisks = known[:1]
	if got, err := d.Prepare(t.Context(), p, ignore); err != nil || got.RootDevice != path {
		t.Errorf("all are there: %+v, %v", got, err)
	}
}

func TestImageWithoutPartitionsDoesNotBoot(t *testing.T) {
	img := bytes.Repeat([]byte("not a disk. "), 1<<18)
	d, p, path := fixture(t, img)
	_, err := d.Prepare(t.Context(), p, ignore)
	if err == nil || !strings.Contains(err.Error(), "no partition table") {
		t.Errorf("error %v", err)
	}
	if b, _ := os.ReadFile(path); len(bytes.Trim(b[:1<<20], "\x00")) != 0 {
		t.Error("it was left on the disk")
	}
}

func TestBadConfigDriveTouchesNothing(t *testing.T) {
	d, p, path := fixture(t, partitioned(t, "label: gpt\nsize=4MiB\n"))
	p.ConfigDrive = "!!!"
	if _, err := d.Prepare(t.Context(), p, ignore); err == nil {
		t.Fatal("accepted")
	}
	if b, _ := os.ReadFile(path); !bytes.Equal(b, before) {
		t.Error("the disk was touched")
	}
}

func TestBootEntry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		image        []byte
		want         string
		vars, folder bool // there are EFI variables, there is a folder for them
		asked        bool // boot mode uefi
		fails        bool
	}{
		{image: bootable(t), want: `Boot0000 starts ` + efiboot.Loader() + ` on partition 1`, vars: true, folder: true},
		{image: bootable(t), want: `Boot0000 starts ` + efiboot.Loader() + ` on partition 1`, vars: true, folder: true, asked: true},
		{image: bootable(t), want: "nothing to do", folder: true},
		{image: bootable(t), want: "nothing to do"},
		{image: bootable(t), want: "asks for boot mode uefi", folder: true, asked: true, fails: true},
		{image: bootable(t), want: "asks for boot mode uefi", asked: true, fails: true},
		{image: partitioned(t, "label: gpt\nsize=4MiB, type=L\n"), want: "no EFI system partition", vars: true, folder: true, fails: true},
		{image: partitioned(t, "label: gpt\nsize=4MiB, type=U\n"), want: "partition 1: there is no boot loader", vars: true, folder: true, fails: true},
	} {
		d, p, _ := fixture(t, c.image)
		if !c.folder {
			d.EFIVars = filepath.Join(d.EFIVars, "none")
		}
		if c.vars {
			if err := os.WriteFile(filepath.Join(d.EFIVars, "Lang-8be4df61-93ca-11d2-aa0d-00e098032b8c"), []byte("\x07\x00\x00\x00en"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Prepare(t.Context(), p, ignore); err != nil {
			t.Fatal(err)
		}
		text, err := d.InstallBootEntry(t.Context(), "", nil, efiboot.First, c.asked)
		if (err != nil) != c.fails {
			t.Errorf("%q, %v: fails: %v, want %v", text, err, err != nil, c.fails)
		}
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s, want %s", text, c.want)
		}
		if _, err := os.Stat(filepath.Join(d.EFIVars, "Boot0000-8be4df61-93ca-11d2-aa0d-00e098032b8c")); (err == nil) != strings.HasPrefix(c.want, "Boot0000") {
			t.Errorf("label %s: %v", efiboot.Label, err)
		}
	}
}

// An agent that was started again has forgotten what it wrote; it finds the disk by what it said
// of it then, and takes no other.
func TestBootEntryAfterTheAgentWasStartedAgain(t *testing.T) {
	t.Parallel()
	d, p, path := fixture(t, bootable(t))
	written, err := d.Prepare(t.Context(), p, ignore)
	if err != nil || written.RootUUID == "" {
		t.Fatalf("%+v, %v", written, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, bootable(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(other, size); err != nil {
		t.Fatal(err)
	}
	again := func(disks ...string) *Deployer {
		var all both
		for _, name := range disks {
			all = append(all, agentapi.Disk{Name: name, Size: size})
		}
		vars := t.TempDir()
		if err := os.WriteFile(filepath.Join(vars, "BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c"), []byte{7, 0, 0, 0}, 0o600); err != nil {
			t.Fatal(err)
		}
		return &Deployer{Machine: all, Log: slog.New(slog.DiscardHandler), EFIVars: vars}
	}
	if text, err := again(other, path).InstallBootEntry(t.Context(), written.RootUUID, nil, efiboot.First, false); err != nil || !strings.Contains(text, path) {
		t.Errorf("%q, %v; want an entry for %s", text, err, path)
	}
	var bad *ParamError
	for name, c := range map[string]struct {
		disks []string
		id    string
	}{"the disk has gone": {[]string{other}, written.RootUUID}, "its copy is there too": {[]string{path, path}, written.RootUUID}, "nothing is known": {[]string{path}, ""}} {
		if text, err := again(c.disks...).InstallBootEntry(t.Context(), c.id, nil, efiboot.First, false); !errors.As(err, &bad) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// waited keeps what each wait for disks was told of their completeness.
type waited struct {
	both
	complete *[]bool
}

func (w waited) Settled(ctx context.Context, complete bool, check func([]agentapi.Disk, []agentapi.UnfitDisk) error) ([]agentapi.Disk, error) {
	*w.complete = append(*w.complete, complete)
	return w.both.Settled(ctx, complete, check)
}

// The disks of the last inspection are enough for an image. An erasure waits for one that came since then behind a slow controller.
func TestAnErasureWaitsForDisksThatNobodyKnows(t *testing.T) {
	d, p, path := fixture(t, partitioned(t, "label: gpt\nstart=4096, size=4MiB\n"))
	var complete []bool
	d.Machine = waited{both{{Name: path, Size: size, Serial: "S"}}, &complete}
	p.ImageInfo.KnownDisks = []agentapi.KnownDisk{{Serial: "S", Size: size}}
	if _, err := d.Prepare(t.Context(), p, ignore); err != nil {
		t.Fatal(err)
	}
	if err := d.EraseMetadata(t.Context(), hints.Rules{Known: p.ImageInfo.KnownDisks}); err != nil {
		t.Fatal(err)
	}
	if want := []bool{true, true, false, true, true}; !slices.Equal(complete, want) {
		t.Errorf("the list counted as complete: %v, want %v: true for the image, false for the erasure, and true where chosen disks are looked at once more", complete, want)
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	d, p, path := fixture(t, partitioned(t, "label: gpt\nstart=4096, size=4MiB\n"))
	if _, err := d.Prepare(t.Context(), p, ignore); err != nil {
		t.Fatal(err)
	}
	mark := func(off int64) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("superblock"), off); err != nil {
			t.Fatal(err)
		}
	}
	mark(2<<20 + 1024)
	if err := d.EraseMetadata(t.Context(), hints.Rules{}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || len(bytes.Trim(b[:1<<20], "\x00")) != 0 || len(bytes.Trim(b[size-1<<20:], "\x00")) != 0 || bytes.Contains(b, []byte("superblock")) {
		t.Errorf("metadata is left: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Erase(ctx, hints.Rules{}, ignore); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := d.Erase(t.Context(), hints.Rules{}, ignore); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || len(bytes.Trim(b, "\x00")) != 0 {
		t.Errorf("data is left: %v", err)
	}
	// A hole would be an unmap: the medium may still hold what was there.
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil || s.Blocks*512 < size {
		t.Errorf("%d of %d bytes were overwritten, %v", s.Blocks*512, size, err)
	}
}

// Superblocks lie at the ends of partitions too (md 1.0, ZFS), also of logical ones, and a disk
// whose first GPT is damaged has partitions all the same.
func TestMetadataAtTheEndsOfPartitions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		spoil        bool
		ends         []int64
	}{
		{"logical", "label: dos\nstart=2048, size=2MiB\nstart=8192, size=3MiB, type=5\nstart=10240, size=1MiB\n", false, []int64{3 << 20, 6 << 20}},
		{"gpt damaged", "label: gpt\nstart=2048, size=3MiB\n", true, []int64{4 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := partitioned(t, c.script)
			for _, end := range c.ends {
				copy(b[end-4096:], "superblock")
			}
			if c.spoil {
				clear(b[512:1024])
			}
			path := filepath.Join(t.TempDir(), "disk")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			d := &Deployer{Machine: both{{Name: path, Size: int64(len(b))}}, Log: slog.New(slog.DiscardHandler)}
			if err := d.EraseMetadata(t.Context(), hints.Rules{}); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, []byte("superblock")) {
				t.Errorf("a superblock at the end of a partition is left: %v", err)
			}
		})
	}
}

// A stick in the machine is not erased unless it is the node's root device; a disk that is to be
// kept, and cannot be told from the others, keeps all.
func TestSelection(t *testing.T) {
	dir := t.TempDir()
	make1 := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Repeat([]byte{0xaa}, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	erased := func(path string) bool {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return len(bytes.Trim(b, "\x00")) == 0
	}
	disk, stick := make1("disk"), make1("stick")
	d := &Deployer{Machine: both{{Name: disk, Size: 4 << 20, Serial: "D"}, {Name: stick, Size: 4 << 20, Serial: "S", Removable: true}}, Log: slog.New(slog.DiscardHandler)}
	kept, err := hints.ParseKept([]any{map[string]any{"by_path": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}})
	if err != nil {
		t.Fatal(err)
	}
	var unknown *hints.UnknownError
	if err := d.Erase(t.Context(), hints.Rules{Kept: kept}, ignore); !errors.As(err, &unknown) || erased(disk) || erased(stick) {
		t.Errorf("a kept disk that cannot be told: %v", err)
	}
	if err := d.Erase(t.Context(), hints.Rules{}, ignore); err != nil || !erased(disk) || erased(stick) {
		t.Errorf("erased: disk %v, stick %v, %v", erased(disk), erased(stick), err)
	}
	root, err := hints.Parse(map[string]any{"serial": "S"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Erase(t.Context(), hints.Rules{Root: root}, ignore); err != nil || !erased(stick) {
		t.Errorf("the root device: %v", err)
	}
}

// TestKeptDisks holds that what a node's properties say is kept is neither erased nor written to.
func TestKeptDisks(t *testing.T) {
	t.Parallel()
	d, p, path := fixture(t, partitioned(t, "label: dos\nsize=4MiB\n"))
	other := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(other, bytes.Repeat([]byte{0xaa}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	// The one that is kept would be chosen otherwise.
	if err := os.Truncate(path, size+512); err != nil {
		t.Fatal(err)
	}
	d.Machine = both{{Name: other, Size: size, Serial: "DATA"}, {Name: path, Size: size + 512, Serial: "ROOT"}}
	p.ImageInfo.SkipBlockDevices = []any{map[string]any{"serial": "DATA"}}
	kept, err := hints.ParseKept(p.ImageInfo.SkipBlockDevices)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.Prepare(t.Context(), p, ignore); err != nil || got.RootDevice != path {
		t.Errorf("written to %q, %v", got.RootDevice, err)
	}
	if err := d.EraseMetadata(t.Context(), hints.Rules{Kept: kept}); err != nil {
		t.Error(err)
	}
	if err := d.Erase(t.Context(), hints.Rules{Kept: kept}, ignore); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || len(bytes.Trim(b, "\x00")) != 0 {
		t.Errorf("the other disk is not erased: %v", err)
	}
	if b, err := os.ReadFile(other); err != nil || len(b) != size || len(bytes.Trim(b, "\xaa")) != 0 {
		t.Errorf("the kept disk was written to: %v", err)
	}
	p.ImageInfo.SkipBlockDevices = []any{map[string]any{"colour": "red"}}
	var bad *ParamError
	if _, err := d.Prepare(t.Context(), p, ignore); !errors.As(err, &bad) {
		t.Errorf("a hint that nobody knows: %v", err)
	}
}
