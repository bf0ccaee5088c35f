package ribcl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// happened is an entry of the Integrated Management Log. Entries have no numbers. What happens again is counted in its entry.
type happened struct {
	class, text, severity string
	initial, updated      time.Time
	count                 int
}

// written is how iLOs write times; "[NOT SET]" stands where they know none.
const written = "01/02/2006 15:04"

// log reads the Integrated Management Log, in its own order: the oldest entry first.
func (t *turn) log() (list []happened, err error) {
	e, err := t.read(server, "GET_EVENT_LOG", nil, "EVENT_LOG")
	if err != nil {
		return nil, err
	}
	at := func(e element, name string) time.Time {
		when, err := time.Parse(written, e.attribute(name))
		if err != nil {
			return time.Time{}
		}
		return when
	}
	for _, one := range e.all("EVENT") {
		count, _ := strconv.Atoi(one.attribute("COUNT"))
		list = append(list, happened{one.attribute("CLASS"), one.attribute("DESCRIPTION"), one.attribute("SEVERITY"), at(one, "INITIAL_UPDATE"),
			at(one, "LAST_UPDATE"), count})
	}
	return list, nil
}

// key tells an entry from others, and stays when it is counted on or marked as repaired.
func (h happened) key() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{h.class, h.text, h.initial.Format(written)}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// clears reports whether the entry says that the log was cleared: it is what a cleared log holds.
func (h happened) clears() bool { return strings.Contains(strings.ToLower(h.text), "iml cleared") }

func (h happened) told(n *node.Document, place int) driver.LogEntry {
	e := driver.LogEntry{ID: strconv.Itoa(place), At: h.updated, Text: bmc.Told(n.DriverInfo, h.class+": "+h.text)}
	if h.count > 1 {
		e.Text += fmt.Sprintf(" (%d times)", h.count)
	}
	switch strings.ToLower(h.severity) {
	case "informational", "repaired":
		e.Severity = hardware.OK
	case "caution":
		e.Severity = hardware.Warning
	case "critical":
		e.Severity = hardware.Critical
	}
	return e
}

// mark is how far a log was read: to which entry, at which place, and to the newest time in it.
type mark struct {
	Place   int       `json:"place"`
	Key     string    `json:"key,omitempty"`
	Updated time.Time `json:"updated,omitzero"`
}

// markAt is the mark behind the first entries of a list.
func markAt(list []happened, entries int) (m mark) {
	for _, h := range list {
		if h.updated.After(m.Updated) {
			m.Updated = h.updated
		}
	}
	if m.Place = entries; entries > 0 {
		m.Key = list[entries-1].key()
	}
	return m
}

// passed is how many entries of a list the mark has behind it; none where the log was cleared since.
func (m mark) passed(list []happened) int {
	if m.Place > 0 && m.Place <= len(list) && list[m.Place-1].key() == m.Key {
		return m.Place
	}
	for i, h := range slices.Backward(list) {
		if h.key() == m.Key {
			return i + 1
		}
	}
	return 0
}

func (m mark) text() string {
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // texts and numbers
	}
	return string(raw)
}

// LogEnd implements driver.EventLog. RIBCL tells the whole log or nothing.
func (d *Driver) LogEnd(ctx context.Context, n *node.Document) (end string, err error) {
	err = d.with(ctx, nil, n, "read the end of the event log", func(t *turn) error {
		list, err := t.log()
		end = markAt(list, len(list)).text()
		return err
	})
	if err != nil {
		return "", err
	}
	return end, nil
}

// LogEntries implements driver.EventLog. An entry that was counted on since the mark is told again.
func (d *Driver) LogEntries(ctx context.Context, n *node.Document, after string) (entries []driver.LogEntry, next string, err error) {
	var was mark
	_ = json.Unmarshal([]byte(after), &was) // else all that there is comes after it
	err = d.with(ctx, nil, n, "read the event log", func(t *turn) error {
		list, err := t.log()
		if err != nil {
			return err
		}
		entries = nil
		passed := was.passed(list)
		place := passed
		for i, h := range list {
			if i < passed && !h.updated.After(was.Updated) {
				continue
			}
			if len(entries) == driver.MostLogEntries {
				m := markAt(list[:place], place) // what is left out comes next time
				if i < passed {
					m.Updated = was.Updated // and what was counted on comes twice
				}
				next = m.text()
				return nil
			}
			entries, place = append(entries, h.told(n, i+1)), max(place, i+1)
		}
		next = markAt(list, len(list)).text()
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return entries, next, nil
}

// ClearLog implements driver.EventLog.
func (d *Driver) ClearLog(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, f, n, "clear the event log", func(t *turn) error {
		was, err := t.log()
		if err != nil {
			return err
		}
		before := map[string]bool{}
		for _, h := range was {
			if !h.clears() {
				before[h.key()] = true
			}
		}
		if len(before) == 0 {
			return nil
		}
		if _, err := t.write(server, "CLEAR_IML", nil, ""); err != nil {
			return err
		}
		is, err := t.log()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(is, func(h happened) bool { return before[h.key()] }) {
			return fmt.Errorf("it accepted the order, and shows %d entries of before still", len(is))
		}
		return nil
	})
}
