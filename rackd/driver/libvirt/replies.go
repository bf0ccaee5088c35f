package libvirt

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A packet is its length, a header, and what of its procedure: a program, its version, the procedure, a type, the call's number and a
// status, of four bytes each.
const (
	headerSize = 28
	ofProc     = 12
	ofType     = 16
	ofSerial   = 20
	ofStatus   = 24

	typeReply      = 1
	typeStream     = 3
	statusOK       = 0
	statusError    = 1
	statusContinue = 2

	// largest is more than a description has, of which libvirt sends 4 MiB at most.
	largest = 8 << 20
)

// lengths are the calls made here whose replies begin with a length: of a text in bytes, or of a list in entries of so many.
var lengths = map[uint32]uint64{
	11: 1, // define, which tells the machine's name
	14: 1, // its description
	23: 1, // look up by name
	24: 1, // look up by UUID
	66: 4, // the ways to log in
}

// replies is a connection to a libvirt that passes on whole replies and nothing else, each once. go-libvirt believes each length that
// it reads: it makes room for it before the bytes are there, and panics at one that is too short. Two replies to one call would
// stop it for ever, and so would a stream without a reader: packets of streams go past it. One goroutine reads.
type replies struct {
	net.Conn
	rest []byte       // of a reply that is being read
	last atomic.Int32 // number of the call that was answered last
	// stream gets the packets of streams, nil: they are dropped. It is set before the call that begins one.
	stream  atomic.Pointer[stream]
	writing sync.Mutex // packets are written one at a time
	// broken is why nothing more is read.
	broken atomic.Pointer[brokenError]
}

// brokenError is a packet that no libvirt sends.
type brokenError struct{ what string }

func (e *brokenError) Error() string { return e.what }

// Read implements net.Conn.
func (r *replies) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		packet, err := r.next()
		if err != nil {
			return 0, err
		}
		switch serial := int32(binary.BigEndian.Uint32(packet[ofSerial:])); binary.BigEndian.Uint32(packet[ofType:]) {
		case typeReply:
			if serial > r.last.Load() {
				r.rest = packet
				r.last.Store(serial)
			}
		case typeStream:
			if st := r.stream.Load(); st != nil {
				st.take(serial, packet)
			}
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Write implements net.Conn. go-libvirt writes the calls that are made here in one piece each.
func (r *replies) Write(b []byte) (int, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.Conn.Write(b)
}

// next reads a packet.
func (r *replies) next() ([]byte, error) {
	if broken := r.broken.Load(); broken != nil {
		return nil, broken
	}
	var head [4]byte
	if _, err := io.ReadFull(r.Conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < headerSize || size > largest {
		return nil, r.fail("a packet of %d bytes", size)
	}
	packet := make([]byte, size)
	copy(packet, head[:])
	if _, err := io.ReadFull(r.Conn, packet[4:]); err != nil {
		return nil, err
	}
	if what := misfit(packet); what != "" {
		return nil, r.fail("%s", what)
	}
	return packet, nil
}

func (r *replies) fail(format string, args ...any) error {
	broken := &brokenError{fmt.Sprintf(format, args...) + ", which no libvirt sends"}
	r.broken.Store(broken)
	return broken
}

// misfit says which length in a packet is longer than the packet, empty for none.
func misfit(packet []byte) string {
	proc, status, body := binary.BigEndian.Uint32(packet[ofProc:]), binary.BigEndian.Uint32(packet[ofStatus:]), packet[headerSize:]
	at, each := 0, lengths[proc]
	if status == statusError {
		at, each = 12, 1 // after the error's code, where it comes from, and that it has a text
	}
	if each == 0 || len(body) < at+4 || status != statusOK && status != statusError {
		return "" // what is too short is an error of the library
	}
	if n := uint64(binary.BigEndian.Uint32(body[at:])); n*each > uint64(len(body)-at-4) {
		return fmt.Sprintf("an answer to call %d of %d bytes that says to hold %d", proc, len(body), n*each)
	}
	return ""
}
