package deploy

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/partition"
)

// iso is a config drive as genisoimage makes it, as far as blkid and cloud-init look for it: a volume descriptor with its label.
func iso(content string) []byte {
	b := make([]byte, 512<<10)
	copy(b[32<<10:], "\x01CD001\x01\x00")
	copy(b[32<<10+40:], fmt.Sprintf("%-32s", "config-2"))
	copy(b[64<<10:], content)
	return b
}

// An image that was taken of an instance has its config drive, in a partition without a name: Ironic gives it none, and an MBR has none.
// Cloud-init looks for the file system's label. So Ironic writes the new drive to that partition. With two of them the instance may
// take the keys and the passwords of another one.
func TestAnImageBringsTheConfigDriveOfAnotherInstance(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"gpt", "dos"} {
		img := partitioned(t, "label: "+kind+"\nstart=2048, size=4MiB\nsize=1MiB\n")
		copy(img[5<<20:], iso("of another instance"))
		d, p, path := fixture(t, img)
		p.ConfigDrive = gzipped(t, iso("of this instance"))
		if _, err := d.Prepare(t.Context(), p, ignore); err != nil {
			continue // a refusal leaves nothing that boots
		}
		out, err := disk.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		table, err := partition.Read(out)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, part := range table.Partitions() {
			b := make([]byte, 128<<10)
			if _, err := out.ReadAt(b, part.Start); err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b[32<<10:34<<10], []byte("config-2")) {
				found = append(found, fmt.Sprintf("partition %d %s", part.Number, bytes.TrimRight(b[64<<10:64<<10+20], "\x00")))
			}
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		if len(found) != 1 {
			t.Errorf("%s: config drives: %q", kind, found)
		}
		_ = os.Remove(path)
	}
}
