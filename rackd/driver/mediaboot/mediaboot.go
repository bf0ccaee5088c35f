// Package mediaboot is the boot interfaces whose ramdisk is an image of a CD. With redfish-virtual-media the BMC shows it to its
// machine as a CD or as a USB stick. With redfish-https the machine's UEFI firmware loads it by HTTP, with ilo-uefi-https by HTTPS
// alone. Drivers of vendors have them under names of theirs. By virtual media no DHCP, TFTP or boot script is needed.
//
// It may import rackd/driver, rackd/driver/ownramdisk, rackd/driver/instancefiles,
// rackd/driver/volume, rackd/bootorder, rackd/configdrive, rackd/outbound and protocol.
//
// A rackd makes the image for each boot, of kernel, ramdisk and parameters (driver.Media). A node may bring an image
// of its own instead, driver_info deploy_iso. That one has to know the address of the control plane's API.
// With config_via_removable it looks for a second medium instead, on which a rackd tells it the parameters of its boot.
package mediaboot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/driver/volume"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Fields with Ironic's names: of driver_info, and of instance_info.
const (
	fieldRescue    = "rescue_iso"
	fieldExternal  = "external_http_url"
	fieldRemovable = "config_via_removable"
	fieldFloppy    = "config_via_floppy"
	fieldLoader    = "bootloader"
	persistField   = "force_persistent_boot_device"
	fieldInstance  = "boot_iso"
)

// Interface implements driver.Boot. Immutable, safe for concurrent use.
type Interface struct {
	by      way
	problem func(mode string) error
	rack    ownramdisk.Rack // nil: what the rack has is not known
	// secure: the machine's firmware loads by https alone. served: this rackd serves firmware so.
	secure, served bool
}

// way is how an image gets to the machine.
type way int

const (
	byDrive way = iota
	byHTTP
)

// VirtualMedia has the BMC show the image to its machine. problem says why this rackd makes no image that starts on machines
// of a boot mode; nil: it makes none.
func VirtualMedia(problem func(mode string) error) Interface {
	return Interface{by: byDrive, problem: problem}
}

// HTTPBoot has the machine's firmware load the image.
func HTTPBoot(problem func(mode string) error) Interface {
	return Interface{by: byHTTP, problem: problem}
}

// HTTPSBoot is HTTPBoot for firmware that loads by https alone, as that of iLOs does by ilo-uefi-https. served tells whether this rackd
// has a certificate to serve it with.
func HTTPSBoot(problem func(mode string) error, served bool) Interface {
	return Interface{by: byHTTP, problem: problem, secure: true, served: served}
}

// Of is the interface for machines of a rack that has these ramdisks.
func (i Interface) Of(r ownramdisk.Rack) Interface {
	i.rack = r
	return i
}

// Properties names what is read of the node.
func (i Interface) Properties() map[string]string {
	all := ownramdisk.Properties()
	all[ownramdisk.ImageField] = "URL (http or https) of the ramdisk as a bootable image; the agent in it must know the URL of this API, or be told by a second medium (" + fieldRemovable + "). Network_data does not reach it. Default: rackd makes an image for each boot, of kernel and ramdisk. Optional."
	all[fieldRescue] = "The same as " + ownramdisk.ImageField + ", of the ramdisk for rescues. Default: rackd makes an image, of the kernel and ramdisk for rescues. Optional."
	all[fieldExternal] = "Base URL (http or https) at which the BMC reaches rackd's web server, where that is another than the rack's: of a proxy or balancer. Default: rackd's own address, by TLS for firmware where rackd has --https-certificate. Optional."
	all[fieldHTTPS] = "true or verify: the BMC loads the images that rackd makes by https, from rackd's --https-port. With verify its drives are told to verify the server, and are given rackd's certificate; a BMC that cannot is refused. Default: by http. Optional."
	all[fieldRemovable] = "With " + ownramdisk.ImageField + " or " + fieldRescue + " alone. true: the parameters of each boot are on a second medium: a floppy disk with the label ir-vfd-dev and the file parameters.txt. It goes into the BMC's virtual drive of a USB stick, else of a floppy, which is another than that which the machine boots from. The image's own kernel parameters have to hold boot_method=vmedia. Optional."
	all[fieldFloppy] = "The former name of " + fieldRemovable + ". Optional."
	all[fieldLoader] = "Refused: images are made with the GRUB of rackd's host. Optional."
	all[persistField] = "Default, Always or Never: whether to set the boot device for good or for one boot. " +
		"Default: for one boot into the ramdisk, for good into the instance. Optional."
	if i.secure {
		for name, says := range all {
			all[name] = strings.ReplaceAll(says, "(http or https)", "(https)")
		}
	}
	return all
}

