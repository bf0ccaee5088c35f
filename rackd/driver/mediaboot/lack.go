package mediaboot

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Facts of a boot. The first says how the BMC has shown the medium in its drive. The second is how many bytes
// were read of it at the last look, where that may be wrong.
const (
	factShown  = "media_shown"
	factUnread = "media_unread"
)

// MediumLack implements driver.MediumWatcher. A medium that the BMC has never shown under a name that is known is not missed while
// anything is in the drive.
func (i Interface) MediumLack(ctx context.Context, t *driver.Task) (driver.Lack, error) {
	if i.by != byDrive {
		return driver.Lack{}, nil
	}
	m, err := media(t)
	if err != nil {
		return driver.Lack{}, err
	}
	list, err := m.Media(ctx, t.Node)
	if err != nil {
		return driver.Lack{}, err
	}
	if lack, err := mediumLack(ctx, t, list); err != nil || lack.Why != "" {
		return lack, err
	}
	return parametersLack(t, list), nil
}

// mediumLack is of the medium that the machine boots from.
func mediumLack(ctx context.Context, t *driver.Task, list []hardware.Media) (driver.Lack, error) {
	var read driver.Reading
	at, here := t.Facts[factAt], false
	if t.Media != nil && at != "" {
		read, here = t.Media.Reading(), at == t.Media.Base() || at == t.Media.TLSBase()
	}
	sure := read.Known && read.Bytes < max(read.Needs, 1)
	boot, err := bootSlotOf(t, list)
	if err != nil {
		return driver.Lack{}, nil // it shows nothing that a machine boots from, and has never shown the medium
	}
	mine, seconds, drives, full := ours(t), secondMedium(t), []string(nil), false
	for _, d := range list {
		if !boot.fits(d) || d.Inserted && seconds(d.Image) {
			continue
		}
		name := strings.Join(d.Types, "/")
		switch {
		case (d.Inserted || d.Image != "") && mine(d.Image) && d.Problem != "":
			return driver.Lack{Why: fmt.Sprintf("the BMC shows the medium in its virtual drive %s, and that the machine cannot read it: %s", name, d.Problem), Sure: sure || !read.Known}, nil
		case (d.Inserted || d.Image != "") && mine(d.Image):
			return unread(ctx, t, name, read, here)
		case d.Inserted:
			full = true
			drives = append(drives, name+" (another image)")
		default:
			drives = append(drives, name+" (empty)")
		}
	}
	if len(drives) == 0 || t.Facts[factShown] == "" || full && t.Facts[factShown] != shownByName {
		return driver.Lack{}, nil
	}
	return driver.Lack{Why: "the medium was taken out at the BMC, whose virtual drives are: " + strings.Join(drives, ", "), Sure: sure}, nil
}

// shownByName is what factShown says of a BMC that shows an image by its URL, or by a name that was noted. It says the other where the
// drive was seen to be full alone.
const (
	shownByName = "by name"
	shownFull   = "full"
)

// unread looks at a drive that holds the medium, which this rackd serves. It is wrong that a machine past its firmware has asked for
// no byte. A machine comes there a moment before its firmware reads, so that it is said at the second look. Of a boot that began
// before this rackd ran the work, it is known alone that nothing was read between two looks: the machine may have lost its medium
// while this rackd was away.
func unread(ctx context.Context, t *driver.Task, drive string, read driver.Reading, here bool) (driver.Lack, error) {
	far := driver.Start(0)
	m, tells := t.Hardware.Management().(driver.StartTeller)
	if tells {
		var err error
		if far, err = m.Start(ctx, t.Node); err != nil {
			return driver.Lack{}, err
		}
	}
	if !here || read.Known && (read.Needs > 0 || far != driver.PastFirmware) || far == driver.InFirmware {
		delete(t.Facts, factUnread)
		return driver.Lack{}, nil
	}
	last, now := t.Facts[factUnread], strconv.FormatInt(read.Bytes, 10)
	t.Facts[factUnread] = now
	switch {
	case last != now:
		return driver.Lack{}, nil
	case read.Known:
		return driver.Lack{Why: fmt.Sprintf("the BMC shows the medium in its virtual drive %s and has not asked this rackd for a byte of it, and the machine is past its firmware", drive), Sure: true}, nil
	}
	return driver.Lack{Why: fmt.Sprintf("this rackd was away while the machine booted, and the medium in virtual drive %s is read no more", drive)}, nil
}
