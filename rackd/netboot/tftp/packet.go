package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// Opcodes (RFC 1350, section 5, and RFC 2347).
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
	opOAck  = 6
)

// Error codes (RFC 1350, appendix I).
const (
	codeOther    = 0
	codeNotFound = 1
	codeRefused  = 2
)

const (
	// usualBlock is the size of a block that is not negotiated.
	usualBlock = 512
	// maxRequest bounds a request: RFC 2347 allows one of a usual block's size.
	maxRequest = 512
)

// request is a read request.
type request struct {
	name  string
	octet bool // else netascii
	// blksize is what the peer asks for, 0: it does not; tsize: it wants the size.
	blksize int
	tsize   bool
	// window is how many blocks the peer acknowledges at once, 0: it does not ask for that.
	window int
}

var (
	errWrite   = errors.New("nothing is written here")
	errNoSense = errors.New("not a request")
)

// parseRequest reads a packet that came to the server's port.
func parseRequest(packet []byte) (r request, err error) {
	if len(packet) < 2 || len(packet) > maxRequest {
		return r, errNoSense
	}
	switch binary.BigEndian.Uint16(packet) {
	case opRead:
	case opWrite:
		return r, errWrite
	default:
		return r, errNoSense
	}
	words := bytes.Split(packet[2:], []byte{0})
	if len(words) < 3 || len(words[len(words)-1]) != 0 { // the last word ends, too
		return r, errNoSense
	}
	r.name = string(words[0])
	switch strings.ToLower(string(words[1])) {
	case "octet":
		r.octet = true
	case "netascii":
	default:
		return r, errNoSense
	}
	for rest := words[2 : len(words)-1]; len(rest) >= 2; rest = rest[2:] {
		switch strings.ToLower(string(rest[0])) {
		case "blksize": // RFC 2348; a smaller one than usual is left to the usual
			if n, err := strconv.Atoi(string(rest[1])); err == nil && n >= usualBlock && n <= 65464 {
				r.blksize = n
			}
		case "windowsize": // RFC 7440
			if n, err := strconv.Atoi(string(rest[1])); err == nil && n >= 1 && n <= 65535 {
				r.window = n
			}
		case "tsize": // RFC 2349
			r.tsize = string(rest[1]) == "0"
		}
	}
	return r, nil
}

func dataPacket(buf []byte, block uint16, n int) []byte {
	binary.BigEndian.PutUint16(buf, opData)
	binary.BigEndian.PutUint16(buf[2:], block)
	return buf[:4+n]
}

func errorPacket(code uint16, text string) []byte {
	b := binary.BigEndian.AppendUint16(nil, opError)
	b = binary.BigEndian.AppendUint16(b, code)
	return append(append(b, text...), 0)
}

// optionsPacket acknowledges options: blksize, windowsize and tsize; 0 or less, and for tsize less than 0: none.
func optionsPacket(blksize, window int, tsize int64) []byte {
	b := binary.BigEndian.AppendUint16(nil, opOAck)
	add := func(name string, value int64) {
		b = append(append(append(b, name...), 0), strconv.FormatInt(value, 10)...)
		b = append(b, 0)
	}
	if blksize > 0 {
		add("blksize", int64(blksize))
	}
	if window > 0 {
		add("windowsize", int64(window))
	}
	if tsize >= 0 {
		add("tsize", tsize)
	}
	return b
}

// parseAnswer reads what a peer sends in a transfer: the block that it acknowledges, or its error.
func parseAnswer(packet []byte) (block uint16, failed string, ok bool) {
	if len(packet) < 4 {
		return 0, "", false
	}
	switch binary.BigEndian.Uint16(packet) {
	case opAck:
		return binary.BigEndian.Uint16(packet[2:]), "", true
	case opError:
		text, _, _ := bytes.Cut(packet[4:], []byte{0})
		return 0, "the peer ends it: code " + strconv.Itoa(int(binary.BigEndian.Uint16(packet[2:]))) + " " + strconv.QuoteToASCII(string(text[:min(len(text), 100)])), true
	}
	return 0, "", false
}
