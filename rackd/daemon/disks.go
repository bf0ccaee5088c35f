package daemon

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/rackd/diskimage"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/imagecache"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// source is an image's source in the cache's terms.
func source(src driver.ImageSource) imagecache.Source {
	return imagecache.Source{URL: src.URL, HashAlgo: src.HashAlgo, HashValue: src.HashValue, Authorization: src.Authorization, InTheClear: src.InTheClear,
		Proxies: outbound.Proxies{HTTP: src.Proxies.HTTP, HTTPS: src.Proxies.HTTPS, No: src.Proxies.No}, Arch: src.Arch}
}

// PrepareDisk implements driver.Images.
func (i images) PrepareDisk(ctx context.Context, src driver.ImageSource) (driver.DiskImage, error) {
	want, format := source(src), src.Format
	want.Given = i.codes.given(src)
	e, err := i.cache.Ensure(ctx, want)
	if err != nil {
		return driver.DiskImage{}, i.judged(ctx, err)
	}
	compression := src.Compression
	if e.ID == want.Given && format != diskformat.Raw { // it was judged when it was first given, and may be converted or unpacked
		format = ""
		if src.Seekable {
			compression = ""
		}
	}
	img, err := diskimage.Prepare(ctx, i.cache, e, format, compression)
	if err == nil && src.Seekable {
		img, err = diskimage.Seekable(ctx, i.cache, img)
	}
	if err != nil {
		return driver.DiskImage{}, i.judged(ctx, err)
	}
	return driver.DiskImage{URLs: i.urls(img.ID, src.Machine), HashAlgo: img.HashAlgo, HashValue: img.HashValue, Format: img.Format,
		Compression: img.Compression, Converted: img.Converted, Unpacked: img.Unpacked, Receipt: i.codes.receipt(src, img.ID)}, nil
}

const receiptPurpose = "image receipt"

// receipt says that an image was given for a source. Checkpoints lie on the site's bus, which has no right to say so.
func (c imageCodes) receipt(src driver.ImageSource, id string) string {
	key := c.keys.Of(c.group)
	if key == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(key.Code(receiptPurpose, receiptParts(src, id)...)) + "." + id
}

// given returns the image of the receipt that a source bears; empty for one that is not of this source, or of no group that
// this rackd serves.
func (c imageCodes) given(src driver.ImageSource) string {
	code, id, _ := strings.Cut(src.Given, ".")
	said, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil || id == "" {
		return ""
	}
	for _, group := range c.keys.Groups() {
		if key := c.keys.Of(group); key != nil && key.CodeFits(said, receiptPurpose, receiptParts(src, id)...) {
			return id
		}
	}
	return ""
}

// receiptParts are what a receipt is of. The credentials are no part: they were judged when the image was given.
func receiptParts(src driver.ImageSource, id string) [][]byte {
	return [][]byte{[]byte(src.URL), []byte(src.HashAlgo), []byte(src.HashValue), []byte(src.Format), []byte(src.Compression), []byte(src.Arch), []byte(id)}
}
