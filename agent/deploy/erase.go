package deploy

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// EraseMetadata makes every disk look empty: partition tables and superblocks at
// both ends are zeroed, and so are the starts of its partitions. Kept disks stay as they are.
func (d *Deployer) EraseMetadata(ctx context.Context, kept hints.Kept) error {
	return d.each(ctx, kept, func(out *disk.Disk) error {
		for _, start := range starts(out) {
			if err := out.Zero(start, min(disk.EndsSize, out.Size()-start)); err != nil {
				return err
			}
		}
		return out.WipeEnds()
	})
}

// Erase makes every disk but the kept ones read as zero from its start to its end.
func (d *Deployer) Erase(ctx context.Context, kept hints.Kept, report func(agentapi.Progress)) error {
	// Pieces small enough to see progress and to stop between them.
	const piece = 256 << 20
	return d.each(ctx, kept, func(out *disk.Disk) error {
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

// each does something to every disk that is not kept and not shared; it goes on after an error, so
// that as much as possible is erased, and returns them all.
func (d *Deployer) each(ctx context.Context, kept hints.Kept, do func(*disk.Disk) error) error {
	var errs []error
	for _, dev := range kept.Others(d.Machine.Disks()) {
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
