package deploy

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// The power goes when the partition table is written and the ephemeral partition has no file system. What is on it then is not kept for an
// instance. A partition whose file system was made is kept.
func TestAnEphemeralPartitionWithoutAFileSystemIsNotKept(t *testing.T) {
	for label, types := range map[string]struct{ unready, ready string }{
		"gpt": {"type=8DA63339-0007-60C0-C436-083AC8230908", "type=0FC63DAF-8483-4772-8E79-3D69D8477DE4"}, "msdos": {"type=da", "type=83"},
	} {
		img := rootImage(t)
		parts := agentapi.Partitions{RootMB: 8, EphemeralMB: 5, EphemeralFormat: "ext4", DiskLabel: label}
		d, params, path := forPartition(t, img, 32, false, parts)
		out, err := disk.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		l, err := plan(out, &parts, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newPartitioning(d, out, l, false).write(t.Context(), params.ImageInfo, nil, ignore); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		ephemeral := func() string {
			dump, err := exec.Command("sfdisk", "--dump", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			at := fmt.Sprint(path, l.places[forEphemeral].Number, " :")
			for line := range strings.Lines(string(dump)) {
				if strings.HasPrefix(line, at) {
					return line
				}
			}
			t.Fatalf("%s: no ephemeral partition:\n%s", label, dump)
			return ""
		}
		if line := ephemeral(); !strings.Contains(line, types.unready) {
			t.Errorf("%s: before its file system is made sfdisk says %s", label, line)
		}
		keep := parts
		keep.PreserveEphemeral = true
		params.ImageInfo.Partitions = &keep
		before := digest(t, path, 0, 0)
		var wrong *ParamError
		if _, err := d.Prepare(t.Context(), params, ignore); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "has no file system yet") {
			t.Errorf("%s: a partition without a file system is kept: %v", label, err)
		}
		if digest(t, path, 0, 0) != before {
			t.Errorf("%s: the disk was written to", label)
		}
		if err := d.ready(path, l); err != nil {
			t.Fatal(err)
		}
		if line := ephemeral(); !strings.Contains(line, types.ready) {
			t.Errorf("%s: when its file system is made sfdisk says %s", label, line)
		}
		if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil {
			t.Errorf("%s: sfdisk --verify: %v: %s", label, err, out)
		}
		if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
			t.Errorf("%s: a partition with a file system is not kept: %v", label, err)
		}
	}
}
