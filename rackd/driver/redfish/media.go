package redfish

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// mediaTypes lists, for each type of the API, what BMCs call it.
var mediaTypes = map[string][]schemas.VirtualMediaType{
	"cdrom":  {schemas.CDVirtualMediaType, schemas.DVDVirtualMediaType},
	"disk":   {schemas.USBStickVirtualMediaType},
	"floppy": {schemas.FloppyVirtualMediaType},
}

// drives reads the virtual drives of a system: newer BMCs have them at the system,
// older ones at its manager. Those of a manager of several machines are none of one machine. Which of them a drive belongs to
// is not told, and another node's medium may be in it.
func drives(c *gofish.APIClient, s *System) ([]*virtualDrive, error) {
	list, err := readDrives(c, s.VirtualMedia.Path)
	if byPath(list); err != nil || len(list) > 0 {
		return list, err
	}
	managers, err := managersOf(s)
	for _, m := range managers {
		of, err := readDrives(c, m.VirtualMedia.Path)
		if err != nil {
			return nil, err
		}
		if len(of) == 0 {
			continue
		}
		others, err := othersOf(c, m, s)
		if err != nil {
			return nil, err
		}
		if len(others) > 0 {
			return nil, fmt.Errorf("its virtual drives are those of manager %s, which has other machines too (%s): %w", m.Path, strings.Join(others, ", "), driver.ErrUnsupported)
		}
		byPath(of)
		list = append(list, of...)
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("it has no virtual media: %w", driver.ErrUnsupported)
	}
	return list, err
}

func serves(drive *virtualDrive, mediaType string) bool {
	return slices.ContainsFunc(mediaTypes[mediaType], func(t schemas.VirtualMediaType) bool { return slices.Contains(drive.MediaTypes, t) })
}

// Media lists the virtual drives.
func (d *Driver) Media(ctx context.Context, n *node.Document) (list []hardware.Media, err error) {
	err = d.change(ctx, nil, n, "list the virtual media", func(s *System, c *gofish.APIClient) error {
		found, err := drives(c, s)
		for _, drive := range found {
			m := hardware.Media{Inserted: drive.Inserted, Image: drive.Image, Types: []string{}}
			for _, t := range drive.MediaTypes {
				m.Types = append(m.Types, string(t))
			}
			m.Problem = problemOf(c, drive)
			list = append(list, m)
		}
		return err
	})
	return list, err
}

// AttachMedia inserts the image into the first empty drive of that type. If none is empty, the first one's image makes room. It reads
// back that the drive is full. An image that is in such a drive already is left there.
func (d *Driver) AttachMedia(ctx context.Context, f driver.Fence, n *node.Document, mediaType, url string) error {
	return d.change(ctx, f, n, "attach virtual media", func(s *System, c *gofish.APIClient) error {
		found, err := drives(c, s)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(found, func(drive *virtualDrive) bool {
			return serves(drive, mediaType) && drive.Inserted && drive.Image == url
		}) {
			return nil
		}
		slices.SortStableFunc(found, func(a, b *virtualDrive) int { return cmp.Compare(full(a), full(b)) })
		drive, err := pickDrive(c, found, mediaType, url)
		if err != nil {
			return err
		}
		before := ""
		if drive.Inserted {
			if before = drive.Image; canEject(drive) {
				if err := ejectFrom(c, makerOf(c, s), drive); err != nil {
					return fmt.Errorf("eject the image of virtual drive %s: %w", drive.ID, err)
				}
			}
		}
		if err := insertInto(c, makerOf(c, s), drive, url); err != nil {
			return err
		}
		return awaitDrive(ctx, c, drive.Path, "to take the image", func(now *virtualDrive) bool {
			return now.Image == url || now.Inserted && (before == "" || now.Image != before)
		})
	})
}

// full is 1 for a drive that holds a medium.
func full(drive *virtualDrive) int {
	if drive.Inserted {
		return 1
	}
	return 0
}

// DetachMedia ejects what is in the drives of those types, and reads back that they are empty.
func (d *Driver) DetachMedia(ctx context.Context, f driver.Fence, n *node.Document, types []string) error {
	return d.change(ctx, f, n, "detach virtual media", func(s *System, c *gofish.APIClient) error {
		found, err := drives(c, s)
		if err != nil {
			return err
		}
		for _, drive := range found {
			meant := len(types) == 0 || slices.ContainsFunc(types, func(t string) bool { return serves(drive, t) })
			if !meant || !drive.Inserted {
				continue
			}
			if !canEject(drive) {
				return fmt.Errorf("its virtual drive %s does not eject: %w", drive.ID, driver.ErrUnsupported)
			}
			if err := ejectFrom(c, makerOf(c, s), drive); err != nil {
				return fmt.Errorf("eject the image of virtual drive %s: %w", drive.ID, err)
			}
			if err := awaitDrive(ctx, c, drive.Path, "to eject", func(now *virtualDrive) bool { return !now.Inserted }); err != nil {
				return err
			}
		}
		return nil
	})
}

// EjectImage ejects those images from drives of that type that are meant, and reads back.
func (d *Driver) EjectImage(ctx context.Context, f driver.Fence, n *node.Document, mediaType string, meant func(image string) bool) error {
	return d.change(ctx, f, n, "eject virtual media", func(s *System, c *gofish.APIClient) error {
		return ejectImage(ctx, c, s, mediaType, meant)
	})
}

func ejectImage(ctx context.Context, c *gofish.APIClient, s *System, mediaType string, meant func(image string) bool) error {
	found, err := drives(c, s)
	if err != nil {
		return err
	}
	for _, drive := range found {
		if !serves(drive, mediaType) || !drive.Inserted || !meant(drive.Image) {
			continue
		}
		if !canEject(drive) {
			return fmt.Errorf("its virtual drive %s does not eject: %w", drive.ID, driver.ErrUnsupported)
		}
		if err := ejectFrom(c, makerOf(c, s), drive); err != nil {
			return fmt.Errorf("eject the image of virtual drive %s: %w", drive.ID, err)
		}
		empty := func(now *virtualDrive) bool { return !now.Inserted || !meant(now.Image) }
		if err := awaitDrive(ctx, c, drive.Path, "to eject the image", empty); err != nil {
			return err
		}
	}
	return nil
}
