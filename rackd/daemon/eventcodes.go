package daemon

import (
	"encoding/base64"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

// eventCodes makes and judges the codes in the addresses that BMCs post events to. Each rackd of a group makes the same one, so that the
// rackd that takes a node over knows which subscriptions are the group's.
type eventCodes struct{ keys *seal.Keyring }

const (
	eventPurpose   = "events address"
	accountPurpose = "events account"
	// tagSize is how much of a code says which account it is for, in bytes.
	tagSize = 6
)

// Code implements bmcevents.Codes. Of the account it tells nothing.
func (c eventCodes) Code(n *node.Document, account string) string {
	key := c.keys.Of(n.Group)
	if key == nil {
		return ""
	}
	tag := key.Code(accountPurpose, []byte(n.UUID), []byte(account))[:tagSize]
	return base64.RawURLEncoding.EncodeToString(append(tag, key.Code(eventPurpose, []byte(n.UUID), tag)...))
}

// Fits implements bmcevents.Codes.
func (c eventCodes) Fits(node, code string) bool {
	given, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil || len(given) <= tagSize {
		return false
	}
	for _, group := range c.keys.Groups() {
		if key := c.keys.Of(group); key != nil && key.CodeFits(given[tagSize:], eventPurpose, []byte(node), given[:tagSize]) {
			return true
		}
	}
	return false
}
