package fake

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"net"
)

// The size of a made-up screen, in pixels.
const screenWidth, screenHeight = 64, 48

// ScreenColour is the colour of a node's made-up screen before any key, as red, green and blue.
func ScreenColour(node string) [3]byte {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, node) // it takes all
	n := sum.Sum32()
	return [3]byte{byte(n), byte(n >> 8), byte(n >> 16)}
}

// screen is the server's end of RFB (RFC 6143), without a password.
type screen struct {
	conn   net.Conn
	in     *bufio.Reader
	name   string
	colour [3]byte
	format pixels
	// owed: the viewer waits for the next change.
	owed bool
}

// pixels is how the viewer wants them (7.4). Shifts and the most of a colour stand in the order red, green, blue.
type pixels struct {
	bits   byte
	big    bool
	most   [3]uint16
	shifts [3]byte
}

// ownPixels are those that the screen offers: 32 bits, little-endian, eight for each colour.
var ownPixels = pixels{32, false, [3]uint16{255, 255, 255}, [3]byte{16, 8, 0}}

// errOdd: the viewer sends what is not RFB, or wants what a made-up screen does not have.
var errOdd = errors.New("no such message of RFB")

// serve speaks until the viewer goes, or sends what is not RFB.
func (s *screen) serve() {
	defer s.conn.Close()
	s.in, s.format = bufio.NewReader(s.conn), ownPixels
	if s.greet() != nil {
		return
	}
	for s.message() == nil {
	}
}

// take reads n bytes.
func (s *screen) take(n int) ([]byte, error) {
	p := make([]byte, n)
	_, err := io.ReadFull(s.in, p)
	return p, err
}

func (s *screen) say(p ...byte) error {
	_, err := s.conn.Write(p)
	return err
}

// greet speaks the beginning (7.1 to 7.3), in the viewer's version.
func (s *screen) greet() error {
	if err := s.say([]byte("RFB 003.008\n")...); err != nil {
		return err
	}
	version, err := s.take(12)
	if err != nil {
		return err
	}
	const none = 1 // the kind of security
	if string(version) < "RFB 003.007\n" {
		err = s.say(0, 0, 0, none)
	} else {
		if err = s.say(1, none); err == nil {
			var chosen []byte
			if chosen, err = s.take(1); err == nil && chosen[0] != none {
				err = errOdd
			}
		}
		if err == nil && string(version) >= "RFB 003.008\n" {
			err = s.say(0, 0, 0, 0)
		}
	}
	if err != nil {
		return err
	}
	if _, err := s.take(1); err != nil { // whether it shares
		return err
	}
	p := binary.BigEndian.AppendUint16(nil, screenWidth)
	p = binary.BigEndian.AppendUint16(p, screenHeight)
	p = append(p, ownPixels.bits, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0)
	p = binary.BigEndian.AppendUint32(p, uint32(len(s.name)))
	return s.say(append(p, s.name...)...)
}

// message answers one message (7.5).
func (s *screen) message() error {
	kind, err := s.in.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case 0:
		return s.reformat()
	case 2: // encodings: raw is always taken
		p, err := s.take(3)
		if err == nil {
			_, err = s.in.Discard(4 * int(binary.BigEndian.Uint16(p[1:])))
		}
		return err
	case 3:
		p, err := s.take(9)
		if err != nil {
			return err
		}
		if changes := p[0] != 0; changes {
			s.owed = true
			return nil
		}
		return s.draw()
	case 4:
		p, err := s.take(7)
		if err != nil || p[0] == 0 { // it was let go
			return err
		}
		for i := range s.colour {
			s.colour[i] += p[6] + byte(i)
		}
		if !s.owed {
			return nil
		}
		return s.draw()
	case 5:
		_, err = s.in.Discard(5)
		return err
	case 6: // what was cut
		p, err := s.take(7)
		if err == nil {
			_, err = io.CopyN(io.Discard, s.in, int64(binary.BigEndian.Uint32(p[3:])))
		}
		return err
	}
	return errOdd
}

// reformat takes the viewer's kind of pixels.
func (s *screen) reformat() error {
	p, err := s.take(19)
	if err != nil {
		return err
	}
	f := pixels{bits: p[3], big: p[5] != 0, shifts: [3]byte(p[13:16])}
	for i := range f.most {
		f.most[i] = binary.BigEndian.Uint16(p[7+2*i:])
	}
	if p[6] == 0 || f.bits != 8 && f.bits != 16 && f.bits != 32 {
		return errOdd
	}
	s.format = f
	return nil
}

// pixel is the screen's colour in the viewer's pixels.
func (s *screen) pixel() []byte {
	v := uint32(0)
	for i, c := range s.colour {
		v |= uint32(c) * uint32(s.format.most[i]) / 255 << (s.format.shifts[i] & 31)
	}
	var p [4]byte
	if s.format.big {
		binary.BigEndian.PutUint32(p[:], v)
		return p[4-s.format.bits/8:]
	}
	binary.LittleEndian.PutUint32(p[:], v)
	return p[:s.format.bits/8]
}

// draw sends the whole screen as one raw rectangle (7.6.1, 7.7.1).
func (s *screen) draw() error {
	s.owed = false
	p := []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, screenWidth, 0, screenHeight, 0, 0, 0, 0}
	one := s.pixel()
	for range screenWidth * screenHeight {
		p = append(p, one...)
	}
	return s.say(p...)
}
