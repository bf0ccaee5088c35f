package mediaboot

import (
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
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// A ramdisk in an image of the node's own is told the parameters of its boot on a second medium, where the node asks for one.

// Facts of a boot with such a medium: the base URL at which it is served, the digests of what a drive may show that holds it, and the type
// of that drive.
const (
	factParametersAt = "parameters_at"
	factParameters   = "media_parameters"
	factParametersIn = "parameters_in"
)

var parametersMedium = second{"the parameters of the ramdisk", "driver_info " + fieldRemovable + " asks for a second medium with the parameters of the ramdisk", "the ramdisk",
	"Remove the field, and give the agent in " + ownramdisk.ImageField + " the URL of this API by its own kernel parameters, or have rackd make the image, of kernel and ramdisk"}

// removable reports whether the node asks for a second medium.
func removable(n *node.Document) bool {
	for _, field := range []string{fieldRemovable, fieldFloppy} {
		if strings.EqualFold(n.DriverString(field), "true") {
			return true
		}
	}
	return false
}

// checkRemovable refuses a second medium that cannot be, or that has nothing to say.
func (i Interface) checkRemovable(n *node.Document) error {
	for _, field := range []string{fieldRemovable, fieldFloppy} {
		switch v := n.DriverString(field); {
		case v == "" || strings.EqualFold(v, "false"):
		case !strings.EqualFold(v, "true"):
			return fmt.Errorf("node %s: driver_info %s is %.20q: give true or false: %w", n.Label(), field, v, driver.ErrInvalid)
		case i.by == byHTTP:
			return fmt.Errorf("node %s: driver_info %s is true, and its firmware loads one image by HTTP, with no second medium: remove the field, or choose redfish-virtual-media: %w",
				n.Label(), field, driver.ErrInvalid)
		case n.DriverString(ownramdisk.ImageField) == "" && n.DriverString(fieldRescue) == "":
			return fmt.Errorf("node %s: driver_info %s is true, and rackd puts the parameters into the image that it makes: remove the field, or give a ready image as %s: %w",
				n.Label(), field, ownramdisk.ImageField, driver.ErrInvalid)
		case i.problem == nil:
			return fmt.Errorf("node %s: driver_info %s is true, and this rackd serves no media: remove the field: %w", n.Label(), field, driver.ErrInvalid)
		}
	}
	return nil
}

// Parameters implements driver.ParametersMaker.
func (i Interface) Parameters(n *node.Document) (bootorder.Load, bool) {
	if i.by == byHTTP || !removable(n) || n.DriverString(ready(n)) == "" {
		return bootorder.Load{}, false
	}
	return bootorder.Load{Params: ownramdisk.Load(n, nil).Params}, true
}

// parametersSlot is the type of drive for the second medium, before the machine is touched. Its kind is empty where there is no such
// medium.
func (i Interface) parametersSlot(ctx context.Context, t *driver.Task) (slot, error) {
	if _, tells := i.Parameters(t.Node); !tells {
		return slot{}, nil
	}
	if t.Media == nil {
		return slot{}, fmt.Errorf("node %s: driver_info %s is true, and this rackd serves no media: remove the field: %w", t.Node.Label(), fieldRemovable, driver.ErrInvalid)
	}
	_, list, err := listed(ctx, t)
	if err != nil {
		return slot{}, err
	}
	boot, err := bootSlotOf(t, list)
	if err != nil {
		return slot{}, err
	}
	empty := slices.DeleteFunc(slices.Clone(list), func(d hardware.Media) bool { return d.Inserted && !boot.fits(d) })
	if s, err := secondSlotOf(t, empty, parametersMedium); err == nil { // what others have put into the better drive may stay
		return s, nil
	}
	return secondSlotOf(t, list, parametersMedium)
}

// insertParameters puts the second medium of this boot into its drive. That of a boot before gives way.
func (i Interface) insertParameters(ctx context.Context, t *driver.Task, into slot) error {
	if err := i.takeOutParameters(ctx, t); err != nil || into.kind == "" {
		return err
	}
	base, err := i.ownBase(t)
	if err != nil {
		return err
	}
	if err := i.trust(ctx, t, into.kind); err != nil {
		return err
	}
	text, err := t.Media.PublishParameters(base)
	if err != nil {
		return err
	}
	m, err := media(t)
	if err != nil {
		return err
	}
	before, err := m.Media(ctx, t.Node)
	if err != nil {
		return fmt.Errorf("node %s: look into the virtual drives before the parameters go into one: %w", t.Node.Label(), err)
	}
	t.Facts[factParametersAt], t.Facts[factParameters], t.Facts[factParametersIn] = base, digest(text), into.kind
	if err := driver.Settle(func() error { return m.AttachMedia(ctx, t.Fence, t.Node, into.kind, text) }); err != nil {
		return err
	}
	if list, err := m.Media(ctx, t.Node); err == nil && len(list) == len(before) { // a BMC may show it under a name of its own
		for at, d := range list {
			if into.fits(d) && d.Inserted && d.Image != text && d.Image != before[at].Image {
				t.Facts[factParameters] += " " + digest(d.Image)
			}
		}
	}
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	t.Record.Phase("virtual media", "a second medium with the ramdisk's parameters, from "+u.Host)
	return nil
}

// takeOutParameters takes the second medium out of its drive, whichever rackd has served it. What others have put in stays.
func (i Interface) takeOutParameters(ctx context.Context, t *driver.Task) error {
	if i.by == byHTTP {
		return nil
	}
	m, err := media(t)
	if err != nil {
		return err
	}
	meant := isParameters(t)
	if t.Facts[factParameters] == "" && !removable(t.Node) { // it may have asked for one when its ramdisk was booted
		list, err := m.Media(ctx, t.Node)
		if errors.Is(err, driver.ErrUnsupported) || err == nil && !slices.ContainsFunc(list, func(d hardware.Media) bool { return d.Inserted && meant(d.Image) }) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("node %s: look for the ramdisk's parameters in the virtual drives: %w", t.Node.Label(), err)
		}
	}
	for _, s := range secondSlots {
		err := driver.Settle(func() error { return m.EjectImage(ctx, t.Fence, t.Node, s.kind, meant) })
		if err != nil && !errors.Is(err, driver.ErrUnsupported) {
			return err
		}
	}
	delete(t.Facts, factParameters)
	delete(t.Facts, factParametersAt)
	delete(t.Facts, factParametersIn)
	return nil
}

