package iscsideploy

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// partitionRig is a node whose agent has laid out a root partition of so many bytes, behind the disk's first 2 MiB.
func partitionRig(t *testing.T, file []byte, size int64, fields map[string]any) *rig {
	t.Helper()
	all := map[string]any{"image_type": "partition", "root_gb": 1}
	maps.Copy(all, fields)
	r := newRig(t, file, all)
	r.agent.root.at, r.agent.root.size = 2<<20, size
	return r
}

// outside looks that the disk is as it was, but for the root partition.
func (r *rig) outside(before []byte) {
	r.t.Helper()
	after, err := os.ReadFile(r.agent.disk)
	if err != nil {
		r.t.Fatal(err)
	}
	root := r.agent.root
	if !bytes.Equal(before[:root.at], after[:root.at]) || !bytes.Equal(before[root.at+root.size:], after[root.at+root.size:]) {
		r.t.Error("rackd has written outside of the root partition")
	}
}

// A partition image goes to where the agent says, and nothing goes elsewhere. A write that goes on does so there, too. The image's
// first sectors are no disk's: they are judged by no rule about sectors.
func TestAPartitionImageArrives(t *testing.T) {
	img := forSectorsOf512()
	r := partitionRig(t, img, 8<<20, nil)
	r.agent.block = 4096
	before, err := os.ReadFile(r.agent.disk)
	if err != nil {
		t.Fatal(err)
	}
	arrived := func() {
		t.Helper()
		if err := r.through(r.iface); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(r.agent.disk)
		if err != nil || !bytes.Equal(got[2<<20:][:len(img)], img) {
			t.Errorf("the root partition holds another thing than the image (%v)", err)
		}
		r.outside(before)
	}
	arrived()
	first := r.agent.starts[0]
	if !first.WipeDiskMetadata || first.ConfigDrive != "ZHJpdmU=" || first.Image.ImageType != agentapi.ImagePartition || first.Image.Partitions == nil || first.Image.RootMB != 1024 || first.ImageBytes != int64(len(img)) {
		t.Errorf("the agent was told %+v", first)
	}
	if facts := r.task().Facts; facts["root_uuid"] != "root" || facts["efi_system_part_uuid"] != "esp" {
		t.Errorf("the boot loader is told %v", facts)
	}

	const done = 4 << 20
	r.NextStep()
	disk := bytes.Clone(before)
	copy(disk[2<<20+headSize:][:done-headSize], img[headSize:done])
	if err := errors.Join(os.WriteFile(r.agent.disk, disk, 0o600), r.task().Record.SaveHandle(t.Context(), handle{Disk: "one", Done: done, Image: "sha256-" + sumOf(img)})); err != nil {
		t.Fatal(err)
	}
	arrived()
	if last := r.agent.starts[len(r.agent.starts)-1]; last.WipeDiskMetadata {
		t.Error("a partition that holds half of the image was wiped")
	}
}

// An image that its root partition does not hold ends the write at the partition's end. So does an agent that tells of no root
// partition, or of one beyond the disk: before anything is written.
func TestPartitionImagesThatCannotBe(t *testing.T) {
	img := content()
	for name, c := range map[string]struct {
		at, size int64
		want     string
		wiped    bool
	}{
		"a root too small":           {2 << 20, 8 << 20, "Root partition is too small for requested image. Image virtual size: more than 8 MB, Root size: 8 MB", true},
		"a ramdisk of before":        {0, 0, "build the ramdisk again", false},
		"a root beyond the disk":     {20 << 20, 8 << 20, "the disk that it exports has", false},
		"a root between two sectors": {2<<20 + 100, 8 << 20, "in blocks of 512", false},
		"a root over the table":      {-1 << 20, 8 << 20, "the disk that it exports has", false},
	} {
		r := partitionRig(t, img, c.size, nil)
		r.agent.root.at = c.at
		before, err := os.ReadFile(r.agent.disk)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.through(r.iface); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		last := r.agent.orders[len(r.agent.orders)-1]
		if c.wiped {
			r.outside(before)
		} else if after, err := os.ReadFile(r.agent.disk); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the disk was written to (%v)", name, err)
		}
		if c.wiped != (last == agentapi.CmdStopISCSI) {
			t.Errorf("%s: orders %v", name, r.agent.orders)
		}
	}
}
