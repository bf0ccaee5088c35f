package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/agent/filesystem"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// written returns the disk that Prepare wrote last, and the number of the root partition if it was a partition image. An agent
// that has started again since finds it by the identifier that Prepare returned.
func (d *Deployer) written(ctx context.Context, id string) (dev agentapi.Disk, root int, err error) {
	if d.root.Name != "" && d.partitions == nil {
		return d.root, 0, nil
	}
	if d.root.Name != "" {
		id = d.partitions.Root
	}
	var none agentapi.Disk
	if id == "" {
		return none, 0, &ParamError{"no image was written since the agent started: run standby.prepare_image first"}
	}
	disks, err := d.Machine.Settled(ctx, false, func([]agentapi.Disk, []agentapi.UnfitDisk) error { return nil })
	if err != nil {
		return none, 0, err
	}
	var found []agentapi.Disk
	for _, dev := range disks {
		if d.root.Name != "" && dev.Name != d.root.Name {
			continue
		}
		has, number, err := d.identified(ctx, dev, id)
		if err != nil {
			d.Log.Warn("disk left out of the search for the one that was written", "disk", dev.Name, "error", err)
		} else if has {
			found, root = append(found, dev), number
		}
	}
	if len(found) != 1 {
		var names []string
		for _, dev := range found {
			names = append(names, dev.Name)
		}
		return none, 0, &ParamError{fmt.Sprintf("the agent has started again since the image was written, and of this machine's disks %d have the written disk's identifier %s (%s): deploy the node again",
			len(found), id, strings.Join(names, ", "))}
	}
	return found[0], root, nil
}

// identified reports whether a disk's partition table has the identifier, or the file system of one of its partitions, and
// then which.
func (d *Deployer) identified(ctx context.Context, chosen agentapi.Disk, id string) (has bool, number int, err error) {
	dev, err := d.open(ctx, chosen)
	if err != nil {
		return false, 0, err
	}
	defer dev.Close()
	table, err := partition.Read(dev)
	if errors.Is(err, partition.ErrNone) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	if strings.EqualFold(table.ID(), id) {
		return true, 0, nil
	}
	for _, p := range table.Partitions() {
		if fs, err := filesystem.Identify(dev.Part(dev.Name(), p.Start, p.Size)); err == nil && strings.EqualFold(fs.UUID, id) {
			return true, p.Number, nil
		}
	}
	return false, 0, nil
}
