package ramdisk

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// mib is a MiB, in which partitions are asked for.
const mib = 1 << 20

// refusesParts is why a disk does not become what a partition image asks for, in the cases in which the real agent says so: sizes that do
// not fit, and an ephemeral partition to keep that is not there. bytes is the image's size, 0 where it is not known.
func (r *run) refusesParts(p *agentapi.Partitions, bytes int64) error {
	size := int64(r.Inventory.Disks[0].Size)
	switch {
	case p == nil && bytes > size:
		return &deploy.ParamError{Reason: fmt.Sprintf("the image has %d bytes, and the disk %d", bytes, size)}
	case p == nil:
		return nil
	case p.RootMB <= 0 || rootOffset+(p.RootMB+p.SwapMB+p.EphemeralMB)*mib > size:
		return &deploy.ParamError{Reason: fmt.Sprintf("root_mb %d, swap_mb %d and ephemeral_mb %d do not fit on a disk of %d bytes", p.RootMB, p.SwapMB, p.EphemeralMB, size)}
	case bytes > p.RootMB*mib:
		return &deploy.ParamError{Reason: fmt.Sprintf("Root partition is too small for requested image. Image virtual size: %d MB, Root size: %d MB", bytes/mib, p.RootMB)}
	case !p.PreserveEphemeral:
		return nil
	}
	if has := r.Disk.Ephemeral(); has.MB != p.EphemeralMB || has.Table != p.DiskLabel || has.MB == 0 {
		return &deploy.ParamError{Reason: fmt.Sprintf("preserve_ephemeral is set. The disk has an ephemeral partition of %d MiB in a table %q, and ephemeral_mb is %d, disk_label %q. Nothing was written",
			has.MB, has.Table, p.EphemeralMB, p.DiskLabel)}
	}
	return nil
}

// begins begins a write. The ephemeral partition is lost with what was on the disk, unless it is to stay.
func (r *run) begins(by disk.By, image string, p *agentapi.Partitions) {
	was := r.Disk.Ephemeral()
	r.Disk.Begin(by, image)
	if p != nil && p.PreserveEphemeral {
		r.Disk.Keep(was)
	}
}

// partitioned tells the partitions of a disk that a partition image was written to, and makes the ephemeral one.
func (r *run) partitioned(p *agentapi.Partitions, result *agentapi.PrepareImageResult) {
	if !p.PreserveEphemeral {
		r.Disk.Partition(p.EphemeralMB, p.DiskLabel)
	}
	r.rootUUID = uuid.NewString()
	result.RootUUID = r.rootUUID
	result.PartitionUUIDs = &agentapi.PartitionUUIDs{Root: r.rootUUID, ESP: "AB12-CD34", Partitions: map[string]string{"root": result.RootDevice + "p2", "efi system partition": result.RootDevice + "p1"}}
}
