package view

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
)

// kind is what nodes of one hardware type and conductor group have in common. Their
// documents are much alike: the fields that they have, the hardware's interfaces, the image
// that half of the machines run. The first ones become the dictionary with which the
// others are packed, into a third of what they are. Safe for concurrent use.
type kind struct {
	driver, group string

	mu     sync.Mutex
	sample []byte // until there is enough of it
	dict   *s2.Dict
}

// enoughSample is what a dictionary is made of; s2 takes no more than 64 KiB.
const enoughSample = 12 << 10

// packed is a document as it is held.
type packed struct {
	body []byte
	dict *s2.Dict // nil: body is the document itself
}

// pack takes in a document as it came, which it does not keep.
func (k *kind) pack(body []byte) packed {
	k.mu.Lock()
	dict := k.dict
	if dict == nil {
		if k.sample = append(k.sample, body...); len(k.sample) >= enoughSample {
			k.dict, k.sample = s2.MakeDict(k.sample, nil), nil
		}
	}
	k.mu.Unlock()
	if dict == nil {
		return packed{body: bytes.Clone(body)}
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	return packed{bytes.Clone(dict.Encode(b.of(s2.MaxEncodedLen(len(body))), body)), dict}
}

// read calls f with the document as it came, which f must not keep.
func (p packed) read(f func(body []byte) error) error {
	if p.dict == nil {
		return f(p.body)
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	size, err := s2.DecodedLen(p.body)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	body, err := p.dict.Decode(b.of(size), p.body)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	return f(body)
}

// buffer is memory for one document at a time.
type buffer struct{ room []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) of(size int) []byte {
	if cap(b.room) < size {
		b.room = make([]byte, size)
	}
	return b.room[:cap(b.room)]
}
