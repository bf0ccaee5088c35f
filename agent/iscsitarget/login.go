package iscsitarget

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// What is read of a login request (RFC 7143, 11.12).
const (
	headerSize   = 48
	loginRequest = 0x43    // with the bit that marks it as immediate, as all are
	longestLogin = 8 << 10 // of its data: longer ones are no login's (RFC 7143, 13.12)
)

// firstRequest reads the request with which a connection begins. It fails unless that is a login of the initiator. What it returns
// is all that was read.
func firstRequest(c net.Conn, initiator string) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(firstWithin)); err != nil {
		return nil, err
	}
	request := make([]byte, headerSize)
	if _, err := io.ReadFull(c, request); err != nil {
		return nil, errors.New("no login came")
	}
	length := int(request[5])<<16 | int(request[6])<<8 | int(request[7])
	if request[0] != loginRequest || request[4] != 0 || length > longestLogin {
		return nil, errors.New("its first request is no login")
	}
	data := make([]byte, (length+3)&^3)
	if _, err := io.ReadFull(c, data); err != nil {
		return nil, errors.New("its login did not end")
	}
	for pair := range bytes.SplitSeq(data[:length], []byte{0}) {
		if name, is := bytes.CutPrefix(pair, []byte("InitiatorName=")); is {
			if string(name) != initiator {
				return nil, fmt.Errorf("it calls itself %.60q", name)
			}
			return append(request, data...), c.SetReadDeadline(time.Time{})
		}
	}
	return nil, errors.New("its login has no name")
}
