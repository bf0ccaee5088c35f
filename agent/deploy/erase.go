package deploy

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// EraseMetadata makes the selected disks look empty: partition tables and superblocks at both
// ends are zeroed, and so are both ends of every partition that a table tells of.
func (d *Deployer) EraseMetadata(ctx context.Context, r hints.Rules) error {
	return d.each(ctx, r, func(out *disk.Disk) error {
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
func (d *Deployer) Erase(ctx context.Context, r hints.Rules, report func(agentapi.Progress)) error {
	// Pieces small enough to see progress and to stop between them.
	const piece = 256 << 20
	return d.each(ctx, r, func(out *disk.Disk) error {
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

// each does something to every disk that is to be erased and is not shared; it goes on after an
// error, so that as much as possible is erased, and returns them all. Nothing is touched where the
// node's rules cannot be kept to (hints.Rules.Decide).
func (d *Deployer) each(ctx context.Context, r hints.Rules, do func(*disk.Disk) error) error {
	decision, err := d.decide(ctx, r, false)
	if err != nil {
		return err
	}
	for _, s := range decision.Spared {
		d.Log.Warn("disk is not erased: "+s.Why, "disk", s.Disk.Name, "bytes", s.Disk.Size, "model", s.Disk.Model)
	}
	var errs []error
	for _, dev := range decision.Erased {
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