// IgnoredInfo implements driver.InfoIgnorer: a ready image has its own kernel, ramdisk and parameters.
func (i Interface) IgnoredInfo(n *node.Document) map[string]string {
	if n.DriverString(ownramdisk.ImageField) == "" {
		return nil
	}
	const why = "the node's " + ownramdisk.ImageField + " has its own"
	ignored := map[string]string{ownramdisk.KernelField: why, ownramdisk.RamdiskField: why}
	if !removable(n) && n.DriverString(fieldRescue) != "" {
		ignored[ownramdisk.ParamsField] = why + "; a second medium (" + fieldRemovable + ") would bring them"
	}
	return ignored
}

// InstanceFields names what is read of instance_info.
func (i Interface) InstanceFields() []string {
	read := []string{fieldInstance, ownramdisk.ParamsField}
	if i.by == byDrive {
		read = append(read, fieldDrive)
	}
	return read
}

// Validate asks for an image that the BMC can load, or that can be made here.
func (i Interface) Validate(n *node.Document) error {
	if err := i.checkRemovable(n); err != nil {
		return err
	}
	if n.DriverString(fieldLoader) != "" {
		return fmt.Errorf("node %s: driver_info %s: rackd makes images with the GRUB of its host, and takes no other boot loader: remove the field, or give a ready image as %s: %w", n.Label(), fieldLoader, ownramdisk.ImageField, driver.ErrInvalid)
	}
	switch f := n.DriverString(persistField); f {
	case "", "Default", "Always", "Never":
	default:
		return fmt.Errorf("node %s: driver_info %s is %q: give Default, Always or Never: %w", n.Label(), persistField, f, driver.ErrInvalid)
	}
	if err := i.checkHTTPS(n); err != nil {
		return err
	}
	if err := i.checkMode(n); err != nil {
		return err
	}
	if text := n.DriverString(ownramdisk.ImageField); text != "" {
		if err := i.check(n, "driver_info "+ownramdisk.ImageField, text); err != nil || !removable(n) {
			return err
		}
		return ownramdisk.ValidateParams(n) // its second medium tells them
	}
	if own := imageOf(n); own != "" {
		if err := i.check(n, "instance_info "+fieldInstance, own); err != nil || i.cannot(n, false) != nil {
			return err // its deploys boot no ramdisk
		}
	}
	if text := n.DriverString(fieldExternal); text != "" {
		if err := i.check(n, "driver_info "+fieldExternal, text); err != nil {
			return err
		}
	}
	if err := i.cannot(n, false); err != nil {
		return err
	}
	return errors.Join(ownramdisk.Validate(n, i.rack, unreadable, "tftp"), checkNetwork(n, outbound.OwnAddresses))
}

// checkMode refuses an image by HTTP for a machine in BIOS mode.
func (i Interface) checkMode(n *node.Document) error {
	if i.by == byHTTP && n.BootMode() != "uefi" {
		return fmt.Errorf("node %s: its boot mode is %s, and only UEFI firmware loads an image by HTTP: %w", n.Label(), n.BootMode(), driver.ErrInvalid)
	}
	return nil
}

// unreadable is why a ramdisk's files may not be of some schemes.
const unreadable = "rackd reads what it puts into an image by http, https or file"

