//go:build !race

package deploy

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A disk takes each write, and some of its sectors read back as other bytes: those of the image, of the config drive, or of the partition
// table, and no others. The deploy fails by the disk's name, and nothing boots.
func TestADiskThatLies(t *testing.T) {
	t.Parallel()
	const mib, size = 1 << 20, 40 << 20
	// What is smaller than 4 KiB is in no sample, so that only the look at the whole finds it.
	drive := bytes.Repeat([]byte("drive "), 512)
	type lie struct {
		what, says string
		from, n    int64
	}
	for label, c := range map[string]struct {
		drive []byte
		lies  []lie
	}{
		// The image reaches into the second window, which has nothing else: the sample there is of the image.
		"dos": {drive, []lie{{"nothing", "", 0, 0}, {"the image", "disk ", mib, 23 * mib}, {"the config drive", "config drive: disk ", -1, int64(len(drive))}, {"the table", "partition table: disk ", 0, 512}}},
		// A new partition would have another identifier each time, so there is no config drive.
		"gpt": {nil, []lie{{"nothing", "", 0, 0}, {"the header", "partition table: disk ", 512, 512}, {"the copy's header", "partition table: disk ", size - 512, 512}}},
	} {
		img := append(partitioned(t, "label: "+label+"\nstart=2048, size=4MiB\n"), bytes.Repeat([]byte("image 8 "), 16*mib/8)...)
		// Prepare with a call of what is given once the image is written. The disk has a second name, path.disk.
		prepare := func(written func(path string)) (path string, err error) {
			d, p, path := fixture(t, img)
			d.Machine = both{{Name: path, Size: size}}
			if c.drive != nil {
				p.ConfigDrive = gzip64(t, c.drive)
			}
			if err := errors.Join(os.Truncate(path, size), os.Link(path, path+".disk")); err != nil {
				t.Fatal(err)
			}
			_, err = d.Prepare(t.Context(), p, func(p agentapi.Progress) {
				if p.DoneBytes == p.TotalBytes && written != nil {
					written(path)
					written = nil
				}
			})
			return path, err
		}
		good, err := prepare(nil)
		if err != nil {
			t.Fatalf("%s: a good disk: %v", label, err)
		}
		content, err := os.ReadFile(good)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range c.lies {
			if l.from < 0 {
				l.from = int64(bytes.Index(content, drive))
			}
			// The disk is opened by its name once more to be read back. There it finds a file with what a good disk has, but for the lie.
			path, err := prepare(func(path string) {
				other := bytes.Clone(content)
				for i := l.from; i < l.from+l.n; i++ {
					other[i] ^= 0xff
				}
				if err := errors.Join(os.WriteFile(path+".other", other, 0o600), os.Rename(path+".other", path)); err != nil {
					t.Fatal(err)
				}
			})
			if l.n == 0 {
				if err != nil {
					t.Errorf("%s: nothing lies: %v", label, err)
				}
				continue
			}
			different, is := errors.AsType[*disk.DifferentError](err)
			if !is || different.Disk != path || different.Off+different.N <= l.from || different.Off >= l.from+l.n || !strings.HasPrefix(err.Error(), l.says+path+" ") {
				t.Errorf("%s: %s lies: error %v", label, l.what, err)
			}
			written, err := os.ReadFile(path + ".disk")
			if err != nil {
				t.Fatal(err)
			}
			if ends := append(written[:mib:mib], written[size-mib:]...); !bytes.Equal(ends, make([]byte, 2*mib)) || !bytes.Contains(written, []byte("image 8 ")) {
				t.Errorf("%s: %s lies: the disk's ends are not wiped, or more is", label, l.what)
			}
		}
	}
}
