package ilo

import (
	"errors"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A number is no key: its text is another than the operator wrote, and an iLO counts wrong keys.
func TestAttackKeysThatAreNoTexts(t *testing.T) {
	for _, field := range []string{fieldSNMPUser, fieldSNMPAuthPassword, fieldSNMPPrivPassword} {
		for _, v := range []any{1234567890.0, []any{"abcdefgh"}, map[string]any{"a": "bcdefgh"}} {
			n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: "192.0.2.1", fieldSNMPUser: "user",
				fieldSNMPAuthPassword: "auth-key-12", fieldSNMPPrivPassword: "priv-key-12"}}
			n.DriverInfo[field] = v
			if got, err := readSNMP(n); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s %v: %q %q %q, %v", field, v, got.User, got.AuthKey, got.PrivKey, err)
			}
		}
	}
}
