package mediaboot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// What an instance without a disk has in the drives of its machine stays there for as long as it is deployed. It is a medium that rackds
// make of its kernel and ramdisk, or an image of a CD at an address of its user's. Its config drive is a second one.

// fieldDrive of instance_info says that the node keeps a config drive (driver.Task has it).
const fieldDrive = "configdrive"

// ValidateInstanceFiles implements driver.InstanceBooter.
func (i Interface) ValidateInstanceFiles(n *node.Document) error {
	if err := instancefiles.Validate(n); err != nil {
		return err
	}
	if n.InstanceString(fieldInstance) != "" {
		return i.check(n, "instance_info "+fieldInstance, n.InstanceString(fieldInstance))
	}
	for _, field := range []string{instancefiles.Kernel, instancefiles.Ramdisk} {
		if u, err := url.Parse(n.InstanceString(field)); err != nil || u.Scheme == "tftp" {
			return fmt.Errorf("node %s: instance_info %s is a URL of scheme tftp: %s: %w", n.Label(), field, unreadable, driver.ErrInvalid)
		}
	}
	if err := i.makesNone(n); err != nil {
		return err
	}
	load, _ := instanceLoad(n)
	for _, word := range load.Params {
		switch {
		case strings.Contains(word, "'"):
			return fmt.Errorf("node %s: the parameter %.60q of the instance's kernel holds a ', by which the boot loader of a medium ends words: remove it: %w", n.Label(), word, driver.ErrInvalid)
		case strings.Count(word, `"`)%2 != 0:
			return fmt.Errorf("node %s: a parameter of the instance's kernel holds a space between quotes (%.60q…), which the boot loader of a medium does not pass on: write it without, or choose the boot interface ipxe: %w",
				n.Label(), word, driver.ErrInvalid)
		}
	}
	return nil
}

