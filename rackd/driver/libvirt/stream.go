package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/ironyard/ironyard/rackd/driver"
)

// libvirt's program and its version, and its call that opens a console.
const (
	program        = 0x20008086
	programVersion = 1
	openConsole    = 201
	// largestData is how much of what is typed goes into one packet.
	largestData = 64 << 10
)

// stream is the stream of a console, on a connection of its own. Its packets have the number of the call that opened it. A packet
// without data is the stream's end.
type stream struct {
	s      *session
	serial atomic.Int32 // known once the call was answered
	// packets are taken off the wire and not read yet. The wire waits while it is full.
	packets chan []byte
	closed  chan struct{}
	once    sync.Once
	rest    []byte // of a packet that is being read
}

func newStream(s *session) *stream {
	return &stream{s: s, packets: make(chan []byte, 1), closed: make(chan struct{})}
}

// take takes a packet off the wire. The goroutine that reads the connection calls it. Packets of other streams are dropped.
func (st *stream) take(serial int32, packet []byte) {
	if serial != st.s.wire.last.Load() && serial != st.serial.Load() {
		return
	}
	select {
	case st.packets <- packet:
	case <-st.closed:
	}
}

// Read implements serialline.Stream.
func (st *stream) Read(p []byte) (int, error) {
	for len(st.rest) == 0 {
		select {
		case packet := <-st.packets:
			rest, err := dataOf(packet)
			if err != nil {
				return 0, err
			}
			st.rest = rest
		case <-st.closed:
			return 0, io.EOF
		case <-st.s.rpc.Disconnected():
			if len(st.packets) > 0 {
				continue // what came before the end
			}
			return 0, st.s.said(errors.New("the connection to libvirt has ended"))
		}
	}
	n := copy(p, st.rest)
	st.rest = st.rest[n:]
	return n, nil
}

// dataOf is what a packet of a stream carries. Its error is why the stream has ended.
func dataOf(packet []byte) ([]byte, error) {
	body := packet[headerSize:]
	switch binary.BigEndian.Uint32(packet[ofStatus:]) {
	case statusContinue:
		if len(body) > 0 {
			return body, nil
		}
	case statusError:
		return nil, fmt.Errorf("libvirt has ended it: %s", messageOf(body))
	}
	return nil, io.EOF
}

// messageOf is the message of an error: after its code and where it comes from, a switch for the text, its length and itself.
func messageOf(body []byte) string {
	if len(body) < 16 || binary.BigEndian.Uint32(body[8:]) == 0 {
		return "without a reason"
	}
	n := int(binary.BigEndian.Uint32(body[12:]))
	if n < 0 || n > len(body)-16 {
		return "without a reason"
	}
	return string(body[16 : 16+n])
}

// Write implements serialline.Stream.
func (st *stream) Write(p []byte) error {
	for len(p) > 0 {
		part := p[:min(len(p), largestData)]
		p = p[len(part):]
		packet := make([]byte, headerSize, headerSize+len(part))
		for i, word := range []uint32{uint32(headerSize + len(part)), program, programVersion, openConsole, typeStream, uint32(st.serial.Load()), statusContinue} {
			binary.BigEndian.PutUint32(packet[4*i:], word)
		}
		if _, err := st.s.wire.Write(append(packet, part...)); err != nil {
			return err
		}
	}
	return nil
}

// Break implements serialline.Stream: libvirt's consoles carry bytes only.
func (st *stream) Break() error {
	return fmt.Errorf("libvirt's consoles have no break: %w", driver.ErrUnsupported)
}

// Alive implements serialline.Stream.
func (st *stream) Alive(ctx context.Context) error {
	return st.s.call(ctx, func() error {
		_, err := st.s.rpc.ConnectGetLibVersion()
		return err
	})
}

// Close implements serialline.Stream.
func (st *stream) Close() {
	st.once.Do(func() { close(st.closed) })
	st.s.Drop()
}
