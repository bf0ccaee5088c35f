package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// IDSize is the length of an ID.
const IDSize = 8

// ID names the generation that seals. It is no secret: the key cannot be found from it. Two
// generations of one group have different ones, but for one chance in four billion.
func (k *Key) ID() string { return k.id }

// IDs are those of all generations, the one that seals first.
func (k *Key) IDs() []string {
	ids := []string{k.id}
	for _, g := range k.older {
		ids = append(ids, g.id)
	}
	return ids
}

func idOf(raw []byte) string {
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte("ironyard key id"))
	return hex.EncodeToString(mac.Sum(nil)[:IDSize/2])
}

// IDs are the ids of each group's key, by the group's name in lower case.
func (r *Keyring) IDs() map[string][]string {
	ids := map[string][]string{}
	for group, key := range r.all() {
		ids[group] = key.IDs()
	}
	return ids
}

// Differs reports whether the ring has a key of the group that is not of exactly the generations
// of these ids, in this order.
func (r *Keyring) Differs(group string, ids []string) bool {
	key := r.Of(group)
	return key != nil && !slices.Equal(key.IDs(), ids)
}
