package snmpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// What is read of one column at most. The largest machines have some hundred drives.
const (
	mostRows  = 1000
	mostBytes = 256 << 10
)

// Cell is one row's value of a column.
type Cell struct {
	// Index says which row it is, as in "1.4".
	Index string
	Value gosnmp.SnmpPDU
}

// Column reads a column of a table, by one request for each row. A table that is not there has no cells.
func (s *Session) Column(ctx context.Context, column string) (cells []Cell, err error) {
	size := 0
	for at := column; ; {
		v, err := s.read(ctx, func() (*gosnmp.SnmpPacket, error) { return s.client.GetNext([]string{at}) })
		if errors.Is(err, ErrAbsent) {
			return cells, nil
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(v.Name, ".")
		if !follows(name, at) {
			return nil, &bmc.Failure{Said: fmt.Sprintf("%.100s as the object after %s, and it is none: its firmware may need an update", name, at)}
		}
		index, below := strings.CutPrefix(name, column+".")
		if !below {
			return cells, nil
		}
		if len(cells) == mostRows {
			return nil, tooMuch(mostRows, "rows", column)
		}
		if size += len(index) + sizeOf(v); size > mostBytes {
			return nil, tooMuch(mostBytes, "octets", column)
		}
		cells, at = append(cells, Cell{index, v}), name
	}
}

func tooMuch(most int, what, column string) error {
	return &bmc.Failure{Said: fmt.Sprintf("more than %d %s of %s, which is more than a machine has: its firmware may need an update", most, what, column)}
}

// sizeOf is how much a value holds, in octets.
func sizeOf(v gosnmp.SnmpPDU) int {
	switch value := v.Value.(type) {
	case []byte:
		return len(value)
	case string:
		return len(value)
	}
	return 8
}

// follows reports whether an object stands after another one. Without that, a walk through a table would have no end.
func follows(name, before string) bool {
	a, good := numbers(name)
	b, _ := numbers(before)
	return good && slices.Compare(a, b) > 0
}

// mostNumbers is how many an object's name has at most (RFC 3416, section 4).
const mostNumbers = 128

// numbers are those of an object's name.
func numbers(name string) (list []uint32, good bool) {
	for text := range strings.SplitSeq(name, ".") {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || len(list) == mostNumbers {
			return nil, false
		}
		list = append(list, uint32(n))
	}
	return list, true
}
