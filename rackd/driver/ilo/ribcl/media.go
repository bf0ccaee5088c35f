package ribcl

import (
	"context"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// drives are the virtual drives that images are put into by RIBCL, and what they take.
var drives = []struct{ name, kind, shown string }{{"CDROM", "cdrom", "CD"}, {"FLOPPY", "floppy", "Floppy"}}

// drive is a virtual drive.
type drive struct {
	inserted bool
	image    string
}

func (t *turn) drive(name string) (drive, error) {
	e, err := t.read(rib, "GET_VM_STATUS", map[string]string{"DEVICE": name}, "GET_VM_STATUS")
	return drive{e.attribute("IMAGE_INSERTED") == "YES", e.attribute("IMAGE_URL")}, err
}

// Media implements driver.VirtualMedia.
func (d *Driver) Media(ctx context.Context, n *node.Document) (list []hardware.Media, err error) {
	err = d.with(ctx, nil, n, "list the virtual media", func(t *turn) error {
		for _, v := range drives {
			is, err := t.drive(v.name)
			if err != nil {
				return err
			}
			list = append(list, hardware.Media{Inserted: is.inserted, Image: is.image, Types: []string{v.shown}})
		}
		return nil
	})
	return list, err
}

// AttachMedia implements driver.VirtualMedia. The image stays connected until it is ejected, and reads back.
func (d *Driver) AttachMedia(ctx context.Context, f driver.Fence, n *node.Document, mediaType, url string) error {
	return d.with(ctx, f, n, "attach virtual media", func(t *turn) error {
		at := slices.IndexFunc(drives, func(v struct{ name, kind, shown string }) bool { return v.kind == mediaType })
		if at < 0 {
			return fmt.Errorf("it has no virtual drive of type %s: %w", mediaType, driver.ErrUnsupported)
		}
		name := drives[at].name
		is, err := t.drive(name)
		if err != nil || is.inserted && is.image == url {
			return err
		}
		if is.inserted {
			if _, err := t.write(rib, "EJECT_VIRTUAL_MEDIA", map[string]string{"DEVICE": name}, ""); err != nil {
				return fmt.Errorf("eject the image of virtual drive %s: %w", name, err)
			}
		}
		if _, err := t.write(rib, "INSERT_VIRTUAL_MEDIA", map[string]string{"DEVICE": name, "IMAGE_URL": url}, ""); err != nil {
			return err
		}
		if _, err := t.write(rib, "SET_VM_STATUS", map[string]string{"DEVICE": name}, `<VM_BOOT_OPTION VALUE="CONNECT"/><VM_WRITE_PROTECT VALUE="YES"/>`); err != nil {
			return fmt.Errorf("connect virtual drive %s: %w", name, err)
		}
		if is, err = t.drive(name); err == nil && !is.inserted {
			err = fmt.Errorf("virtual drive %s was told to take the image and the iLO accepted, but it does not show so", name)
		}
		return err
	})
}

// DetachMedia implements driver.VirtualMedia.
func (d *Driver) DetachMedia(ctx context.Context, f driver.Fence, n *node.Document, types []string) error {
	return d.eject(ctx, f, n, func(kind, _ string) bool { return len(types) == 0 || slices.Contains(types, kind) })
}

// EjectImage implements driver.VirtualMedia.
func (d *Driver) EjectImage(ctx context.Context, f driver.Fence, n *node.Document, mediaType string, meant func(image string) bool) error {
	return d.eject(ctx, f, n, func(kind, image string) bool { return kind == mediaType && meant(image) })
}

func (d *Driver) eject(ctx context.Context, f driver.Fence, n *node.Document, meant func(kind, image string) bool) error {
	return d.with(ctx, f, n, "eject virtual media", func(t *turn) error {
		for _, v := range drives {
			is, err := t.drive(v.name)
			if err != nil {
				return err
			}
			if !is.inserted || !meant(v.kind, is.image) {
				continue
			}
			if _, err := t.write(rib, "EJECT_VIRTUAL_MEDIA", map[string]string{"DEVICE": v.name}, ""); err != nil {
				return err
			}
			if is, err = t.drive(v.name); err == nil && is.inserted {
				err = fmt.Errorf("virtual drive %s was told to eject and the iLO accepted, but it does not show so", v.name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
