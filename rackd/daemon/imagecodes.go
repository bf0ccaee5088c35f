package daemon

import (
	"encoding/base64"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// imageCodes makes and judges the codes in the URLs of images: each rackd of a group
// computes the same one, so copies, takeovers and boot scripts need no list of them.
type imageCodes struct {
	keys  *seal.Keyring
	group string // this rackd's
}

// url is where a rackd of a group serves an image. The code is made with that group's key
// where this rackd has it, else with its own group's, which who stands in for it has.
func (c imageCodes) url(base, group, id string) string {
	key := c.keys.Of(group)
	if key == nil {
		key = c.keys.Of(c.group)
	}
	if key == nil {
		return base + imagecache.Path("none", id) // no rackd takes it
	}
	return base + imagecache.Path(base64.RawURLEncoding.EncodeToString(imageCode(key, id)), id)
}

const imagePurpose = "image url"

func imageCode(key *seal.Key, id string) []byte { return key.Code(imagePurpose, []byte(id)) }

// fits reports whether a code is an image's, by any group that this rackd serves.
func (c imageCodes) fits(code, id string) bool {
	given, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil {
		return false
	}
	for _, group := range c.keys.Groups() {
		if key := c.keys.Of(group); key != nil && key.CodeFits(given, imagePurpose, []byte(id)) {
			return true
		}
	}
	return false
}
