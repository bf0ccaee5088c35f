package deploy

import (
	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/partition"
)

// starts lists where the disk's partitions begin; none if it has no readable table.
func starts(d *disk.Disk) []int64 {
	table, err := partition.Read(d)
	if err != nil {
		return nil
	}
	var out []int64
	for _, p := range table.Partitions() {
		if p.Start >= 0 && p.Start < d.Size() {
			out = append(out, p.Start)
		}
	}
	return out
}
