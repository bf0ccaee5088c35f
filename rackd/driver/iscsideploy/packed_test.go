package iscsideploy

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ironyard/ironyard/rackd/diskimage"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// rack is a rackd's cache with one image, as deploys see it.
type rack struct {
	driver.Images
	*imagecache.Cache
	from imagecache.Source
}

func (r rack) PrepareDisk(ctx context.Context, src driver.ImageSource) (driver.DiskImage, error) {
	e, err := r.Ensure(ctx, r.from)
	if err != nil {
		return driver.DiskImage{}, err
	}
	i, err := diskimage.Prepare(ctx, r.Cache, e, src.Format, src.Compression)
	if err == nil && src.Seekable {
		i, err = diskimage.Seekable(ctx, r.Cache, i)
	}
	return driver.DiskImage{HashAlgo: i.HashAlgo, HashValue: i.HashValue, Format: i.Format, Compression: i.Compression, Unpacked: i.Unpacked}, err
}

func (r rack) Prepare(context.Context, driver.ImageSource) ([]string, error) {
	return nil, errors.New("no such image")
}

func (r rack) Verify(ctx context.Context, src driver.ImageSource) (bool, error) {
	return r.Cache.Verify(ctx, src.ID())
}

func (r rack) Latest(context.Context, string) (string, error) { return "", errors.New("no such file") }

// A qcow2 file of qemu-img within a compression is unpacked in the cache and arrives on tgtd's disk as the disk that it was made of.
func TestAPackedQcow2FileArrives(t *testing.T) {
	img := content()
	for _, program := range []string{"gzip", "zstd", "xz"} {
		dir := t.TempDir()
		raw, file := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
		if err := os.WriteFile(raw, img, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, file).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img: %v: %s", err, out)
		}
		packed, err := exec.Command(program, "-1", "-c", file).Output()
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		if err := os.WriteFile(file+".packed", packed, 0o600); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, packed, map[string]any{"image_disk_format": "qcow2", "image_compression": program})
		cache, err := imagecache.Open(imagecache.Config{Dir: t.TempDir(), AllowedDirs: []string{dir}})
		if err != nil {
			t.Fatal(err)
		}
		images := rack{Images: r.Rig, Cache: cache, from: imagecache.Source{URL: "file://" + file + ".packed", HashValue: sumOf(packed)}}
		run := func() (driver.Outcome, error) { return driver.Done(), errors.New("no step write_image") }
		for _, s := range r.iface.DeploySteps(r.Node) {
			if s.Name == "write_image" {
				run = func() (driver.Outcome, error) {
					task := r.task()
					task.Images = images
					return s.Run(t.Context(), task)
				}
			}
		}
		for waits := true; waits; {
			out, err := run()
			if err != nil {
				t.Fatalf("%s: %v", program, err)
			}
			_, waits = out.Waiting()
		}
		r.holds(img)
	}
}
