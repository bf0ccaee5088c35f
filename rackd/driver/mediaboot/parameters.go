package mediaboot

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// A ramdisk in an image of the node's own is told the parameters of its boot on a second medium, where the node asks for one.

// Facts of a boot with such a medium: the base URL at which it is served, and the digests of what a drive may show that holds it.
const (
	factParametersAt = "parameters_at"
	factParameters   = "media_parameters"
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
	return secondSlotNow(ctx, t, parametersMedium)
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
	t.Facts[factParametersAt], t.Facts[factParameters] = base, digest(text)
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
	known := strings.Fields(t.Facts[factParameters])
	if i.by == byHTTP || len(known) == 0 && !removable(t.Node) {
		return nil
	}
	m, err := media(t)
	if err != nil {
		return err
	}
	meant := func(image string) bool {
		return strings.Contains(image, madeFor(t.Node)) && strings.HasSuffix(image, "/parameters.img") || slices.Contains(known, digest(image))
	}
	for _, s := range secondSlots {
		err := driver.Settle(func() error { return m.EjectImage(ctx, t.Fence, t.Node, s.kind, meant) })
		if err != nil && !errors.Is(err, driver.ErrUnsupported) {
			return err
		}
	}
	delete(t.Facts, factParameters)
	delete(t.Facts, factParametersAt)
	return nil
}
