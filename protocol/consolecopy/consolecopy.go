// Package consolecopy says how the copy of a console's log lies on a site's bus, where it outlives the rackd that holds the console.
//
// It may import protocol/seal. Invariants:
//   - A copy is sealed with the key of the node's conductor group, for the node: it opens under no other node's key.
//   - A copy has MaxBytes at most. Of text that does not fit the newest is kept.
//   - Who opens a copy takes MaxText bytes of text at most, whatever it says.
package consolecopy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ironyard/ironyard/protocol/seal"
)

// The bounds of a copy.
const (
	// MaxBytes is the most that a copy takes. Of usual text all of a log fits; of text that cannot be compressed the last MaxBytes do.
	MaxBytes = 48 << 10
	// MaxText is the most text that a copy holds.
	MaxText = 256 << 10
	// headRoom is for what stands before the text, and for what sealing and compressing add.
	headRoom = 1 << 10
)

// Copy is what a machine wrote to its console, as a rackd saw it last.
type Copy struct {
	// Log is the id of the log. Each rackd that holds the console has its own.
	Log string `json:"log"`
	// Tenancy is that of the node while the text was written.
	Tenancy string `json:"tenancy,omitempty"`
	// End is where Text ends in the log.
	End int64 `json:"end"`
	// Rackd is which one wrote the copy, and At when.
	Rackd string    `json:"rackd,omitempty"`
	At    time.Time `json:"at"`
	// Text is the newest of what was written, at most MaxText bytes.
	Text []byte `json:"-"`
	// Late: the copy is sealed under an older generation of the key.
	Late bool `json:"-"`
}

// form begins each copy. A reader refuses others.
const form = 1

// ErrForm means that a copy is of a form that this program does not read.
var ErrForm = errors.New("a console's copy is of a form that this program does not read: a newer rackd has written it")

// packer compresses. It is made when the first copy is: most rackds hold no console.
var packer = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(MaxText), zstd.WithLowerEncoderMem(true))
})

// unpacker has its memory bounded, by which a small body cannot become a large text.
var unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxText+headRoom))
})

func label(node string) seal.Label { return seal.Label{Kind: seal.ConsoleCopy, Of: node} }

// Seal returns a node's copy as it lies on the bus, of at most most bytes, with as much of the text's end as fits. key is that of the
// node's group.
func (c Copy) Seal(key *seal.Key, node string, most int) ([]byte, error) {
	most -= headRoom
	head, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	z, err := packer()
	if err != nil {
		return nil, err
	}
	text := c.Text[max(0, len(c.Text)-MaxText):]
	for {
		plain := append(append(append(make([]byte, 0, len(head)+1+len(text)), head...), '\n'), text...)
		packed := z.EncodeAll(plain, nil)
		if len(packed) <= most {
			return append([]byte{form}, key.SealBytes(label(node), packed)...), nil
		}
		if len(text) == 0 {
			return nil, fmt.Errorf("the copy of node %s's console has %d bytes without its text", node, len(packed))
		}
		// As much as would fit if all of it packed alike, and a little less. The end may pack worse than the rest.
		fits := len(text) * most / len(packed)
		text = text[min(len(text), len(text)-fits+fits/20+1):]
	}
}

// Open reads a node's copy.
func Open(key *seal.Key, node string, body []byte) (c Copy, err error) {
	switch {
	case len(body) > MaxBytes:
		return c, fmt.Errorf("a console's copy has %d bytes, more than the limit of %d", len(body), MaxBytes)
	case len(body) == 0 || body[0] != form:
		return c, ErrForm
	}
	packed, current, err := key.OpenBytes(label(node), body[1:])
	if err != nil {
		return c, err
	}
	z, err := unpacker()
	if err != nil {
		return c, err
	}
	plain, err := z.DecodeAll(packed, nil)
	if err != nil {
		return c, fmt.Errorf("a console's copy cannot be unpacked: %w", err)
	}
	head, text, found := bytes.Cut(plain, []byte{'\n'})
	if !found {
		return c, errors.New("a console's copy has no text")
	}
	if err := json.Unmarshal(head, &c); err != nil {
		return c, fmt.Errorf("what a console's copy says of itself cannot be read: %w", err)
	}
	if c.Log == "" || c.End < int64(len(text)) || len(text) > MaxText {
		return c, fmt.Errorf("a console's copy says that its %d bytes of text end at byte %d of a log", len(text), c.End)
	}
	c.Text, c.Late = text, !current
	return c, nil
}
