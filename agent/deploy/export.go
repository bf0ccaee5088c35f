package deploy

import (
	"context"
	"errors"
	"net/netip"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/agent/configdrive"
	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/agent/iscsitarget"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// Target makes a disk one of others' (agent/iscsitarget).
type Target interface {
	Start(ctx context.Context, disk string, o iscsitarget.Options) (port int, err error)
	Stop() error
}

// exported is a disk that a rackd writes to, or has written to.
type exported struct {
	id   string
	disk agentapi.Disk
}

// GoneError says that the agent does not know an exported disk: it has started again since.
type GoneError struct{}

func (*GoneError) Error() string {
	return "the agent has started again since it exported the disk, so it does not know which one was written: write the image anew"
}

// FaultType names the error.
func (*GoneError) FaultType() string { return agentapi.FaultISCSIGone }

// Export makes the disk that the image is for an iSCSI target, for the caller alone. A target of before ends.
func (d *Deployer) Export(ctx context.Context, p agentapi.StartISCSIParams, from netip.Addr) (agentapi.StartISCSIResult, error) {
	var none agentapi.StartISCSIResult
	if d.Target == nil {
		return none, &ParamError{"this agent does not run in a ramdisk, so it exports no disk"}
	}
	if err := d.Target.Stop(); err != nil {
		return none, err
	}
	h, err := hints.Parse(p.Image.RootDeviceHints)
	if err != nil {
		return none, &ParamError{err.Error()}
	}
	h.ByInstance = p.Image.RootByInstance
	kept, err := hints.ParseKept(p.Image.SkipBlockDevices)
	if err != nil {
		return none, &ParamError{err.Error()}
	}
	decision, err := d.decide(ctx, hints.Rules{Root: h, Kept: kept, Known: p.Image.KnownDisks, VolumesChanged: p.Image.VolumesChanged, MinBytes: p.Image.MinDiskBytes}, true)
	if err != nil {
		return none, err
	}
	dev := decision.Image
	if p.ImageBytes > dev.Size {
		return none, &image.TooSmallError{Disk: dev.Name, DiskBytes: dev.Size, ImgBytes: p.ImageBytes}
	}
	d.root = agentapi.Disk{}
	held, err := d.hold(ctx, dev) // the target opens the disk by its name, and keeps it from then on
	if err != nil {
		return none, err
	}
	defer held.Close()
	if err := d.emptied(ctx, dev, p.WipeDiskMetadata); err != nil {
		return none, err
	}
	port, err := d.Target.Start(ctx, dev.Name, iscsitarget.Options{IQN: p.IQN, Initiator: p.Initiator, Port: p.PortalPort, From: []netip.Prefix{netip.PrefixFrom(from, from.BitLen())},
		User: p.User, Secret: p.Secret, TargetUser: p.TargetUser, TargetSecret: p.TargetSecret})
	if err != nil {
		return none, err
	}
	if d.exported.disk.Name != dev.Name || d.exported.disk.Known() != dev.Known() || p.WipeDiskMetadata {
		d.exported = exported{uuid.NewString(), dev}
	}
	return agentapi.StartISCSIResult{IQN: p.IQN, RootDevice: dev.Name, Disk: d.exported.id, Port: port, LUN: iscsitarget.LUN}, nil
}

// emptied looks that the kernel uses a disk for nothing else, and wipes its ends if it is to be.
func (d *Deployer) emptied(ctx context.Context, chosen agentapi.Disk, wipe bool) error {
	dev, err := d.open(ctx, chosen)
	if err != nil {
		return err
	}
	defer dev.Close()
	if !wipe {
		return nil
	}
	return dev.WipeEnds()
}

// Finish ends the target and makes the image on its disk an instance's: partition table, config drive. It returns what Prepare does.
func (d *Deployer) Finish(ctx context.Context, p agentapi.FinishISCSIParams) (agentapi.PrepareImageResult, error) {
	var none agentapi.PrepareImageResult
	if d.exported.id == "" || d.exported.id != p.Disk {
		return none, &GoneError{}
	}
	var drive []byte
	var err error
	if p.ConfigDrive != "" {
		if drive, err = configdrive.Decode(p.ConfigDrive); err != nil {
			return none, err
		}
	}
	if err := d.Target.Stop(); err != nil {
		return none, err
	}
	chosen := d.exported.disk
	out, err := d.open(ctx, chosen)
	if err != nil {
		return none, err // rackd has the disk wiped by its name
	}
	defer out.Close()
	d.exported = exported{}
	id, err := d.finish(out, drive, p.ImageBytes)
	if err != nil {
		return none, err
	}
	d.root = chosen
	d.Log.Info("image written by iSCSI", "disk", chosen.Name)
	return agentapi.PrepareImageResult{RootDevice: chosen.Name, RootUUID: id}, nil
}

// StopExport ends the target, if there is one. The ends of the disk are wiped where wipe names it as Export did.
func (d *Deployer) StopExport(ctx context.Context, wipe string) error {
	if d.Target == nil {
		return nil
	}
	err := d.Target.Stop()
	if wipe == "" || wipe != d.exported.id {
		return err
	}
	if err := errors.Join(err, d.emptied(ctx, d.exported.disk, true)); err != nil {
		return err
	}
	d.exported = exported{}
	return nil
}
