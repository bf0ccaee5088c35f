package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// OtherDiskError says that a disk's name no longer means the disk that was chosen.
type OtherDiskError struct {
	Chosen agentapi.Disk
	Now    *agentapi.Disk // what has the name; nil: no disk has it
}

func (e *OtherDiskError) Error() string {
	now := "is gone"
	if e.Now != nil {
		now = "is another disk now, with " + identity(*e.Now)
	}
	return fmt.Sprintf("%s, which was chosen with %s, %s: the kernel has given names again; look at this disk, its cable and its controller, and repeat the step",
		e.Chosen.Name, identity(e.Chosen), now)
}

// FaultType names the error in the agent's API as ironic-python-agent does.
func (e *OtherDiskError) FaultType() string { return "BlockDeviceError" }

// identity is what tells a disk from others, for people.
func identity(d agentapi.Disk) string {
	k := d.Known()
	return fmt.Sprintf("serial %q, WWN %q and %d bytes", k.Serial, k.WWN, k.Size)
}

// same looks at the machine once more and fails for each disk whose name, serial number, WWN or size is not as it was chosen. Kernel names
// pass to other disks when a controller is reset, but not while the disk is open. So it is asked once the disk is open.
func (d *Deployer) same(ctx context.Context, chosen ...agentapi.Disk) error {
	if len(chosen) == 0 {
		return nil
	}
	_, err := d.Machine.Settled(ctx, true, func(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) error {
		return others(chosen, disks, unfit)
	})
	return err
}

// others is an error for each disk whose name does not mean, in a look at the machine, the disk that was chosen.
func others(chosen, disks []agentapi.Disk, unfit []agentapi.UnfitDisk) error {
	there := slices.Clone(disks)
	for _, u := range unfit { // a disk may be read-only by now, and is still that disk
		there = append(there, u.Disk)
	}
	var errs []error
	for _, c := range chosen {
		at := slices.IndexFunc(there, func(o agentapi.Disk) bool { return o.Name == c.Name })
		if at < 0 {
			errs = append(errs, &OtherDiskError{Chosen: c})
		} else if there[at].Known() != c.Known() {
			errs = append(errs, &OtherDiskError{Chosen: c, Now: &there[at]})
		}
	}
	return errors.Join(errs...)
}

// after looks at the machine once an erasure is over. It fails for each disk of held that is not there as it was. It also fails for each
// disk that the rules have erased by now, and that was not there when they chose: nothing of it is erased, whether it can be or not.
func (d *Deployer) after(ctx context.Context, r hints.Rules, chosen hints.Decision, held []agentapi.Disk) error {
	if len(held) == 0 { // no time has passed
		return nil
	}
	_, err := d.Machine.Settled(ctx, true, func(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) error {
		var errs []error
		if err := others(held, disks, unfit); err != nil {
			errs = append(errs, fmt.Errorf("a disk that is not there as it was does not count as erased: %w", err))
		}
		now, err := r.Decide(disks, unfit)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		known := slices.Clone(chosen.Erased)
		for _, u := range chosen.Unerased { // the caller tells of these
			known = append(known, u.Disk)
		}
		there := func(n agentapi.Disk) bool {
			return slices.ContainsFunc(known, func(c agentapi.Disk) bool { return c.Name == n.Name })
		}
		for _, n := range now.Erased {
			if !there(n) {
				errs = append(errs, fmt.Errorf("disk %s (%s) came while the others were erased, and is not erased: repeat the step", n.Name, identity(n)))
			}
		}
		if came := slices.DeleteFunc(now.Unerased, func(u agentapi.UnfitDisk) bool { return there(u.Disk) }); len(came) > 0 {
			errs = append(errs, &hints.UnerasedError{Disks: came})
		}
		return errors.Join(errs...)
	})
	return err
}

// open opens a chosen disk exclusively, and fails if its name means another one by now.
func (d *Deployer) open(ctx context.Context, chosen agentapi.Disk) (*disk.Disk, error) {
	out, err := d.openUnjudged(chosen)
	if err != nil {
		return nil, err
	}
	if err := d.same(ctx, chosen); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// openUnjudged opens a chosen disk exclusively. The caller asks same before it writes.
func (d *Deployer) openUnjudged(chosen agentapi.Disk) (*disk.Disk, error) {
	out, err := disk.Open(chosen.Name)
	if err != nil {
		return nil, err
	}
	if out.Size() != chosen.Size {
		now := chosen
		now.Size = out.Size()
		return nil, errors.Join(&OtherDiskError{Chosen: chosen, Now: &now}, out.Close())
	}
	return out, nil
}

// hold keeps a chosen disk's name from passing to another disk until the file is closed. It takes no exclusive use: programs of the image
// and the kernel's target open the disk by its name meanwhile.
func (d *Deployer) hold(ctx context.Context, chosen agentapi.Disk) (*os.File, error) {
	held, err := os.Open(chosen.Name)
	if err != nil {
		return nil, fmt.Errorf("opening disk: %w", err)
	}
	if err := d.same(ctx, chosen); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}