// isParameters tells the second medium of this node's boots from what others have put in.
func isParameters(t *driver.Task) func(image string) bool {
	known := strings.Fields(t.Facts[factParameters])
	return func(image string) bool {
		return strings.Contains(image, madeFor(t.Node)) && strings.HasSuffix(image, "/parameters.img") || slices.Contains(known, digest(image))
	}
}

// parametersLack says what speaks against the second medium of the boot that is under way. No rackd knows whether the ramdisk has read it.
// A drive that is full with something else may be one of a BMC that shows images under names of its own.
func parametersLack(t *driver.Task, list []hardware.Media) driver.Lack {
	meant, drives := isParameters(t), []string(nil)
	for _, s := range secondSlots {
		for _, d := range list {
			if s.kind != t.Facts[factParametersIn] || !s.fits(d) {
				continue
			}
			name := strings.Join(d.Types, "/")
			switch {
			case (d.Inserted || d.Image != "") && meant(d.Image) && d.Problem != "":
				return driver.Lack{Why: fmt.Sprintf("the BMC shows %s in its virtual drive %s, and that the machine cannot read it: %s", parametersMedium.what, name, d.Problem)}
			case d.Inserted:
				return driver.Lack{}
			}
			drives = append(drives, name+" (empty)")
		}
	}
	if len(drives) == 0 {
		return driver.Lack{}
	}
	return driver.Lack{Why: fmt.Sprintf("the medium with %s was taken out at the BMC, whose virtual drives for it are: %s", parametersMedium.what, strings.Join(drives, ", "))}
}