// ready is the field of driver_info that names a ready image of the ramdisk which the node boots in its state.
func ready(n *node.Document) string {
	if ownramdisk.Rescued(n) {
		return fieldRescue
	}
	return ownramdisk.ImageField
}

// cannot says why no image can be made for the node here, or none for its rescue.
func (i Interface) cannot(n *node.Document, rescue bool) error {
	if i.problem == nil {
		return fmt.Errorf("node %s: this rackd serves no media: give driver_info %s, the URL of the ramdisk as a bootable image: %w", n.Label(), ownramdisk.ImageField, driver.ErrInvalid)
	}
	if arch := ownramdisk.Arch(n, i.rack, rescue); slices.Contains(noGRUB, strings.ToLower(arch)) {
		return fmt.Errorf("node %s: its machine, or the kernel that the rack has for it, is %s. Rackd makes images with a GRUB for x86_64. Give driver_info %s, the URL of the ramdisk as a bootable image, or use the boot interface http: %w", n.Label(), arch, ready(n), driver.ErrInvalid)
	}
	if err := i.problem(n.BootMode()); err != nil {
		return fmt.Errorf("node %s: no bootable image can be made for boot mode %s: %w: %w", n.Label(), n.BootMode(), err, driver.ErrInvalid)
	}
	if i.secure && !i.served && n.DriverString(fieldExternal) == "" {
		return noCertificate(n)
	}
	return nil
}

// noGRUB are architectures for which rackd makes no images.
var noGRUB = []string{"aarch64", "arm64", "ppc64le", "ppc64", "riscv64"}

// ValidateRescue asks for an image for rescues that the BMC can load, or that can be made here.
func (i Interface) ValidateRescue(n *node.Document) error {
	if text := n.DriverString(fieldRescue); text != "" {
		return i.check(n, "driver_info "+fieldRescue, text)
	}
	if err := i.cannot(n, true); err != nil {
		return err
	}
	return ownramdisk.ValidateRescue(n, i.rack, unreadable, "tftp")
}

// check refuses an image that the machine's firmware or BMC does not load.
func (i Interface) check(n *node.Document, field, text string) error {
	if u, err := url.Parse(text); i.secure && (err != nil || u.Host == "" || u.Scheme != "https") {
		return fmt.Errorf("node %s: %s is not an https URL, and its firmware loads by https alone: %w", n.Label(), field, driver.ErrInvalid)
	}
	return check(n, field, text)
}

func check(n *node.Document, field, text string) error {
	u, err := url.Parse(text)
	switch {
	case err == nil && (u.Scheme == "nfs" || u.Scheme == "cifs" || u.Scheme == "smb"):
		return fmt.Errorf("node %s: %s is a URL of scheme %s: rackd has BMCs load images by http and https alone: %w", n.Label(), field, u.Scheme, driver.ErrInvalid)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("node %s: %s is not an http or https URL: %w", n.Label(), field, driver.ErrInvalid)
	}
	return nil
}

// RamdiskOrder says that there is nothing for the machine on the network.
func (i Interface) RamdiskOrder(n *node.Document, _ map[string]string) bootorder.Order {
	if i.by == byHTTP {
		return bootorder.Refuse(fmt.Sprintf("Node %s boots its ramdisk from a URL that its BMC has set, and not by a boot script.", n.Label()))
	}
	return bootorder.Refuse(fmt.Sprintf("Node %s boots its ramdisk from a virtual medium, and not from the network: see which boot device its BMC has set.", n.Label()))
}

// InstanceOrder sends a machine that asks the network to its disk, or to the volume that its firmware attaches.
func (Interface) InstanceOrder(n *node.Document, _ map[string]string) bootorder.Order {
	if volume.Boots(n) {
		return bootorder.FirmwareVolume()
	}
	return bootorder.LocalDisk()
}

// BootsFromMedium reports whether the image is in a drive, from which the machine may read for as long as it runs the ramdisk.
func (i Interface) BootsFromMedium() bool { return i.by == byDrive }

