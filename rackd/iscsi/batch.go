package iscsi

import (
	"encoding/binary"
	"hash/crc32"
	"net"
)

const (
	// batchBytes is how much data goes with one call of the system, so that the time of one call stays what a write of Largest takes.
	batchBytes = firstBurst
	// batchPDUs bounds those without data.
	batchPDUs = 128
)

// batch are PDUs that are sent together: targets take small segments, and a call of the system for each would cost more than its data.
type batch struct {
	pdus  []*pdu
	bytes int
	parts net.Buffers
}

func (b *batch) clear() {
	clear(b.pdus)
	b.pdus, b.bytes = b.pdus[:0], 0
}

func (b *batch) add(p *pdu) {
	b.pdus = append(b.pdus, p)
	b.bytes += len(p.data)
}

func (b *batch) full() bool { return b.bytes >= batchBytes || len(b.pdus) >= batchPDUs }

// write sends them, by one call of the system where the connection has that.
func (b *batch) write(c net.Conn, d digests) error {
	parts := b.parts[:0]
	for _, p := range b.pdus {
		parts = p.wire(parts, d)
	}
	b.parts = parts
	defer clear(b.parts)
	_, err := parts.WriteTo(c) // it takes away what was sent
	return err
}

// wire appends what p is on the wire.
func (p *pdu) wire(parts net.Buffers, d digests) net.Buffers {
	n := len(p.data)
	p.head[5], p.head[6], p.head[7] = byte(n>>16), byte(n>>8), byte(n)
	parts = append(parts, p.head[:])
	if d.header {
		parts = append(parts, binary.LittleEndian.AppendUint32(nil, crc32.Checksum(p.head[:], castagnoli)))
	}
	if n == 0 {
		return parts
	}
	parts = append(parts, p.data)
	fill := make([]byte, pad(n))
	if len(fill) > 0 {
		parts = append(parts, fill)
	}
	if d.data {
		sum := crc32.Update(crc32.Checksum(p.data, castagnoli), castagnoli, fill)
		parts = append(parts, binary.LittleEndian.AppendUint32(nil, sum))
	}
	return parts
}
