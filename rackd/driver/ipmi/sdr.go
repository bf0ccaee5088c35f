package ipmi

import (
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/rackd/driver"
)

// Commands of the SDR repository (section 33), and of records that a controller has of its own sensors (section 35).
const (
	netFnStorage = 0x0A

	cmdReserveSDR = 0x22
	cmdGetSDR     = 0x23

	cmdGetOwnSDR     = 0x21
	cmdReserveOwnSDR = 0x22
)

// shelf is where records are.
type shelf struct{ netFn, reserve, get uint8 }

var (
	// ofMachine is the repository, with the records of a whole machine.
	ofMachine = shelf{netFnStorage, cmdReserveSDR, cmdGetSDR}
	// ofController are a controller's, of the sensors that it has itself. A controller behind the BMC often has these alone.
	ofController = shelf{netFnSensor, cmdReserveOwnSDR, cmdGetOwnSDR}
)

// errNoShelf: the controller knows no such records.
var errNoShelf = errors.New("it has no records of its sensors, neither in a repository nor of its own")

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

// records reads the repository, or else the controller's own records. A record that cannot be parsed is left out.
func (c *conn) records() (list []*types.SDR, err error) {
	if list, err = c.recordsOf(ofMachine); errors.Is(err, errNoShelf) {
		list, err = c.recordsOf(ofController)
	}
	return list, err
}

func (c *conn) recordsOf(s shelf) (list []*types.SDR, err error) {
	for try := 0; ; try++ {
		list, err = c.readRecords(s)
		if codeOf(err) != 0xC5 || try == reservations {
			return list, err
		}
	}
}

func (c *conn) readRecords(s shelf) (list []*types.SDR, err error) {
	reserved, err := c.ask(s.netFn, s.reserve)
	if unknown(err) && s == ofController { // its sensors are always the same, and their records need no reservation (section 35.4)
		reserved, err = []byte{0, 0}, nil
	}
	if unknown(err) {
		return nil, fmt.Errorf("%w (%w): %w", errNoShelf, err, driver.ErrUnsupported)
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
		raw, next, err := c.record(s, reserved, id)
		if codeOf(err) == 0xCB && n == 0 { // an empty repository
			return nil, nil
		}
		if unknown(err) && n == 0 {
			return nil, fmt.Errorf("%w (%w): %w", errNoShelf, err, driver.ErrUnsupported)
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

// unknown reports whether the controller does not know the command.
func unknown(err error) bool {
	code := codeOf(err)
	return code == 0xC1 || code == 0xCC
}

// record reads a record in pieces, and the id of the next.
func (c *conn) record(s shelf, reserved []byte, id uint16) (raw []byte, next uint16, err error) {
	for whole := sdrHeader; len(raw) < whole; {
		n := min(piece, whole-len(raw))
		data, err := c.ask(s.netFn, s.get, reserved[0], reserved[1], byte(id), byte(id>>8), byte(len(raw)), byte(n))
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
