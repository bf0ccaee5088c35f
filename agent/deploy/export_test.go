package deploy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/agent/iscsitarget"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// plug stands for the kernel's target: it notes which disk is out.
type plug struct {
	out  string
	got  iscsitarget.Options
	ends int
}

// Start implements Target.
func (p *plug) Start(_ context.Context, disk string, o iscsitarget.Options) (int, error) {
	if p.out != "" {
		return 0, errors.New("a target is there already")
	}
	p.out, p.got = disk, o
	return 3260, nil
}

// Stop implements Target.
func (p *plug) Stop() error {
	if p.out != "" {
		p.ends++
	}
	p.out = ""
	return nil
}

// gzip64 is a config drive as it travels.
func gzip64(t *testing.T, drive []byte) string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(drive); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

// A disk is exported, written by another hand, and finished: it ends as after a write of the agent's own.
func TestExportAndFinish(t *testing.T) {
	d, _, path := fixture(t, nil)
	if _, err := d.Export(t.Context(), agentapi.StartISCSIParams{}, netip.Addr{}); err == nil {
		t.Error("an agent outside of a ramdisk exports a disk")
	}
	p := &plug{}
	d.Target = p
	from := netip.MustParseAddr("10.0.0.1")
	order := agentapi.StartISCSIParams{WipeDiskMetadata: true, Image: agentapi.ImageInfo{MinDiskBytes: 1}, ImageBytes: size + 1}
	var small *image.TooSmallError
	if _, err := d.Export(t.Context(), order, from); !errors.As(err, &small) || p.out != "" {
		t.Errorf("an image that is too large: %v, out %q", err, p.out)
	}
	order.ImageBytes = size
	first, err := d.Export(t.Context(), order, from)
	if err != nil || p.out != path || len(p.got.From) != 1 || p.got.From[0] != netip.PrefixFrom(from, 32) || p.got.Lasts || first.RootDevice != path || first.Disk == "" || first.LUN != 1 {
		t.Fatalf("%+v, %v, out %q for %s", first, err, p.out, p.got.From)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b[:1<<20], make([]byte, 1<<20)) || b[2<<20] != 0xd7 {
		t.Errorf("the ends are not wiped, or more is (%v)", err)
	}
	order.WipeDiskMetadata = false
	again, err := d.Export(t.Context(), order, from)
	if err != nil || again.Disk != first.Disk || p.ends != 1 {
		t.Errorf("the same disk once more: %+v, %v, %d targets ended", again, err, p.ends)
	}
	var gone *GoneError
	if _, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: "other"}); !errors.As(err, &gone) || p.out == "" {
		t.Errorf("a disk that is not known: %v", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bootable(t)); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	drive := bytes.Repeat([]byte("drive "), 1000)
	got, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: first.Disk, ConfigDrive: gzip64(t, drive)})
	if err != nil || got.RootDevice != path || got.RootUUID == "" || p.out != "" {
		t.Fatalf("%+v, %v, out %q", got, err, p.out)
	}
	raw, err := disk.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	table, err := partition.Read(raw)
	if err != nil || len(table.Partitions()) != 2 {
		t.Fatalf("%v, partitions %v", err, table.Partitions())
	}
	place := table.Partitions()[1]
	there := make([]byte, len(drive))
	if _, err := raw.ReadAt(there, place.Start); err != nil || !bytes.Equal(there, drive) {
		t.Errorf("the config drive is not where the table says (%v)", err)
	}
	if _, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: first.Disk}); !errors.As(err, &gone) {
		t.Errorf("finished twice: %v", err)
	}
	if d.root.Name != path {
		t.Errorf("the written disk is %q", d.root.Name)
	}
}

// A write that is given up leaves nothing that boots.
func TestStopExportWipes(t *testing.T) {
	d, _, path := fixture(t, nil)
	p := &plug{}
	d.Target = p
	got, err := d.Export(t.Context(), agentapi.StartISCSIParams{Image: agentapi.ImageInfo{MinDiskBytes: 1}}, netip.MustParseAddr("10.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	starts := func() byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b[0]
	}
	if err := d.StopExport(t.Context(), "other"); err != nil || starts() != 0xd7 || p.out != "" {
		t.Errorf("another disk is meant: %v, %#x, out %q", err, starts(), p.out)
	}
	if err := d.StopExport(t.Context(), got.Disk); err != nil || starts() != 0 {
		t.Errorf("%v, %#x", err, starts())
	}
}
