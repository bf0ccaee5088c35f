package work

import (
	"encoding/json"

	"github.com/ironyard/ironyard/protocol/seal"
)

// Secret is what takes the place of a secret of driver_info, because a step has told a BMC so. It lies in checkpoints and events
// sealed, and is in a checkpoint before the BMC is told: a successor that finds it there knows both values.
type Secret struct {
	// Field of driver_info.
	Field string `json:"field"`
	// Sealed is a Replacement, sealed with the group's key for the node, the field and the work Of.
	Sealed string `json:"sealed"`
	Of     string `json:"of"`
	// Sure: the BMC was seen to take the new value.
	Sure bool `json:"sure,omitempty"`

	Unknown Unknown `json:"-"`
}

// Replacement is both values of a secret that is replaced. It is never written but sealed.
type Replacement struct {
	Was string `json:"was"`
	New string `json:"new"`
	// Clears are fields of driver_info that have asked for New: they go with it.
	Clears []string `json:"clears,omitempty"`
}

func (s *Secret) label(node string) seal.Label {
	return seal.Label{Kind: seal.NewSecret, Of: node, Field: s.Field, Work: s.Of}
}

// SealSecret returns the Secret of a node's field. of is the id of the flow (Document.Root); key is that of the node's group.
func SealSecret(key *seal.Key, node, field, of string, r Replacement) (Secret, error) {
	s := Secret{Field: field, Of: of}
	plain, err := json.Marshal(r)
	if err != nil {
		return Secret{}, err
	}
	s.Sealed = key.Seal(s.label(node), string(plain))
	return s, nil
}

// Open returns what s is sealed from. Its error wraps seal.ErrOpen where key is not that of the node's group, and where s belongs to
// another node, field or work.
func (s *Secret) Open(key *seal.Key, node string) (r Replacement, err error) {
	plain, err := key.Open(s.label(node), s.Sealed)
	if err != nil {
		return Replacement{}, err
	}
	return r, json.Unmarshal([]byte(plain), &r)
}
