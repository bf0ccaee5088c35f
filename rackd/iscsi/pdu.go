package iscsi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
)

// headerSize is that of a basic header segment (RFC 7143, 11.2.1).
const headerSize = 48

// Opcodes.
const (
	opNopOut    = 0x00
	opCommand   = 0x01
	opLogin     = 0x03
	opDataOut   = 0x05
	opLogout    = 0x06
	opNopIn     = 0x20
	opResponse  = 0x21
	opLoginResp = 0x23
	opDataIn    = 0x25
	opLogoutEnd = 0x26
	opReady     = 0x31 // ready to transfer
	opAsync     = 0x32
	opReject    = 0x3f

	immediate = 0x40
	noTag     = 0xffffffff
)

// castagnoli is the polynomial of the digests.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pdu is a header with its data, as it travels.
type pdu struct {
	head [headerSize]byte
	data []byte
}

func (p *pdu) op() byte               { return p.head[0] & 0x3f }
func (p *pdu) tag() uint32            { return p.u32(16) }
func (p *pdu) u32(at int) uint32      { return binary.BigEndian.Uint32(p.head[at:]) }
func (p *pdu) set32(at int, v uint32) { binary.BigEndian.PutUint32(p.head[at:], v) }

// pad is how many bytes fill a data segment of n bytes up to a multiple of four.
func pad(n int) int { return -n & 3 }

// digests says which parts of a PDU carry a CRC32C.
type digests struct{ header, data bool }

// write sends p.
func (p *pdu) write(c net.Conn, d digests) error {
	var b batch
	b.add(p)
	return b.write(c, d)
}

// errDigest says that a PDU was damaged on its way.
var errDigest = errors.New("a PDU has arrived with a wrong CRC32C: the network damages data")

// read receives a PDU whose data segment has at most limit bytes.
func read(r io.Reader, d digests, limit int) (*pdu, error) {
	p := &pdu{}
	if _, err := io.ReadFull(r, p.head[:]); err != nil {
		return nil, err
	}
	extra := int(p.head[4]) * 4
	n := int(p.head[5])<<16 | int(p.head[6])<<8 | int(p.head[7])
	if n > limit {
		return nil, fmt.Errorf("the target sends a data segment of %d bytes, more than the %d that were agreed on", n, limit)
	}
	tail := extra
	if d.header {
		tail += 4
	}
	if tail > 0 {
		more := make([]byte, tail)
		if _, err := io.ReadFull(r, more); err != nil {
			return nil, err
		}
		sum := crc32.Update(crc32.Checksum(p.head[:], castagnoli), castagnoli, more[:extra])
		if d.header && sum != binary.LittleEndian.Uint32(more[extra:]) {
			return nil, errDigest
		}
	}
	if n == 0 {
		return p, nil
	}
	size := n + pad(n)
	if d.data {
		size += 4
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	if d.data && crc32.Checksum(body[:size-4], castagnoli) != binary.LittleEndian.Uint32(body[size-4:]) {
		return nil, errDigest
	}
	p.data = body[:n]
	return p, nil
}
