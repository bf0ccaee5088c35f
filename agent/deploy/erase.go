package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// Selection says which of a machine's disks are to be erased: all but the kept ones. Removable
// ones are left alone, except the one that the root device hints name.
type Selection struct {
	Kept hints.Kept
	Root hints.Hints
}

// EraseMetadata makes the selected disks look empty: partition tables and superblocks at both
// ends are zeroed, and so are both ends of every partition that a table tells of.
func (d *Deployer) EraseMetadata(ctx context.Context, s Selection) error {
	return d.each(ctx, s, func(out *disk.Disk) error {
		for _, a := range partition.Areas(out) {
			n := min(disk.EndsSize, a.End-a.Start)
			if err := errors.Join(out.Zero(a.Start, n), out.Zero(a.End-n, n)); err != nil {
				return err
			}
		}
		return out.WipeEnds()
	})
}

// Erase makes the selected disks read as zero from start to end.
func (d *Deployer) Erase(ctx context.Context, s Selection, report func(agentapi.Progress)) error {
	// Pieces small enough to see progress and to stop between them.
	const piece = 256 << 20
	return d.each(ctx, s, func(out *disk.Disk) error {
		for off := int64(0); off < out.Size(); off += piece {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := out.Zero(off, min(piece, out.Size()-off)); err != nil {
				return err
			}
			report(agentapi.Progress{DoneBytes: min(off+piece, out.Size()), TotalBytes: out.Size()})
		}
		return nil
	})
}

// each does something to every selected disk that is not shared; it goes on after an error, so
// that as much as possible is erased, and returns them all. Nothing is touched where a disk that
// is to be kept cannot be told from the others.
func (d *Deployer) each(ctx context.Context, s Selection, do func(*disk.Disk) error) error {
	disks := d.Machine.Disks()
	if err := s.Kept.Check(disks); err != nil {
		return err
	}
	usable := s.Root.Usable(disks)
	for _, dev := range disks {
		if !slices.ContainsFunc(usable, func(u agentapi.Disk) bool { return u.Name == dev.Name }) {
			d.Log.Warn("disk is not erased: it is removable, and no root device hint names it", "disk", dev.Name, "bytes", dev.Size, "model", dev.Model)
		}
	}
	var errs []error
	var done []agentapi.Disk
	for _, dev := range s.Kept.Others(usable) {
		if i := slices.IndexFunc(done, func(other agentapi.Disk) bool { return hints.Same(dev, other) }); i >= 0 {
			d.Log.Info("disk is not erased again: it is another path to one", "disk", dev.Name, "to", done[i].Name)
			continue
		}
		done = append(done, dev)
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		d.Log.Info("erasing disk", "disk", dev.Name, "bytes", dev.Size, "serial", dev.Serial)
		out, err := disk.Open(dev.Name)
		if err == nil {
			if !d.EraseShared {
				err = refuseShared(out)
			}
			if err == nil {
				err = do(out)
			}
			if err == nil {
				err = out.Flush()
			}
			if err == nil {
				err = out.Verify()
			}
			if err == nil {
				err = d.reread(out)
			}
			out.Close()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("erasing disk %s: %w", dev.Name, err))
		}
	}
	d.root = ""
	return errors.Join(errs...)
}
