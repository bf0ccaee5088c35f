package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/bootorder"
)

// A BMC that has accepted to eject shows its drives empty within looksAtDrives looks, drivesLook apart.
const (
	looksAtDrives = 8
	drivesLook    = time.Second
)

// EmptyDrives takes out of the machine's virtual drives what an instance's owner may have put in, and reads back. An
// image that stays is an error. A BMC that refuses to list its drives has taken no image through rackd either, and the
// history says so. Where all drives are empty nothing is written.
func EmptyDrives(ctx context.Context, t *Task) error {
	m, can := t.Hardware.Management().(VirtualMedia)
	if !can {
		return nil
	}
	list, err := m.Media(ctx, t.Node)
	switch {
	case errors.Is(err, ErrUnsupported):
		return nil
	case errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnknown) || ctx.Err() != nil:
		return err
	case err != nil:
		t.Record.Phase("not cleaned up", fmt.Sprintf("the virtual drives, which the BMC does not list: %v", err))
		return nil
	}
	in := inserted(list)
	if in == "" {
		return nil
	}
	if err := Settle(func() error { return m.DetachMedia(ctx, t.Fence, t.Node, nil) }); err != nil && !errors.Is(err, ErrUnknown) {
		return fmt.Errorf("take the images out of the virtual drives (%s): %w", in, err)
	}
	for range looksAtDrives {
		if list, err = m.Media(ctx, t.Node); err != nil {
			return fmt.Errorf("read back whether the virtual drives (%s) are empty: %w", in, err)
		}
		left := inserted(list)
		if left == "" {
			t.Record.Phase("virtual media", "taken out of "+in)
			return nil
		}
		in = left
		select {
		case <-time.After(drivesLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("node %s: the BMC accepted to eject, and %s later these virtual drives still hold an image: %s; empty them, then undeploy the node again",
		t.Node.Label(), looksAtDrives*drivesLook, in)
}

// TakeBackRamdisk takes back the boot into the ramdisk, of a machine that is off. After a tear-down it also empties the
// virtual drives of what was put in while the machine was cleaned.
func TakeBackRamdisk(ctx context.Context, t *Task) error {
	if err := t.Hardware.Boot().CleanUpRamdisk(ctx, t); err != nil || t.Facts[FactTornDown] == "" {
		return err
	}
	return EmptyDrives(ctx, t)
}

// Prepares notes, in a deploy and before the first order, that the machine is about to be told to boot its instance. The rackd that ends
// the flow without an instance takes that back, also where it is another.
func Prepares(ctx context.Context, t *Task) error {
	if t.Facts[FactPrepared] != "" {
		return nil
	}
	t.Facts[FactPrepared] = "yes"
	if handle := t.Record.Handle(); handle != nil {
		return t.Record.SaveHandle(ctx, handle)
	}
	return t.Record.SaveHandle(ctx, struct{}{})
}

// TakeBackInstance takes back what makes the machine boot an instance that is not to be: its medium, its volume, its boot device and its
// secure boot. So it does with what a boot interface has left that the node had before.
func TakeBackInstance(ctx context.Context, t *Task) error {
	failed := t.Hardware.Boot().CleanUpInstance(ctx, t)
	if failed == nil {
		failed = takeBackFormer(ctx, t)
	}
	return errors.Join(failed, SetSecureBoot(ctx, t, false))
}

// inserted names the drives that hold an image, by their types. Who may read an image may stand in its URL.
func inserted(list []hardware.Media) string {
	var kinds []string
	for _, d := range list {
		if kind := strings.Join(d.Types, "/"); d.Inserted && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, ", ")
}

// InstancePart is one of the media that rackds serve to the machine of an instance.
type InstancePart string

// The media of an instance: what it boots from, and its config drive.
const (
	InstanceBoot  InstancePart = "boot"
	InstanceDrive InstancePart = "drive"
)

// Media is this rackd's server of the media that ramdisks boot from, as a piece of work sees it. It serves those of instances, too.
type Media interface {
	// Problem says why no medium made here starts on machines of a boot mode; nil: it does.
	Problem(mode string) error
	// Signed reports whether UEFI with secure boot on starts a medium made here, by the keys that firmwares have from Microsoft.
	Signed() bool
	// Publish returns the URL of a medium for the boot into the ramdisk that the work counts next, below base; empty: at this
	// rackd's own address. What it holds the node's boot interface says (MediumMaker). It may be read from now on. No stranger
	// can guess the URL. It ends with the boot, and with Withdraw.
	Publish(base string) (string, error)
	// PublishParameters is Publish for a node's own image: a second medium with the parameters of that boot (ParametersMaker).
	PublishParameters(base string) (string, error)
	// Withdraw ends what was published.
	Withdraw()
	// Reading says how far what was published has been read.
	Reading() Reading
	// Base is where this rackd serves media, as Publish has it. Served reports whether a live rackd serves media at a base.
	Base() string
	Served(base string) bool
	// TLSBase is where this rackd serves media by TLS, with a certificate that firmware may be given; empty: it does not.
	TLSBase() string
	// TLSCertificates are those that this rackd shows there, in PEM, its own first; none: it serves nothing so.
	TLSCertificates() ([]string, error)
	// CheckInstance says why the medium of an instance cannot be made of its files, which are in the cache.
	CheckInstance(n *node.Document, load bootorder.Load) error
	// InstanceURL is the URL of a medium of the instance that the work with this id has deployed, below base. No stranger can
	// guess it.
	InstanceURL(base, work string, part InstancePart) (string, error)
	// PublishInstance has the media of the instance answer, as the work's facts have them now. They end with the facts.
	PublishInstance()
	// WithdrawInstance ends the media of the instance.
	WithdrawInstance()
}

// Reading is what this rackd knows of how a medium was read that it serves.
type Reading struct {
	// Known is false where another rackd, or this one before it started again, may have served some of it.
	Known bool
	// Bytes were read, parts that were read twice counted twice. A machine that boots from the medium reads at least Needs.
	Bytes, Needs int64
}

// Lack is why a machine does not boot its ramdisk from its medium.
type Lack struct {
	// Why is for people; empty: nothing is known to be wrong.
	Why string
	// Sure says that the machine has not read the ramdisk from the medium either.
	Sure bool
}

// MediumWatcher is implemented by boot interfaces whose ramdisk boots from a medium that may be lost before the machine has read it.
type MediumWatcher interface {
	// MediumLack says what the BMC, and what rackd's web server has seen, speak against the boot that is under way. It only reads.
	MediumLack(ctx context.Context, t *Task) (Lack, error)
}

// MediumMaker is implemented by boot interfaces whose ramdisk's medium a rackd makes, of kernel, ramdisk and parameters.
type MediumMaker interface {
	// Medium says what the medium of the node's ramdisk holds, from the node and the work's facts; ok is false where the
	// node brings an image of its own, which no rackd reads.
	Medium(n *node.Document, facts map[string]string) (l bootorder.Load, ok bool)
	// Deserted reports whether the medium of the boot that is under way is at a rackd that no longer lives, so that the
	// machine cannot go on with it.
	Deserted(t *Task) bool
}

// ParametersMaker is implemented by boot interfaces that bring the parameters of a boot to a node's own image, on a second medium.
type ParametersMaker interface {
	// Parameters says what the ramdisk in the node's own image is told; ok is false where it is told nothing.
	Parameters(n *node.Document) (l bootorder.Load, ok bool)
}

// InstanceMediumMaker is implemented by boot interfaces whose instances may read media from rackds.
type InstanceMediumMaker interface {
	// ReadyInstance brings what these media hold into the rack and notes it with the node, before the machine is touched. It
	// fails where the machine or the rack cannot do what the instance asks for.
	ReadyInstance(ctx context.Context, t *Task) error
	// InstanceMedium says what the medium holds that the instance boots from, from the node and the facts of its newest work; ok
	// is false where it boots from no medium of rackds.
	InstanceMedium(n *node.Document, facts map[string]string) (l bootorder.Load, ok bool)
	// InstanceMedia are the work that has deployed the instance, and the SHA-256 of its config drive; both may be empty.
	InstanceMedia(n *node.Document, facts map[string]string) (work, drive string)
	// DriveNames are the UUID and the name that the config drive was made with; the UUID is empty where they were not noted.
	DriveNames(n *node.Document, facts map[string]string) (instance, name string)
	// KeepInstance has the machine find these media where a rackd serves them: it puts in again what the BMC has lost, and what a
	// rackd served that no longer lives. What others have put in stays. It tells the machine nothing where all is well.
	KeepInstance(ctx context.Context, t *Task) error
	// DesertedInstance reports whether the machine was told of such media at a rackd that no longer lives, so that its instance may not
	// have started.
	DesertedInstance(t *Task) bool
}

// KeepsMedia returns the node's boot interface if its instance, which runs, reads media from rackds.
func (h *Hardware) KeepsMedia(n *node.Document) (InstanceMediumMaker, bool) {
	m, makes := h.impls["boot"].Impl.(InstanceMediumMaker)
	return m, makes && n.State == provision.Active && n.InstanceFiles[node.FileMedium] != ""
}

// MakesMedium reports whether a rackd makes the medium that the node's ramdisk boots from.
func (h *Hardware) MakesMedium(n *node.Document) bool {
	m, makes := h.impls["boot"].Impl.(MediumMaker)
	if !makes {
		return false
	}
	_, makes = m.Medium(n, nil)
	return makes
}

// TellsBoot reports whether a rackd makes a medium for each boot of the node's ramdisk, from which that learns the boot's id: the one that
// it boots from, or one with parameters beside the node's own image.
func (h *Hardware) TellsBoot(n *node.Document) bool {
	if h.MakesMedium(n) {
		return true
	}
	m, makes := h.impls["boot"].Impl.(ParametersMaker)
	if !makes {
		return false
	}
	_, makes = m.Parameters(n)
	return makes
}