// imageOf is the URL of the image of a CD that is the node's instance; empty: its deploy interface boots none, whatever
// instance_info names.
func imageOf(n *node.Document) string {
	if !instancefiles.Counts(n) {
		return ""
	}
	return n.InstanceString(fieldInstance)
}

// InstanceOnMedium implements driver.MediumBooter.
func (i Interface) InstanceOnMedium(n *node.Document, facts map[string]string) bool {
	work, _ := i.InstanceMedia(n, facts)
	return i.by == byDrive && !volume.Boots(n) && (work != "" || imageOf(n) != "")
}

// Medium implements driver.MediumMaker.
func (Interface) Medium(n *node.Document, facts map[string]string) (bootorder.Load, bool) {
	if n.DriverString(ready(n)) != "" {
		return bootorder.Load{}, false
	}
	return ownramdisk.Load(n, facts), true
}

// factAt is where the medium of this boot is served, by base URL.
const factAt = "medium_at"

// Deserted implements driver.MediumMaker. What is behind a base URL of the node's own, no rackd knows.
func (Interface) Deserted(t *driver.Task) bool {
	at := cmp.Or(t.Facts[factAt], t.Facts[factParametersAt])
	return at != "" && at != t.Node.DriverString(fieldExternal) && t.Media != nil && !t.Media.Served(at)
}

// PrepareRamdisk makes the next boot one from the ramdisk's image.
func (i Interface) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	var boot slot
	if i.by == byDrive {
		var err error
		if boot, err = bootSlotNow(ctx, t); err != nil {
			return err
		}
	}
	text, err := i.image(ctx, t, boot)
	if err != nil {
		return err
	}
	second, err := i.parametersSlot(ctx, t)
	if err != nil {
		return err
	}
	t.Facts[driver.FactBoot] = driver.BootRamdisk
	if err := driver.SetBootMode(ctx, t); err != nil {
		return err
	}
	if err := i.checkMode(t.Node); err != nil { // of a node that asks for no mode the machine's counts, which is known now
		return err
	}
	if i.by == byHTTP {
		return i.load(ctx, t, text, false)
	}
	if err := i.takeOutInstance(ctx, t); err != nil {
		return err
	}
	if err := i.insertParameters(ctx, t, second); err != nil {
		return err
	}
	if err := insert(ctx, t, boot, text); err != nil {
		return err
	}
	remember(ctx, t, boot, text)
	return device(ctx, t, boot.device, false)
}

// image returns the URL of the ramdisk's image for that drive: the node's own, or one that is made here from now on.
func (i Interface) image(ctx context.Context, t *driver.Task, boot slot) (string, error) {
	delete(t.Facts, factAt)
	field := ready(t.Node)
	if text := t.Node.DriverString(field); text != "" {
		if err := i.check(t.Node, "driver_info "+field, text); err != nil {
			return "", err
		}
		return text, i.reach(ctx, t, "driver_info "+field, text)
	}
	if t.Media == nil {
		return "", fmt.Errorf("node %s: this rackd serves no media: give driver_info %s, the URL of the ramdisk as a bootable image: %w", t.Node.Label(), field, driver.ErrInvalid)
	}
	if err := t.Media.Problem(t.Node.BootMode()); err != nil {
		return "", fmt.Errorf("node %s: no bootable image can be made for boot mode %s: %w: %w", t.Node.Label(), t.Node.BootMode(), err, driver.ErrInvalid)
	}
	if err := checkSigned(ctx, t, false); err != nil {
		return "", err
	}
	if err := ownramdisk.Fetch(ctx, t); err != nil {
		return "", err
	}
	base, err := i.ownBase(t)
	if err != nil {
		return "", err
	}
	if err := i.trust(ctx, t, boot.kind); err != nil {
		return "", err
	}
	text, err := t.Media.Publish(base)
	if err != nil {
		return "", err
	}
	t.Facts[factAt] = base
	return boot.address(text), nil
}