// makesNone says why no medium can be made of an instance's kernel and ramdisk here.
func (i Interface) makesNone(n *node.Document) error {
	arch, _ := n.Properties["cpu_arch"].(string)
	var why error
	switch {
	case i.problem == nil:
		why = errors.New("this rackd serves no media")
	case slices.Contains(noGRUB, strings.ToLower(arch)):
		why = fmt.Errorf("its machine is %s, and rackd makes images with a GRUB for x86_64", arch)
	default:
		why = i.problem(n.BootMode())
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("node %s: no bootable image of the instance's kernel and ramdisk can be made for boot mode %s: %w: give instance_info %s, the URL of a ready one: %w",
		n.Label(), n.BootMode(), why, fieldInstance, driver.ErrInvalid)
}

// instanceLoad is what the machine of an instance loads that is a kernel and a ramdisk, as the node's fields say alone.
func instanceLoad(n *node.Document) (bootorder.Load, bool) {
	return (Interface{}).InstanceMedium(&node.Document{UUID: n.UUID, DriverInfo: n.DriverInfo, InstanceInfo: n.InstanceInfo,
		InstanceFiles: map[string]string{instancefiles.Kernel: "", node.FileMedium: "none yet"}}, nil)
}

// InstanceMedium implements driver.InstanceMediumMaker.
func (Interface) InstanceMedium(n *node.Document, facts map[string]string) (bootorder.Load, bool) {
	if instancefiles.Of(n, facts)[node.FileMedium] == "" {
		return bootorder.Load{}, false
	}
	o, boots := instancefiles.Order(n, facts)
	if !boots || o.Load == nil {
		return bootorder.Load{}, false
	}
	return *o.Load, true
}

// InstanceMedia implements driver.InstanceMediumMaker.
func (Interface) InstanceMedia(n *node.Document, facts map[string]string) (work, drive string) {
	files := instancefiles.Of(n, facts)
	return files[node.FileMedium], files[node.FileDrive]
}

// DriveNames implements driver.InstanceMediumMaker.
func (Interface) DriveNames(n *node.Document, facts map[string]string) (instance, name string) {
	files := instancefiles.Of(n, facts)
	return files[node.FileDriveOf], files[node.FileDriveName]
}

// InstanceURL implements driver.InstanceLoader.
func (i Interface) InstanceURL(n *node.Document) string {
	if work, _ := i.InstanceMedia(n, nil); i.by == byDrive || work != "" {
		return ""
	}
	return imageOf(n)
}

// DesertedInstance implements driver.InstanceMediumMaker. What is behind a base URL of the node's own, no rackd knows.
func (i Interface) DesertedInstance(t *driver.Task) bool {
	at := instancefiles.Of(t.Node, t.Facts)[node.FileMediumAt]
	return at != "" && at != t.Node.DriverString(fieldExternal) && t.Media != nil && !t.Media.Served(at)
}

// ReadyInstance implements driver.InstanceMediumMaker.
func (i Interface) ReadyInstance(ctx context.Context, t *driver.Task) error {
	var boot slot
	if i.by == byDrive && !volume.Boots(t.Node) {
		var err error
		if boot, err = bootSlotNow(ctx, t); err != nil {
			return err
		}
	}
	sum, second, err := i.readyDrive(ctx, t)
	if err != nil {
		return err
	}
	if err := instancefiles.FetchForMedium(ctx, t, sum); err != nil {
		return err
	}
	work, _ := i.InstanceMedia(t.Node, t.Facts)
	load, makes := i.InstanceMedium(t.Node, t.Facts)
	switch {
	case work == "":
		return nil
	case t.Media == nil:
		return fmt.Errorf("node %s: this rackd serves no media, and the instance needs one: %w", t.Node.Label(), driver.ErrInvalid)
	case makes:
		if err := t.Media.CheckInstance(t.Node, load); err != nil {
			return fmt.Errorf("node %s: the instance's medium cannot be made: %w", t.Node.Label(), err)
		}
		if err := checkSigned(ctx, t, true); err != nil {
			return err
		}
	}
	if _, err = i.ownBase(t); err != nil { // the machine may run an instance still
		return err
	}
	var kinds []string
	if makes {
		kinds = append(kinds, boot.kind)
	}
	if sum != "" {
		kinds = append(kinds, second.kind)
	}
	return i.readyTrust(ctx, t, kinds)
}

// readyDrive makes the instance's config drive, and returns its SHA-256 and the type of drive that it goes into; empty: it has none, or
// comes from no drive of its BMC.
func (i Interface) readyDrive(ctx context.Context, t *driver.Task) (sum string, second slot, err error) {
	if i.by == byHTTP || t.ConfigDrive == nil {
		return "", slot{}, nil
	}
	text, err := t.ConfigDrive(ctx)
	if err != nil {
		return "", slot{}, fmt.Errorf("node %s: get the config drive: %w", t.Node.Label(), err)
	}
	if text == "" {
		return "", slot{}, nil
	}
	image, err := configdrive.Image(text)
	if err != nil {
		return "", slot{}, fmt.Errorf("node %s: the config drive: %w: %w", t.Node.Label(), err, driver.ErrInvalid)
	}
	if second, err = secondSlotNow(ctx, t, configDrive); err != nil {
		return "", slot{}, err
	}
	digest := sha256.Sum256(image)
	return hex.EncodeToString(digest[:]), second, nil
}

// second is a medium beside that which a machine boots from, for people: what it is, that which boots, and what to do without it.
type second struct{ what, has, booted, instead string }

var configDrive = second{"the config drive", "the instance has a config drive", "the instance", "Put the data into the instance's image, and deploy without configdrive"}

// whereInstance is the base URL at which the machine finds the instance's media: where it was told before, while a rackd lives there,
// else at this rackd, or below the node's own base URL. here: this rackd serves them.
func (i Interface) whereInstance(t *driver.Task) (base string, live, here bool, err error) {
	own, err := i.ownBase(t)
	if err != nil {
		return "", false, false, err
	}
	at := instancefiles.Of(t.Node, t.Facts)[node.FileMediumAt]
	if live = at != "" && (at == own || t.Media.Served(at)); live {
		return at, true, at == own, nil
	}
	return own, false, true, nil
}

// serveInstance has the instance's media answer from now on, and tells the machine where they are. Those that are in their drives stay
// there, for a machine may boot from them. boots: the machine boots from one of them.
func (i Interface) serveInstance(ctx context.Context, t *driver.Task, boot slot) (boots bool, err error) {
	work, driveSum := i.InstanceMedia(t.Node, t.Facts)
	load, makes := i.InstanceMedium(t.Node, t.Facts)
	if work == "" {
		return false, i.takeOutInstance(ctx, t)
	}
	if t.Media == nil {
		return false, fmt.Errorf("node %s: this rackd serves no media, and the instance needs one: %w", t.Node.Label(), driver.ErrInvalid)
	}
	base, _, here, err := i.whereInstance(t)
	if err != nil {
		return false, err
	}
	if makes && here {
		if err := instancefiles.Bring(ctx, t); err != nil {
			return false, err
		}
		if err := t.Media.CheckInstance(t.Node, load); err != nil {
			return false, fmt.Errorf("node %s: the instance's medium cannot be made: %w", t.Node.Label(), err)
		}
	}
	if makes {
		if err := driver.SetBootMode(ctx, t); err != nil { // no ramdisk may have booted before
			return false, err
		}
	}
	if err := instancefiles.NoteMediumAt(t, base); err != nil {
		return false, err
	}
	t.Facts[driver.FactReadied] = "yes" // who ends this flow before its end takes them out
	t.Media.PublishInstance()
	var stay []string
	for _, part := range []driver.InstancePart{driver.InstanceBoot, driver.InstanceDrive} {
		text, err := t.Media.InstanceURL(base, work, part)
		if err != nil {
			return false, fmt.Errorf("node %s: the addresses of the instance's media: %w", t.Node.Label(), err)
		}
		if part == driver.InstanceBoot {
			text = boot.address(text)
		}
		if part == driver.InstanceBoot && makes || part == driver.InstanceDrive && driveSum != "" {
			stay = append(stay, text)
		}
	}
	if err := i.takeOutInstance(ctx, t, stay...); err != nil { // those of an instance before, and of rackds that have gone
		return false, err
	}
	if driveSum != "" {
		s, err := secondSlotNow(ctx, t, configDrive)
		if err != nil {
			return false, err
		}
		if err := i.put(ctx, t, base, work, driver.InstanceDrive, s); err != nil {
			return false, err
		}
	}
	if !makes {
		return false, nil
	}
	return true, i.put(ctx, t, base, work, driver.InstanceBoot, boot)
}

// put tells the machine of one of the instance's media.
func (i Interface) put(ctx context.Context, t *driver.Task, base, work string, part driver.InstancePart, into slot) error {
	text, err := t.Media.InstanceURL(base, work, part)
	if err != nil {
		return fmt.Errorf("node %s: the instance's media: %w", t.Node.Label(), err)
	}
	switch {
	case i.by == byHTTP:
		err = setHTTP(ctx, t, text, true)
	case part == driver.InstanceBoot:
		if err := i.trust(ctx, t, into.kind); err != nil {
			return err
		}
		err = attach(ctx, t, into, into.address(text))
	default:
		var m driver.VirtualMedia
		if m, err = media(t); err != nil {
			return err
		}
		if err := i.trust(ctx, t, into.kind); err != nil {
			return err
		}
		err = driver.Settle(func() error { return m.AttachMedia(ctx, t.Fence, t.Node, into.kind, text) })
	}
	if err != nil {
		return err
	}
	t.Record.Phase(phases[i.by], fmt.Sprintf("%s, from %s", parts[part], hostOf(base)))
	return nil
}

// What the history says of media of instances. Their addresses are secret.
var (
	phases = map[way]string{byDrive: "virtual media", byHTTP: "HTTP boot"}
	parts  = map[driver.InstancePart]string{driver.InstanceBoot: "an image of the instance's kernel and ramdisk", driver.InstanceDrive: "the instance's config drive"}
)

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "rackd"
	}
	return u.Host
}

