package ipmi

import (
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/rackd/driver"
)

// Commands of the SDR repository (section 33).
const (
	netFnStorage = 0x0A

	cmdReserveSDR = 0x22
	cmdGetSDR     = 0x23
)

const (
	// mostRecords bounds a repository: one that links its records in a circle ends here.
	mostRecords = 2048
	// piece is how much of a record is read at once. BMCs with small buffers take no more.
	piece = 16
	// lastRecord is the id after the last record.
	lastRecord = 0xFFFF
	// sdrHeader is the length of a record's header, whose last byte is the length of the rest.
	sdrHeader = 5
	// reservations is how often a reservation may be lost. Each change of the repository cancels those of all readers.
	reservations = 5
)

// records reads the repository. A record that cannot be parsed is left out.
func (c *conn) records() (list []*types.SDR, err error) {
	for try := 0; ; try++ {
		list, err = c.readRecords()
		if codeOf(err) != 0xC5 || try == reservations {
			return list, err
		}
	}
}

func (c *conn) readRecords() (list []*types.SDR, err error) {
	reserved, err := c.ask(netFnStorage, cmdReserveSDR)
	if code := codeOf(err); code == 0xC1 || code == 0xCC {
		return nil, fmt.Errorf("it has no repository of sensors (%w): %w", err, driver.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	if len(reserved) < 2 {
		return nil, short("a reservation of its sensors", reserved)
	}
	for id, n := uint16(0), 0; id != lastRecord; n++ {
		if n == mostRecords {
			return nil, fmt.Errorf("its repository of sensors has no end: %d records were read", n)
		}
		raw, next, err := c.record(reserved, id)
		if codeOf(err) == 0xCB && n == 0 { // an empty repository
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if r, err := parseRecord(raw, next); err == nil {
			list = append(list, r)
		}
		id = next
	}
	return list, nil
}

// record reads a record in pieces, and the id of the next.
func (c *conn) record(reserved []byte, id uint16) (raw []byte, next uint16, err error) {
	for whole := sdrHeader; len(raw) < whole; {
		n := min(piece, whole-len(raw))
		data, err := c.ask(netFnStorage, cmdGetSDR, reserved[0], reserved[1], byte(id), byte(id>>8), byte(len(raw)), byte(n))
		if err != nil {
			return nil, 0, err
		}
		if len(data) < 2+n {
			return nil, 0, short("a record of its sensors", data)
		}
		next = uint16(data[0]) | uint16(data[1])<<8
		if raw = append(raw, data[2:2+n]...); len(raw) == sdrHeader {
			whole += int(raw[sdrHeader-1])
		}
	}
	return raw, next, nil
}

// parseRecord parses a record. The library's parser may panic on records that firmware has garbled.
func parseRecord(raw []byte, next uint16) (r *types.SDR, err error) {
	defer func() {
		if recover() != nil {
			r, err = nil, errors.New("the record is garbled")
		}
	}()
	return types.ParseSDR(raw, next)
}