// reach refuses an image that a BMC is not told to read. A node's owner or an instance's user names it, and the BMC is in networks that
// neither is in. What firmware loads by HTTP, it loads from its machine's own networks.
func (i Interface) reach(ctx context.Context, t *driver.Task, field, text string) error {
	if i.by == byHTTP || t.Reach == nil {
		return nil
	}
	if err := t.Reach(ctx, text); err != nil {
		return fmt.Errorf("node %s: %s: the BMC is not told to read it: its %w: %w", t.Node.Label(), field, err, driver.ErrInvalid)
	}
	return nil
}

// CleanUpRamdisk takes the ramdisk's image out. What an operator has put in stays.
func (i Interface) CleanUpRamdisk(ctx context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	delete(t.Facts, factAt)
	if t.Media != nil {
		t.Media.Withdraw()
		t.Media.WithdrawInstance()
	}
	if i.by == byHTTP {
		// What the firmware was told counts for one boot, or at each start where the node says so (persistField). The address of an
		// image that rackd makes has ended; one of the node's own is an operator's ramdisk, and the next order takes its place.
		return nil
	}
	if err := i.takeOutInstance(ctx, t); err != nil {
		return err
	}
	m, err := media(t)
	if err != nil {
		return err
	}
	failed := i.takeOutParameters(ctx, t)
	for _, s := range bootSlots {
		err := driver.Settle(func() error { return m.EjectImage(ctx, t.Fence, t.Node, s.kind, ours(t)) })
		if errors.Is(err, driver.ErrUnsupported) && t.Facts[factImages] == "" {
			err = nil // nothing was ever inserted
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// PrepareInstance makes the machine boot the instance's image, or its disk, from now on.
func (i Interface) PrepareInstance(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactBoot] = driver.BootInstance
	delete(t.Facts, factAt)
	if t.Media != nil {
		t.Media.Withdraw()
	}
	if err := i.takeOutParameters(ctx, t); err != nil {
		return err
	}
	if volume.Boots(t.Node) {
		return i.fromVolume(ctx, t)
	}
	if err := volume.ClearFirmware(ctx, t); err != nil {
		return err
	}
	var boot slot
	if i.by == byDrive && i.InstanceOnMedium(t.Node, t.Facts) {
		var err error
		if boot, err = bootSlotNow(ctx, t); err != nil {
			return err
		}
	}
	boots, err := i.serveInstance(ctx, t, boot)
	text := imageOf(t.Node)
	switch {
	case err != nil:
		return err
	case boots && i.by == byHTTP:
		return nil
	case boots:
		return device(ctx, t, boot.device, true)
	case text != "" && i.by == byHTTP:
		return i.load(ctx, t, text, true)
	case text != "":
		if err := i.reach(ctx, t, "instance_info "+fieldInstance, text); err != nil {
			return err
		}
		if err := insert(ctx, t, boot, text); err != nil {
			return err
		}
		return device(ctx, t, boot.device, true)
	case i.by == byDrive:
		if err := eject(ctx, t); err != nil {
			return err
		}
	}
	return device(ctx, t, driver.BootDisk, true)
}

// CleanUpInstance takes the instance's images out of their drives and ends their addresses, and takes its volume from the firmware. A
// machine that boots one of them at each start boots its disk instead.
func (i Interface) CleanUpInstance(ctx context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	if t.Media != nil {
		t.Media.WithdrawInstance()
	}
	failed := errors.Join(i.takeOutInstance(ctx, t), i.takeOutParameters(ctx, t))
	if i.by == byDrive {
		failed = errors.Join(failed, eject(ctx, t))
	}
	failed = errors.Join(failed, volume.ClearFirmware(ctx, t))
	if i.bootsOther(t) {
		err := device(ctx, t, driver.BootDisk, true)
		if errors.Is(err, driver.ErrUnsupported) {
			t.Record.Phase("boot device", fmt.Sprintf("not set to %s, and the instance's may be left: %v", driver.BootDisk, err))
			err = nil
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil { // it is tried again, and has to know what is to be taken back
		return failed
	}
	return instancefiles.Forget(t)
}

// bootsOther reports whether the machine boots something else than its disk at each start, or may have been told to: as the node's
// instance asks for, or as was set before, by another instance perhaps.
func (i Interface) bootsOther(t *driver.Task) bool {
	if work, _ := i.InstanceMedia(t.Node, t.Facts); work != "" || volume.Boots(t.Node) || t.Node.InstanceString(fieldInstance) != "" {
		return true
	}
	return t.BootWasSet(cdSlot.device, stickSlot.device, driver.BootHTTP, driver.BootISCSI)
}

// load has the firmware load an image by HTTP.
func (i Interface) load(ctx context.Context, t *driver.Task, text string, persistent bool) error {
	if err := i.check(t.Node, "the image to boot", text); err != nil {
		return err
	}
	if err := setHTTP(ctx, t, text, persistent); err != nil {
		return err
	}
	return tell(t, "HTTP boot", "the firmware loads ", text)
}

// setHTTP makes a URL what the firmware loads.
func setHTTP(ctx context.Context, t *driver.Task, text string, asked bool) error {
	m, can := t.Hardware.Management().(driver.HTTPBooter)
	if !can {
		return driver.Unsupported(t.Node, "management", "boot by HTTP")
	}
	persistent := persists(t, asked)
	err := driver.Settle(func() error { return m.SetHTTPBoot(ctx, t.Fence, t.Node, text, persistent) })
	t.Keep()
	if err == nil {
		t.BootFor(driver.BootHTTP, asked, persistent)
	}
	return err
}

func insert(ctx context.Context, t *driver.Task, boot slot, text string) error {
	if err := check(t.Node, "the image to boot", text); err != nil {
		return err
	}
	if err := attach(ctx, t, boot, text); err != nil {
		return err
	}
	return tell(t, "virtual media", "the BMC shows ", text)
}

// tell tells people of an image. Who is allowed to read it may stand in its URL: of a node's own in user and query, of one that is
// made here in the path.
func tell(t *driver.Task, phase, what, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	name := u.Host + u.Path
	if t.Facts[factAt] != "" {
		name = "an image of kernel and ramdisk, from " + u.Host
	}
	t.Record.Phase(phase, what+name)
	return nil
}

// eject empties the drives that the machine would boot from. A BMC that has none has nothing to eject.
func eject(ctx context.Context, t *driver.Task) error {
	m, list, err := listed(ctx, t)
	if err != nil {
		return err
	}
	boot, err := bootSlotOf(t, list)
	if err != nil || !slices.ContainsFunc(list, func(d hardware.Media) bool { return d.Inserted && boot.fits(d) }) {
		return nil
	}
	return driver.Settle(func() error { return m.DetachMedia(ctx, t.Fence, t.Node, []string{boot.kind}) })
}

func media(t *driver.Task) (driver.VirtualMedia, error) {
	m, can := t.Hardware.Management().(driver.VirtualMedia)
	if !can {
		return nil, driver.Unsupported(t.Node, "management", "virtual media")
	}
	return m, nil
}

// device sets the boot device.
func device(ctx context.Context, t *driver.Task, d driver.BootDevice, asked bool) error {
	persistent := persists(t, asked)
	defer t.Keep()
	set := t.Hardware.Management().SetBootDevice
	if m, own := t.Hardware.Management().(driver.MediaBooter); own && (d == cdSlot.device || d == stickSlot.device) {
		set = m.SetMediaBoot
	}
	err := driver.Settle(func() error { return set(ctx, t.Fence, t.Node, d, persistent) })
	if err == nil {
		t.BootFor(d, asked, persistent)
	}
	return err
}

// persists says for how long a boot device is set: as persistent says, unless the field force_persistent_boot_device of
// driver_info says otherwise.
func persists(t *driver.Task, persistent bool) bool {
	switch t.Node.DriverString(persistField) {
	case "Always":
		return true
	case "Never":
		return false
	}
	return persistent
}
