package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// bmc has a log whose marks are the numbers of entries.
type bmc struct {
	driver.Management
	log *[]driver.LogEntry
}

func (b bmc) LogEnd(context.Context, *node.Document) (string, error) {
	return fmt.Sprint(len(*b.log)), nil
}

func (b bmc) LogEntries(_ context.Context, _ *node.Document, after string) ([]driver.LogEntry, string, error) {
	from := 0
	if _, err := fmt.Sscan(after, &from); err != nil || from > len(*b.log) {
		return nil, "", fmt.Errorf("mark %q: %w", after, driver.ErrUnreachable)
	}
	return (*b.log)[from:], fmt.Sprint(len(*b.log)), nil
}

func (bmc) ClearLog(context.Context, driver.Fence, *node.Document) error {
	panic("the task clears the log")
}

type history struct {
	marks []string
	lines []string
	away  bool
}

func (h *history) TellLog(_ context.Context, _ *node.Document, o *hardware.Observation, lines []work.Line) error {
	if h.away {
		return errors.New("the bus is away")
	}
	h.marks = append(h.marks, *o.LogMark)
	for _, l := range lines {
		h.lines = append(h.lines, l.Phase+": "+l.Detail)
	}
	return nil
}

func TestNewEntriesAreTold(t *testing.T) {
	hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	log := []driver.LogEntry{{ID: "1", Text: "old"}}
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: hw.Power()}}, "management": {{Name: "m", Impl: bmc{log: &log}}},
		"boot": {{Name: "b", Impl: hw.Boot()}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Document{UUID: "n", Driver: "t", State: provision.Active}
	if hw, err = reg.Resolve(n); err != nil {
		t.Fatal(err)
	}
	h := &history{}
	task := Task(time.Hour, h)
	if !task.Wants(n, hw) || task.Wants(&node.Document{Maintenance: true}, hw) {
		t.Error("whose logs are read")
	}
	read := func(lines int, want string) {
		t.Helper()
		before := len(h.lines)
		if err := task.Do(t.Context(), n, hw); err != nil {
			t.Fatal(err)
		}
		if got := h.lines[before:]; len(got) != lines || lines > 0 && !strings.Contains(got[0], want) {
			t.Errorf("told %q, want %d lines with %q", got, lines, want)
		}
	}
	read(1, "for the first time") // what is old is not told
	read(0, "")                   // central has not written the mark yet
	log = append(log, driver.LogEntry{ID: "2", Severity: hardware.Critical, At: time.Unix(1, 0), Text: "Fan 1 failed"})
	h.away = true
	read(0, "")
	h.away = false
	read(1, "event log: Fan 1 failed (Critical, entry 2, by the BMC's clock 1970-01-01T00:00:01Z)")
	read(0, "")
	n.LogMark = h.marks[len(h.marks)-1] // the document has come
	read(0, "")
	for i := range 50 {
		log = append(log, driver.LogEntry{ID: fmt.Sprint(i), Text: strings.Repeat("é", 1000)})
	}
	read(mostLines+1, "50 new entries; the oldest 30 are left out here")
	for _, l := range h.lines {
		if len(l) > 700 {
			t.Errorf("a line of %d bytes", len(l))
		}
	}
	// Another rackd, which has seen nothing, goes on from the document.
	n.LogMark = "50"
	other := &history{}
	if err := Task(time.Hour, other).Do(t.Context(), n, hw); err != nil || len(other.lines) != 2 {
		t.Errorf("another rackd tells %q, %v", other.lines, err)
	}
	n.LogMark = "junk"
	if err := Task(time.Hour, other).Do(t.Context(), n, hw); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("a BMC that does not answer: %v", err)
	}
}
