package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/agent/configdrive"
	"github.com/ironyard/ironyard/agent/disk"
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
	// parts is what the disk of a partition image is to be, and layout where; nil: the image is a whole disk.
	parts  *agentapi.Partitions
	layout layout
}

// same reports whether what was written to one may stay for the other.
func (e exported) same(as exported) bool {
	return e.disk.Name == as.disk.Name && e.disk.Known() == as.disk.Known() && (e.parts == nil) == (as.parts == nil) && maps.Equal(e.layout.places, as.layout.places)
}

// lay says where the partitions of a partition image lie on a disk that is open.
func (e *exported) lay(out *disk.Disk, drive []byte, uefi bool) (err error) {
	if e.layout, err = plan(out, e.parts, drive, uefi); err != nil || !e.parts.PreserveEphemeral {
		return err
	}
	return e.layout.keep(out)
}

// wipe makes that a disk which is open does not boot. An ephemeral partition that is to stay, stays.
func (e exported) wipe(d *Deployer, out *disk.Disk) error {
	if e.parts == nil {
		return out.WipeEnds()
	}
	return newPartitioning(d, out, e.layout, e.parts.PreserveEphemeral).empty()
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
	if err := checkType(&p.Image); err != nil {
		return none, err
	}
	drive, err := driveOf(p.ConfigDrive)
	if err != nil {
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
	d.root, d.partitions = agentapi.Disk{}, nil
	held, err := d.hold(ctx, dev) // the target opens the disk by its name, and keeps it from then on
	if err != nil {
		return none, err
	}
	defer held.Close()
	now := exported{disk: dev, parts: p.Image.Partitions}
	if err := d.readied(ctx, &now, drive, p); err != nil {
		return none, err
	}
	port, err := d.Target.Start(ctx, dev.Name, iscsitarget.Options{IQN: p.IQN, Initiator: p.Initiator, Port: p.PortalPort, From: []netip.Prefix{netip.PrefixFrom(from, from.BitLen())},
		User: p.User, Secret: p.Secret, TargetUser: p.TargetUser, TargetSecret: p.TargetSecret})
	if err != nil {
		return none, err
	}
	if now.id = d.exported.id; !now.same(d.exported) || p.WipeDiskMetadata {
		now.id = uuid.NewString()
	}
	d.exported = now
	root := now.layout.places[forRoot]
	return agentapi.StartISCSIResult{IQN: p.IQN, RootDevice: dev.Name, Disk: now.id, Port: port, LUN: iscsitarget.LUN, RootOffset: root.Start, RootBytes: root.Size}, nil
}

// driveOf is a config drive as it is written; nil: there is none.
func driveOf(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	return configdrive.Decode(text)
}

// unused looks that the kernel uses a disk for nothing else.
func (d *Deployer) unused(ctx context.Context, chosen agentapi.Disk) error {
	out, err := d.open(ctx, chosen)
	if err != nil {
		return err
	}
	return out.Close()
}

// readied looks that the kernel uses a disk for nothing else, and lays it out for a partition image. It wipes what the disk held if that
// is asked for.
func (d *Deployer) readied(ctx context.Context, now *exported, drive []byte, p agentapi.StartISCSIParams) error {
	out, err := d.open(ctx, now.disk)
	if err != nil {
		return err
	}
	defer out.Close()
	if now.parts != nil {
		if err := now.lay(out, drive, d.uefi()); err != nil {
			return err
		}
		if root := now.layout.places[forRoot].Size; p.ImageBytes > root {
			return rootTooSmall(p.ImageBytes, false, root)
		}
	}
	if !p.WipeDiskMetadata {
		return nil
	}
	return now.wipe(d, out)
}

// Finish ends the target and makes the image on its disk an instance's: partition table, config drive, and all that lies beside a
// partition image. It returns what Prepare does.
func (d *Deployer) Finish(ctx context.Context, p agentapi.FinishISCSIParams) (agentapi.PrepareImageResult, error) {
	var none agentapi.PrepareImageResult
	if d.exported.id == "" || d.exported.id != p.Disk {
		return none, &GoneError{}
	}
	drive, err := driveOf(p.ConfigDrive)
	if err != nil {
		return none, err
	}
	if err := d.Target.Stop(); err != nil {
		return none, err
	}
	was, chosen := d.exported, d.exported.disk
	if room := was.layout.places[forDrive].Size; was.parts != nil && int64(len(drive)) > room {
		return none, &ParamError{fmt.Sprintf("the config drive has %d bytes, and the disk was laid out for one of up to %d: deploy the node again", len(drive), room)}
	}
	out, err := d.open(ctx, chosen)
	if err != nil {
		return none, err // rackd has the disk wiped by its name
	}
	defer out.Close()
	d.exported = exported{}
	if was.parts != nil {
		return d.finishPartitions(ctx, was, out, drive)
	}
	id, err := d.finish(out, drive, p.ImageBytes)
	if err != nil {
		return none, err
	}
	d.root = chosen
	d.Log.Info("image written by iSCSI", "disk", chosen.Name)
	return agentapi.PrepareImageResult{RootDevice: chosen.Name, RootUUID: id}, nil
}

// finishPartitions makes what lies beside a partition image that a rackd has written, and then the table.
func (d *Deployer) finishPartitions(ctx context.Context, was exported, out *disk.Disk, drive []byte) (agentapi.PrepareImageResult, error) {
	w := newPartitioning(d, out, was.layout, was.parts.PreserveEphemeral)
	w.touched = true
	err := w.judge("just written")
	if err == nil {
		err = w.finish(drive)
	}
	if err != nil {
		return agentapi.PrepareImageResult{}, w.undo(err)
	}
	result, err := w.complete(ctx, was.disk, was.parts)
	if err == nil {
		d.Log.Info("partition image written by iSCSI", "disk", was.disk.Name, "table", was.layout.kind, "root_uuid", w.root.UUID)
	}
	return result, err
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
	out, oerr := d.open(ctx, d.exported.disk)
	if oerr != nil {
		return errors.Join(err, oerr)
	}
	defer out.Close()
	if err := errors.Join(err, d.exported.wipe(d, out)); err != nil {
		return err
	}
	d.exported = exported{}
	return nil
}
