package mediaboot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// factImages are the digests of what a drive may show that holds this flow's ramdisk, divided by spaces. They are
// digests, for a URL may hold a password and the checkpoint is not sealed.
const factImages = "media_images"

// remember notes under which names the BMC may show the image that was inserted: under its URL, or as the BMC rewrites it.
func remember(ctx context.Context, t *driver.Task, boot slot, inserted string) {
	names := []string{digest(inserted)}
	delete(t.Facts, factShown)
	delete(t.Facts, factUnread)
	if m, err := media(t); err == nil {
		other, shown := rewritten(ctx, t, m, boot, inserted)
		names = append(names, other...)
		t.Facts[factShown] = shown
	}
	t.Facts[factImages] = strings.Join(names, " ")
}

// rewritten is the digest of how the BMC shows the image under another name than its URL. Where several drives hold
// such an image it is not known which is meant, and there is none. shown is what factShown is to say.
func rewritten(ctx context.Context, t *driver.Task, m driver.VirtualMedia, boot slot, inserted string) (names []string, shown string) {
	list, err := m.Media(ctx, t.Node)
	if err != nil {
		return nil, ""
	}
	seconds := secondMedium(t)
	for _, d := range list {
		switch {
		case d.Image == inserted && inserted != "" && boot.fits(d):
			return nil, shownByName
		case !d.Inserted || !boot.fits(d) || seconds(d.Image):
		default:
			names = append(names, digest(d.Image))
		}
	}
	switch len(names) {
	case 0:
		return nil, ""
	case 1:
		return names, shownByName
	}
	return nil, shownFull
}

// ours tells the image of this flow's ramdisk from those of others.
func ours(t *driver.Task) func(image string) bool {
	made := "/media/" + t.Node.UUID + "/" // as rackd/netboot/mediaweb names those that a rackd has made for the node, whichever
	known := strings.Fields(t.Facts[factImages])
	fields := []string{t.Node.DriverString(ownramdisk.ImageField), t.Node.DriverString(fieldRescue)}
	return func(image string) bool {
		return image != "" && slices.Contains(fields, image) || strings.Contains(image, made) || slices.Contains(known, digest(image))
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