// takeOutInstance takes what rackds have served of the node's instances out of the drives, but for some. What others have put in stays.
func (i Interface) takeOutInstance(ctx context.Context, t *driver.Task, stay ...string) error {
	if i.by == byHTTP || t.Node.InstanceFiles[node.FileMedium] == "" && instancefiles.Of(t.Node, t.Facts)[node.FileMedium] == "" {
		return nil
	}
	m, err := media(t)
	if err != nil {
		return err
	}
	ours := func(image string) bool {
		return strings.Contains(image, madeFor(t.Node)) && !slices.Contains(stay, image)
	}
	for _, s := range allSlots {
		err := driver.Settle(func() error { return m.EjectImage(ctx, t.Fence, t.Node, s.kind, ours) })
		if err != nil && !errors.Is(err, driver.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// KeepInstance implements driver.InstanceMediumMaker.
func (i Interface) KeepInstance(ctx context.Context, t *driver.Task) error {
	work, driveSum := i.InstanceMedia(t.Node, t.Facts)
	_, makes := i.InstanceMedium(t.Node, t.Facts)
	if work == "" || t.Media == nil {
		return nil
	}
	at, live, here, err := i.whereInstance(t)
	if err != nil {
		return err
	}
	if makes && here {
		if err := instancefiles.Bring(ctx, t); err != nil {
			return err
		}
	}
	if i.by == byHTTP {
		if !makes {
			return nil
		}
		if live {
			if holds, err := holdsHTTP(ctx, t); err != nil || holds {
				return err
			}
		}
		if err := i.put(ctx, t, at, work, driver.InstanceBoot, slot{}); err != nil {
			return err
		}
		return instancefiles.NoteMediumAt(t, at)
	}
	m, err := media(t)
	if err != nil {
		return err
	}
	list, err := m.Media(ctx, t.Node)
	if err != nil {
		return fmt.Errorf("node %s: look for the instance's media in the virtual drives: %w", t.Node.Label(), err)
	}
	if driveSum != "" {
		s, err := secondSlotOf(t, list, configDrive)
		if err != nil {
			return err
		}
		if err := i.putMissing(ctx, t, list, at, work, driver.InstanceDrive, s); err != nil {
			return err
		}
	}
	if makes {
		s, err := bootSlotOf(t, list)
		if err != nil {
			return err
		}
		if err := i.putMissing(ctx, t, list, at, work, driver.InstanceBoot, s); err != nil {
			return err
		}
	}
	return instancefiles.NoteMediumAt(t, at)
}

// holdsHTTP reports whether the BMC still has the machine load a URL by HTTP. Where that was not set for all starts, or a request has set
// another device since, there is nothing to hold.
func holdsHTTP(ctx context.Context, t *driver.Task) (bool, error) {
	if t.LastBootSet() != driver.BootHTTP {
		return true, nil
	}
	is, err := t.Hardware.Management().BootDevice(ctx, t.Node)
	if err != nil {
		return false, fmt.Errorf("node %s: look whether the BMC still has the firmware load the instance by HTTP: %w", t.Node.Label(), err)
	}
	once := is.Device != "" && is.Persistent != nil && !*is.Persistent
	return once || is.Device == string(driver.BootHTTP), nil
}

// putMissing puts one of the instance's media into its drive, unless it is there.
func (i Interface) putMissing(ctx context.Context, t *driver.Task, list []hardware.Media, at, work string, part driver.InstancePart, s slot) error {
	text, err := t.Media.InstanceURL(at, work, part)
	if err != nil {
		return fmt.Errorf("node %s: the addresses of the instance's media: %w", t.Node.Label(), err)
	}
	if part == driver.InstanceBoot {
		text = s.address(text)
	}
	if !missing(t.Node, list, s, at, text) {
		return nil
	}
	return i.put(ctx, t, at, work, part, s)
}

// missing reports whether drives of a type lack one of the instance's media, which is at text, below at. Where all that are full hold what
// others have put in, that stays. A ramdisk's medium of rackd's that was left there, or one by a code of before, answers no more.
func missing(n *node.Document, list []hardware.Media, s slot, at, text string) bool {
	others, ended := false, false
	path := text[max(strings.Index(text, madeFor(n)), 0):]
	for _, d := range list {
		switch {
		case !s.fits(d) || !d.Inserted:
		case strings.HasPrefix(d.Image, strings.TrimRight(at, "/")) && strings.Contains(d.Image, path):
			return false
		case strings.Contains(d.Image, madeFor(n)):
			ended = true // or it is at a rackd that has gone
		default:
			others = true
		}
	}
	return ended || !others
}
