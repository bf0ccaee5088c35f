package ipmi

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Commands of the system event log (section 31).
const (
	cmdSELInfo    = 0x40
	cmdReserveSEL = 0x42
	cmdGetSEL     = 0x43
	cmdClearSEL   = 0x47

	selRecord = 16
	firstSEL  = 0x0000
	lastSEL   = 0xFFFF
	// noSEL is the mark of an empty log.
	noSEL = "empty"
)

// selInfo is what the BMC tells of its log as a whole.
type selInfo struct {
	entries int
	erased  uint32 // when it was cleared last, by the BMC's clock
}

func (c *conn) selInfo() (s selInfo, err error) {
	data, err := c.ask(netFnStorage, cmdSELInfo)
	if code := codeOf(err); code == 0xC1 || code == 0xC2 || code == 0xCC {
		return s, fmt.Errorf("it has no event log (%w): %w", err, driver.ErrUnsupported)
	}
	if err != nil {
		return s, err
	}
	if len(data) < 13 {
		return s, short("its event log", data)
	}
	return selInfo{int(data[1]) | int(data[2])<<8, uint32(data[9]) | uint32(data[10])<<8 | uint32(data[11])<<16 | uint32(data[12])<<24}, nil
}

// selEntry reads a record, and the id of the next. There is none: raw is nil.
func (c *conn) selEntry(id uint16) (raw []byte, next uint16, err error) {
	data, err := c.ask(netFnStorage, cmdGetSEL, 0, 0, byte(id), byte(id>>8), 0, 0xFF)
	switch code := codeOf(err); {
	case code == 0xCB || code == 0xC9: // not there, or no such record number
		return nil, lastSEL, nil
	case err != nil:
		return nil, 0, err
	case len(data) < 2+selRecord:
		return nil, 0, short("an entry of its event log", data)
	}
	return data[2 : 2+selRecord], uint16(data[0]) | uint16(data[1])<<8, nil
}

func idOf(raw []byte) uint16 { return uint16(raw[0]) | uint16(raw[1])<<8 }

// LogEnd implements driver.EventLog.
func (d *Driver) LogEnd(ctx context.Context, n *node.Document) (mark string, err error) {
	err = d.with(ctx, nil, n, "read the end of the event log", func(c *conn) error {
		info, err := c.selInfo()
		if mark = noSEL; err != nil || info.entries == 0 {
			return err
		}
		raw, _, err := c.selEntry(lastSEL)
		if raw != nil {
			mark = hex.EncodeToString(raw)
		}
		return err
	})
	return mark, err
}

// LogEntries implements driver.EventLog. A mark is the whole record, so that one whose number was given again is not taken for it.
func (d *Driver) LogEntries(ctx context.Context, n *node.Document, after string) (entries []driver.LogEntry, mark string, err error) {
	err = d.with(ctx, nil, n, "read the event log", func(c *conn) error {
		entries, mark = nil, after
		info, err := c.selInfo()
		if err != nil {
			return err
		}
		if info.entries == 0 {
			mark = noSEL
			return nil
		}
		id, err := c.selAfter(after)
		if err != nil {
			return err
		}
		for seen := map[uint16]bool{}; id != lastSEL && len(entries) < driver.MostLogEntries; {
			raw, next, err := c.selEntry(id)
			if err != nil {
				return err
			}
			if raw == nil {
				break
			}
			if seen[idOf(raw)] {
				return fmt.Errorf("its event log has no end: entry %d comes twice", idOf(raw))
			}
			seen[idOf(raw)] = true
			entries, mark = append(entries, entryOf(raw)), hex.EncodeToString(raw)
			id = next
		}
		return nil
	})
	return entries, mark, err
}

// selAfter is the id of the record after a mark; the first one where the log no longer has the mark's.
func (c *conn) selAfter(mark string) (uint16, error) {
	known, err := hex.DecodeString(mark)
	if err != nil || len(known) != selRecord {
		return firstSEL, nil
	}
	raw, next, err := c.selEntry(idOf(known))
	if err != nil || string(raw) != string(known) {
		return firstSEL, err
	}
	return next, nil
}

