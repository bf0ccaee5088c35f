package mediaboot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A BMC has virtual drives of a CD, of a USB stick and of a floppy, or of some of them. Machines boot from a CD, else from a stick. A
// second medium is an image of a disk, and goes into another drive than the one which the machine boots from.

// slot is a type of drives, with what BMCs call it. device is set for a machine that boots from it.
type slot struct {
	kind   string
	shown  []string
	device driver.BootDevice
}

var (
	cdSlot     = slot{"cdrom", []string{"CD", "DVD", "cdrom"}, "cdrom"}
	stickSlot  = slot{"disk", []string{"USBStick", "disk"}, driver.BootUSB}
	floppySlot = slot{"floppy", []string{"Floppy", "floppy"}, ""}

	// bootSlots are those that machines boot from, and secondSlots those of a second medium; the best first.
	bootSlots   = []slot{cdSlot, stickSlot}
	secondSlots = []slot{stickSlot, floppySlot}
	allSlots    = []slot{cdSlot, stickSlot, floppySlot}
)

// fits reports whether a drive is of this type.
func (s slot) fits(d hardware.Media) bool {
	return slices.ContainsFunc(d.Types, func(kind string) bool { return slices.Contains(s.shown, kind) })
}

// address is where the medium at a URL of rackd's is for such a drive: BMCs tell images of CDs and of disks by the ends of their names.
func (s slot) address(text string) string {
	if stem, is := strings.CutSuffix(text, "/boot.iso"); is && s.kind == stickSlot.kind {
		return stem + "/boot.img"
	}
	return text
}

// listed are the drives as the BMC shows them now.
func listed(ctx context.Context, t *driver.Task) (driver.VirtualMedia, []hardware.Media, error) {
	m, err := media(t)
	if err != nil {
		return nil, nil, err
	}
	list, err := m.Media(ctx, t.Node)
	if err != nil {
		return nil, nil, fmt.Errorf("node %s: look which virtual drives its BMC has: %w", t.Node.Label(), err)
	}
	return m, list, nil
}

// bootSlotNow is bootSlotOf for the drives as the BMC lists them now.
func bootSlotNow(ctx context.Context, t *driver.Task) (slot, error) {
	_, list, err := listed(ctx, t)
	if err != nil {
		return slot{}, err
	}
	return bootSlotOf(t, list)
}

// bootSlotOf returns the type of drive that the machine boots from.
func bootSlotOf(t *driver.Task, list []hardware.Media) (slot, error) {
	for _, s := range bootSlots {
		if slices.ContainsFunc(list, s.fits) {
			return s, nil
		}
	}
	return slot{}, fmt.Errorf("node %s: its BMC has no virtual drive of a CD or of a USB stick, from which its machine could boot an image: its drives are: %s. "+
		"Choose a boot interface that needs none, such as ipxe, http or redfish-https: %w", t.Node.Label(), typesOf(list), driver.ErrUnsupported)
}

// secondSlotNow is secondSlotOf for the drives as the BMC lists them now.
func secondSlotNow(ctx context.Context, t *driver.Task, of second) (slot, error) {
	_, list, err := listed(ctx, t)
	if err != nil {
		return slot{}, err
	}
	return secondSlotOf(t, list, of)
}

// secondSlotOf returns the type of drive for a second medium. A BMC that has none is refused. So is one whose only drive takes both: the
// medium is in it that boots the machine.
func secondSlotOf(t *driver.Task, list []hardware.Media, of second) (slot, error) {
	boot, err := bootSlotOf(t, list)
	if err != nil {
		return slot{}, err
	}
	for _, s := range secondSlots {
		fits, boots, both := false, 0, 0
		for _, d := range list {
			fits = fits || s.fits(d)
			if boot.fits(d) {
				boots++
				if s.fits(d) {
					both = 1
				}
			}
		}
		if fits && boots > both {
			return s, nil
		}
	}
	return slot{}, fmt.Errorf("node %s: %s, and its BMC has no second virtual drive, of a USB stick or a floppy, beside that which boots %s: its drives are: %s. %s: %w",
		t.Node.Label(), of.has, of.booted, typesOf(list), of.instead, driver.ErrInvalid)
}

// typesOf names drives by their types, for people.
func typesOf(list []hardware.Media) string {
	var there []string
	for _, d := range list {
		there = append(there, strings.Join(d.Types, "/"))
	}
	if len(there) == 0 {
		return "none"
	}
	return strings.Join(there, ", ")
}

// secondMedium tells the second media of a node from what else a drive may hold.
func secondMedium(t *driver.Task) func(image string) bool {
	known := strings.Fields(t.Facts[factParameters])
	return func(image string) bool {
		return slices.Contains(known, digest(image)) || strings.Contains(image, madeFor(t.Node)) &&
			(strings.HasSuffix(image, "/parameters.img") || strings.HasSuffix(image, "/configdrive.img"))
	}
}

// attach puts an image into a drive that the machine boots from. Where all of them are full, and the second medium is in one, what others
// have put in makes room, and not the second medium.
func attach(ctx context.Context, t *driver.Task, s slot, text string) error {
	m, list, err := listed(ctx, t)
	if err != nil {
		return err
	}
	isSecond, others, beside, room := secondMedium(t), []string(nil), false, false
	for _, d := range list {
		switch {
		case !s.fits(d):
		case !d.Inserted || d.Image == text:
			room = true
		case isSecond(d.Image):
			beside = true
		default:
			others = append(others, d.Image)
		}
	}
	if !room && beside && len(others) > 0 {
		if err := driver.Settle(func() error {
			return m.EjectImage(ctx, t.Fence, t.Node, s.kind, func(image string) bool { return image == others[0] })
		}); err != nil {
			return err
		}
	}
	// An image that is in the drive already is left there, so a write of which the outcome is unknown may be made again.
	return driver.Settle(func() error { return m.AttachMedia(ctx, t.Fence, t.Node, s.kind, text) })
}

// madeFor is in the addresses of all media that rackds serve for a node, as rackd/netboot/mediaweb names them.
func madeFor(n *node.Document) string { return "/media/" + n.UUID + "/" }
