package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// logService is one of the logs of a system or its manager.
type logService struct {
	ref
	ID           string `json:"Id"`
	LogEntryType string
	Entries      ref
	Actions      struct {
		Clear struct {
			Target string `json:"target"`
		} `json:"#LogService.ClearLog"`
	}
}

// eventLogs are names of the logs in which firmwares tell what happens to the hardware: iDRAC, HPE, OpenBMC, Lenovo,
// Supermicro. Other logs tell of logins, jobs and settings.
var eventLogs = []string{"sel", "iml", "eventlog", "platformlog", "standardlog", "log1"}

// rank says how likely a log is that of the hardware's events; the least is the best, negative: it is not.
func (l logService) rank() int {
	switch name := strings.ToLower(l.ID); {
	case l.Entries.Path == "":
		return -1
	case l.LogEntryType == "SEL":
		return 0
	case slices.Contains(eventLogs, name):
		return 1 + slices.Index(eventLogs, name)
	case l.LogEntryType == "Event" && !strings.Contains(name, "audit") && !strings.Contains(name, "dump"):
		return 100
	}
	return -1
}

// eventLog finds the log of the hardware's events: among those of the system, else of its manager.
func eventLog(c *gofish.APIClient, s *System) (best logService, err error) {
	m, err := managerOf(c, s)
	if err != nil && !errors.Is(err, driver.ErrUnsupported) {
		return best, err
	}
	least := -1
	for _, owner := range []string{s.Path, m.Path} {
		if owner == "" || least >= 0 {
			continue
		}
		var of struct{ LogServices ref }
		if err := fetch(c, owner, &of); err != nil {
			return best, err
		}
		v := &survey{c: c}
		err := each(v, of.LogServices.Path, func(l logService) {
			if r := l.rank(); r >= 0 && (least < 0 || r < least) {
				best, least = l, r
			}
		})
		if err != nil {
			return best, err
		}
	}
	if least < 0 {
		return best, fmt.Errorf("it shows no log of the hardware's events: %w", driver.ErrUnsupported)
	}
	return best, nil
}

// entry is an entry of a log as firmwares write it.
type entry struct {
	ID       string `json:"Id"`
	Created  string
	Severity string
	Message  string
	// MessageID says what happened where the message is empty.
	MessageID string `json:"MessageId"`
}

// logMark is how far a log was read: to the newest time, and which entries it has of that.
type logMark struct {
	Created string   `json:"created"`
	IDs     []string `json:"ids"`
}

// passed reports whether an entry is as old as the mark or older.
func (m logMark) passed(e entry) bool {
	switch order := cmpTimes(e.Created, m.Created); {
	case order != 0:
		return order < 0
	default:
		return slices.Contains(m.IDs, e.ID)
	}
}

// cmpTimes compares times as BMCs write them: those that cannot be read are the oldest.
func cmpTimes(a, b string) int { return timeAt(a).Compare(timeAt(b)) }

func timeAt(s string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// mostLogPages bounds how often a BMC may say that there is more of its log.
const mostLogPages = 100

// entriesOf reads all entries of a log, the oldest first.
func entriesOf(c *gofish.APIClient, l logService) (list []entry, err error) {
	v := &survey{c: c, expand: expansion(c)}
	path := l.Entries.Path
	for page := 0; path != ""; page++ {
		if page == mostLogPages {
			return nil, fmt.Errorf("its log at %s has no end: %d pages were read", l.Entries.Path, page)
		}
		var next struct {
			Next string `json:"Members@odata.nextLink"`
		}
		if err := each(v, path, func(e entry) { list = append(list, e) }); err != nil {
			return nil, err
		}
		if err := fetch(c, path, &next); err != nil {
			return nil, err
		}
		if v.expand = ""; next.Next == path {
			break
		}
		path = next.Next
	}
	slices.SortStableFunc(list, func(a, b entry) int {
		return cmp.Or(cmpTimes(a.Created, b.Created), cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// markAfter is the mark of the last entry of a list.
func markAfter(list []entry, was logMark) logMark {
	if len(list) == 0 {
		return was
	}
	last := list[len(list)-1].Created
	m := logMark{Created: last}
	if last == was.Created {
		m.IDs = slices.Clone(was.IDs)
	}
	for _, e := range list {
		if e.Created == last && !slices.Contains(m.IDs, e.ID) {
			m.IDs = append(m.IDs, e.ID)
		}
	}
	return m
}

func (m logMark) text() string {
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // texts
	}
	return string(raw)
}

// LogEnd implements driver.EventLog.
func (d *Driver) LogEnd(ctx context.Context, n *node.Document) (mark string, err error) {
	err = d.change(ctx, nil, n, "read the end of the event log", func(s *System, c *gofish.APIClient) error {
		l, err := eventLog(c, s)
		if err != nil {
			return err
		}
		list, err := entriesOf(c, l)
		mark = markAfter(list, logMark{}).text()
		return err
	})
	return mark, err
}

// LogEntries implements driver.EventLog. After a BMC's clock was set back, its new entries are not told until the clock has
// passed the newest entry.
func (d *Driver) LogEntries(ctx context.Context, n *node.Document, after string) (entries []driver.LogEntry, mark string, err error) {
	var was logMark
	_ = json.Unmarshal([]byte(after), &was) // else all that there is comes after it
	err = d.change(ctx, nil, n, "read the event log", func(s *System, c *gofish.APIClient) error {
		l, err := eventLog(c, s)
		if err != nil {
			return err
		}
		list, err := entriesOf(c, l)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, was.passed)
		list = list[:min(len(list), driver.MostLogEntries)]
		mark, entries = markAfter(list, was).text(), nil
		for _, e := range list {
			entries = append(entries, e.told(n))
		}
		return nil
	})
	return entries, mark, err
}

func (e entry) told(n *node.Document) driver.LogEntry {
	return driver.LogEntry{ID: bmc.Told(n.DriverInfo, e.ID), At: timeAt(e.Created), Text: bmc.Told(n.DriverInfo, first(e.Message, e.MessageID)), Severity: severityOf(e.Severity)}
}

// severityOf reads how bad a BMC says that something is; empty: it does not say.
func severityOf(said string) string {
	switch strings.ToLower(said) {
	case "ok", "informational":
		return hardware.OK
	case "warning":
		return hardware.Warning
	case "critical", "fatal":
		return hardware.Critical
	}
	return ""
}

// ClearLog implements driver.EventLog.
func (d *Driver) ClearLog(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.change(ctx, f, n, "clear the event log", func(s *System, c *gofish.APIClient) error {
		l, err := eventLog(c, s)
		if err != nil {
			return err
		}
		was, err := entriesOf(c, l)
		if err != nil || len(was) == 0 {
			return err
		}
		if l.Actions.Clear.Target == "" {
			return fmt.Errorf("it does not clear its log %s: %w", l.ID, driver.ErrUnsupported)
		}
		resp, err := c.Post(l.Actions.Clear.Target, map[string]any{})
		if err != nil {
			return err
		}
		resp.Body.Close()
		newest := markAfter(was, logMark{})
		return awaitSetting(ctx, "a cleared event log", func() (bool, error) {
			is, err := entriesOf(c, l)
			// That it was cleared is an entry of many firmwares.
			return !slices.ContainsFunc(is, newest.passed), err
		})
	})
}