// entryOf puts a record into words.
func entryOf(raw []byte) driver.LogEntry {
	e := driver.LogEntry{ID: fmt.Sprint(idOf(raw)), Text: fmt.Sprintf("record of type %02Xh: % X", raw[2], raw[3:])}
	r, err := parseSEL(raw)
	if err != nil {
		return e
	}
	switch {
	case r.Standard != nil:
		s := r.Standard
		e.At = timeOf(raw)
		way := "asserted"
		if s.EventDir {
			way = "deasserted"
		}
		words, severity := said(s)
		if words == "" {
			words = fmt.Sprintf("event type %02Xh, data % X", uint8(s.EventReadingType), raw[13:])
		}
		e.Text, e.Severity = fmt.Sprintf("%s #0x%02x: %s, %s", s.SensorType, uint8(s.SensorNumber), words, way), severity
	case r.OEMTimestamped != nil:
		e.At = timeOf(raw)
		e.Text = fmt.Sprintf("record of manufacturer %d: % X", r.OEMTimestamped.ManufacturerID, raw[10:])
	}
	return e
}

// said is an event in words, and how bad it is. The library knows no event at some offsets.
func said(s *types.SELStandard) (words, severity string) {
	defer func() {
		if recover() != nil {
			words, severity = "", ""
		}
	}()
	words = strings.TrimSpace(s.EventString())
	switch s.EventSeverity() {
	case types.EventSeverityInfo, types.EventSeverityOK:
		severity = hardware.OK
	case types.EventSeverityWarning, types.EventSeverityDegraded:
		severity = hardware.Warning
	case types.EventSeverityCritical, types.EventSeverityNonFatal:
		severity = hardware.Critical
	}
	return words, severity
}

// parseSEL parses a record. The library's parser may panic on records that firmware has garbled.
func parseSEL(raw []byte) (r *types.SEL, err error) {
	defer func() {
		if recover() != nil {
			r, err = nil, errors.New("the record is garbled")
		}
	}()
	return types.ParseSEL(raw)
}

// timeOf is when a record was made. Small numbers count from the BMC's start (section 37), and tell no time.
func timeOf(raw []byte) (at time.Time) {
	seconds := uint32(raw[3]) | uint32(raw[4])<<8 | uint32(raw[5])<<16 | uint32(raw[6])<<24
	if seconds > 0x20000000 && seconds != 0xFFFFFFFF {
		at = time.Unix(int64(seconds), 0).UTC()
	}
	return at
}

const (
	clearInitiate, clearStatus = 0xAA, 0x00
	// clearLooks is how often the BMC is asked whether it has erased its log, clearPause apart.
	clearLooks = 30
)

// clearPause is a variable for tests alone.
var clearPause = time.Second

// ClearLog implements driver.EventLog.
func (d *Driver) ClearLog(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, f, n, "clear the event log", func(c *conn) error {
		was, err := c.selInfo()
		if err != nil || was.entries == 0 {
			return err
		}
		reserved, err := c.ask(netFnStorage, cmdReserveSEL)
		switch code := codeOf(err); {
		case code == 0xC1: // it needs none
			reserved = []byte{0, 0}
		case err != nil:
			return err
		case len(reserved) < 2:
			return short("a reservation of its event log", reserved)
		}
		order := []byte{reserved[0], reserved[1], 'C', 'L', 'R', clearInitiate}
		done, err := c.tell(netFnStorage, cmdClearSEL, order...)
		if err != nil {
			return err
		}
		order[5] = clearStatus
		for look := 0; len(done) > 0 && done[0]&0x0F == 0; look++ { // section 31.9: erasure in progress
			if look == clearLooks {
				return fmt.Errorf("it has been erasing its event log for %s", clearLooks*clearPause)
			}
			if err := driver.Pause(ctx, clearPause); err != nil {
				return err
			}
			if done, err = c.ask(netFnStorage, cmdClearSEL, order...); err != nil {
				return err
			}
		}
		is, err := c.selInfo()
		if err != nil {
			return err
		}
		if is.entries > clearedEntries && is.erased == was.erased {
			return fmt.Errorf("it accepted to clear its event log, which still has %d entries", is.entries)
		}
		return nil
	})
}

// clearedEntries is how many entries a log may have that was cleared a moment ago: that it was cleared is one.
const clearedEntries = 2
