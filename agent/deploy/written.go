package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/agent/filesystem"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// UnjudgedError says that a disk may be the one that was written, and nothing tells whether it is.
type UnjudgedError struct {
	Disk agentapi.Disk
	Err  error
}

func (e *UnjudgedError) Error() string {
	return fmt.Sprintf("the agent looks for the disk that was written, and cannot judge %s (serial %q): %v. Look at this disk, its cable and its controller and deploy the node again, "+
		"or keep the disk (properties/skip_block_devices) if it is none of the instance's", e.Disk.Name, e.Disk.Serial, e.Err)
}

func (e *UnjudgedError) Unwrap() error { return e.Err }

// FaultType names the error in the agent's API as ironic-python-agent does.
func (e *UnjudgedError) FaultType() string { return "BlockDeviceError" }

// written returns the disk that Prepare wrote last, and the number of the root partition if it was a partition image. An agent
// that has started again since finds it by the identifier that Prepare returned. Each deploy of an image leaves the same identifier. So a
// kept disk, which may hold a former instance, is left out, and each other disk must be judged.
func (d *Deployer) written(ctx context.Context, id string, kept hints.Kept) (dev agentapi.Disk, root int, err error) {
	var none agentapi.Disk
	if d.root.Name != "" && d.partitions == nil {
		return d.root, 0, nil
	}
	if d.root.Name != "" {
		root, err := d.identified(ctx, d.root, d.partitions.Root)
		if err == nil && root == nil {
			err = &ParamError{fmt.Sprintf("disk %s no longer has the identifier %s that was written to it: deploy the node again", d.root.Name, d.partitions.Root)}
		}
		if err != nil {
			return none, 0, err
		}
		return d.root, *root, nil
	}
	if id == "" {
		return none, 0, &ParamError{"no image was written since the agent started: run standby.prepare_image first"}
	}
	var disks []agentapi.Disk
	var unfit []agentapi.UnfitDisk
	if _, err := d.Machine.Settled(ctx, false, func(all []agentapi.Disk, others []agentapi.UnfitDisk) (err error) {
		disks, unfit, err = kept.Leave(all, others)
		return err
	}); err != nil {
		return none, 0, err
	}
	for _, u := range unfit {
		if !u.Removable { // the written disk may have failed, or may still be mounted
			return none, 0, &UnjudgedError{u.Disk, errors.New("it is " + u.Why)}
		}
	}
	var found []string
	for _, o := range disks {
		number, err := d.identified(ctx, o, id)
		if err != nil {
			return none, 0, err
		}
		if number != nil {
			found, dev, root = append(found, o.Name), o, *number
		}
	}
	if len(found) != 1 {
		return none, 0, &ParamError{fmt.Sprintf("the agent has started again since the image was written, and of this machine's disks %d have the written disk's identifier %s (%s): deploy the node again",
			len(found), id, strings.Join(found, ", "))}
	}
	return dev, root, nil
}

// identified returns 0 where a disk's partition table has the identifier, and the number of the partition whose file system has it; nil
// where neither has.
func (d *Deployer) identified(ctx context.Context, chosen agentapi.Disk, id string) (*int, error) {
	dev, err := d.open(ctx, chosen)
	if err != nil {
		return nil, &UnjudgedError{chosen, err}
	}
	defer dev.Close()
	table, err := partition.Read(dev)
	if errors.Is(err, partition.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, &UnjudgedError{chosen, err}
	}
	if strings.EqualFold(table.ID(), id) {
		return new(int), nil
	}
	for _, p := range table.Partitions() {
		fs, err := filesystem.Identify(dev.Part(dev.Name(), p.Start, p.Size))
		if err != nil && !errors.Is(err, filesystem.ErrUnknown) {
			return nil, &UnjudgedError{chosen, fmt.Errorf("partition %d: %w", p.Number, err)}
		}
		if err == nil && strings.EqualFold(fs.UUID, id) {
			return &p.Number, nil
		}
	}
	return nil, nil
}
