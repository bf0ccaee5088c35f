package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// EraseMetadata makes the selected disks look empty: partition tables and superblocks at both
// ends are overwritten with zeros, and so are both ends of every partition that a table tells of.
func (d *Deployer) EraseMetadata(ctx context.Context, r hints.Rules) error {
	return d.each(ctx, r, nil, func(out *disk.Disk) error {
		for _, a := range lastTheTables(partition.Areas(out), out.Size()) {
			n := min(disk.EndsSize, a.End-a.Start)
			if err := errors.Join(out.Overwrite(a.Start, n), out.Overwrite(a.End-n, n)); err != nil {
				return err
			}
		}
		return out.WipeEnds()
	})
}

// lastTheTables puts areas that hold tables behind those which the tables tell of: a step that is repeated finds what it has not erased.
func lastTheTables(areas []partition.Area, size int64) []partition.Area {
	rank := func(a partition.Area) int {
		switch {
		case slices.Contains([]string{"05", "0f", "85"}, a.Type): // where the chain of logical partitions begins
			return 2
		case a.Start < disk.EndsSize || a.End > size-disk.EndsSize: // a GPT, or its copy
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(areas), func(a, b partition.Area) int { return rank(a) - rank(b) })
}

// Erase overwrites the selected disks with zeros from start to end. Nothing is unmapped: a disk may leave on its medium what it
// unmaps.
func (d *Deployer) Erase(ctx context.Context, r hints.Rules, report func(agentapi.Progress)) error {
	// Pieces small enough to see progress and to stop between them.
	const piece = 256 << 20
	all := new(sum)
	return d.each(ctx, r, all.begin, func(out *disk.Disk) error {
		for off := int64(0); off < out.Size(); off += piece {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n := min(piece, out.Size()-off)
			if err := out.Overwrite(off, n); err != nil {
				return err
			}
			report(all.add(n))
		}
		return nil
	})
}

// sum is the progress of all disks together. Safe for concurrent use.
type sum struct {
	mu sync.Mutex
	of agentapi.Progress
}

func (s *sum) begin(disks []agentapi.Disk) {
	for _, d := range disks {
		s.of.TotalBytes += d.Size
	}
}

func (s *sum) add(done int64) agentapi.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.DoneBytes += done
	return s.of
}

// erasedAtOnce is how many disks are erased side by side. It is Ironic's disk_erasure_concurrency.
const erasedAtOnce = 4

// each does something to every disk that is to be erased and is not shared, after begin, if not nil, was told which they are. It
// goes on after an error, so that as much as possible is erased, and returns them all. Disks that are to be erased and cannot be
// are such an error. Nothing is touched where the node's rules cannot be kept to (hints.Rules.Decide).
//
// An erasure takes hours, and the kernel's names may pass to other disks meanwhile. So each disk is opened before the first is touched,
// and stays open until the machine was looked at for the last time.
func (d *Deployer) each(ctx context.Context, r hints.Rules, begin func([]agentapi.Disk), do func(*disk.Disk) error) error {
	decision, err := d.decide(ctx, r, false)
	if err != nil {
		return err
	}
	for _, s := range decision.Spared {
		d.Log.Warn("disk is not erased: "+s.Why, "disk", s.Disk.Name, "bytes", s.Disk.Size, "model", s.Disk.Model)
	}
	if len(decision.Erased) == 0 {
		d.Log.Warn("no disk is erased")
	}
	if begin != nil {
		begin(decision.Erased)
	}
	var errs []error
	var opened []*disk.Disk
	var held []agentapi.Disk // the disks of opened
	for _, dev := range decision.Erased {
		out, err := d.openUnjudged(dev)
		if err != nil {
			errs = append(errs, fmt.Errorf("erasing disk %s: %w", dev.Name, err))
			continue
		}
		defer out.Close()
		opened, held = append(opened, out), append(held, dev)
	}
	if err := d.same(ctx, held...); err != nil {
		return errors.Join(append(errs, fmt.Errorf("nothing is erased: %w", err))...)
	}
	failed := make([]error, len(opened))
	var g errgroup.Group
	g.SetLimit(erasedAtOnce)
	for i, out := range opened {
		g.Go(func() error {
			if err := d.eraseOne(ctx, out, held[i], do); err != nil {
				failed[i] = fmt.Errorf("erasing disk %s: %w", out.Name(), err)
			}
			return nil
		})
	}
	_ = g.Wait() // all are tried, and failed tells of each
	d.root = agentapi.Disk{}
	errs = append(errs, failed...)
	if err := d.after(ctx, r, decision, held); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, decision.Cleaned())...)
}

// eraseOne does something to one disk, and looks whether it is there.
func (d *Deployer) eraseOne(ctx context.Context, out *disk.Disk, dev agentapi.Disk, do func(*disk.Disk) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.Log.Info("erasing disk", "disk", dev.Name, "bytes", dev.Size, "serial", dev.Serial)
	if !d.EraseShared {
		if err := refuseShared(out); err != nil {
			return err
		}
	}
	if err := do(out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if err := out.Verify(); err != nil {
		return err
	}
	return d.reread(out)
}
