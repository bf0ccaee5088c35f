// Package alike packs texts that are much alike: nodes of one kind, whose documents and
// answers differ in names, addresses and numbers, and say the same otherwise. The first
// ones become the dictionary with which the others are packed (S2), into a fraction of what
// they are.
//
// It imports nothing of the project. What is packed lies in memory only: nobody else has the
// dictionary.
package alike

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Packer packs texts that are alike. Its zero value is ready, and safe for concurrent use.
type Packer struct {
	// Sample is how many bytes of texts become the dictionary, at most 64 KiB, of which s2
	// takes no more. They stay as they are. 0: 32 KiB.
	Sample int

	mu     sync.Mutex
	sample []byte // until there is enough of it
	dict   *s2.Dict
}

// usualSample suits texts of some kilobytes.
const usualSample = 32 << 10

// Packed is a packed text. It does not change.
type Packed struct {
	body []byte
	dict *s2.Dict // nil: body is the text itself
}

// Pack packs a text, which it does not keep.
func (p *Packer) Pack(text []byte) Packed {
	p.mu.Lock()
	dict := p.dict
	if dict == nil {
		if p.sample = append(p.sample, text...); len(p.sample) >= cmp.Or(p.Sample, usualSample) {
			p.dict, p.sample = s2.MakeDict(p.sample, nil), nil
		}
	}
	p.mu.Unlock()
	if dict == nil {
		return Packed{body: bytes.Clone(text)}
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	return Packed{bytes.Clone(dict.Encode(b.of(s2.MaxEncodedLen(len(text))), text)), dict}
}

// Taken is how many bytes the packed text takes.
func (p Packed) Taken() int { return len(p.body) }

// Len is the length of the text.
func (p Packed) Len() int {
	if p.dict == nil {
		return len(p.body)
	}
	size, err := s2.DecodedLen(p.body)
	if err != nil {
		return 0 // Append says what is wrong
	}
	return size
}

// Append appends the text. It fails only when memory is not what was packed.
func (p Packed) Append(b []byte) ([]byte, error) {
	if p.dict == nil {
		return append(b, p.body...), nil
	}
	size, err := s2.DecodedLen(p.body)
	if err != nil {
		return b, fmt.Errorf("unpack: %w", err)
	}
	b = slices.Grow(b, size)
	text, err := p.dict.Decode(b[len(b):len(b)+size], p.body)
	if err != nil {
		return b, fmt.Errorf("unpack: %w", err)
	}
	return b[:len(b)+len(text)], nil
}

// Read calls f with the text, which f must not keep.
func (p Packed) Read(f func(text []byte) error) error {
	if p.dict == nil {
		return f(p.body)
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	text, err := p.Append(b.room[:0])
	if b.room = text; err != nil {
		return err
	}
	return f(text)
}

// buffer is memory for one text at a time.
type buffer struct{ room []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) of(size int) []byte {
	if cap(b.room) < size {
		b.room = make([]byte, size)
	}
	return b.room[:cap(b.room)]
}
