// Package eventlog is the periodic task that reads the event logs of BMCs: an IPMI SEL, a log service of Redfish. What is new in a log
// becomes lines of the node's history.
//
// It may import protocol, rackd/driver and rackd/periodic; it declares what else it needs.
// Invariants:
//   - It only reads. A log is cleared where a request asks for it.
//   - Up to where a log was told stands in the node's document, so that a restart and another rackd go on from there.
//   - An entry is told at least once. One reading makes mostLines lines at most.
package eventlog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/periodic"
)

// Name of the task.
const Name = "event-log"

// History takes lines about a node that has no work (rackd/conductor).
type History interface {
	TellLog(ctx context.Context, n *node.Document, o *hardware.Observation, lines []work.Line) error
}

const (
	// readTimeout bounds one reading.
	readTimeout = 2 * time.Minute
	// mostLines is how many entries one reading tells. A node's history keeps its newest 300 lines.
	mostLines = 20
	// phase is what the lines begin with.
	phase = "event log"
	// mostText bounds what is told of an entry, in bytes.
	mostText = 500
)

// reader remembers what was told and is not in the nodes' documents yet.
type reader struct {
	history History

	mu   sync.Mutex
	told map[string]step // by node
}

// step is from which mark to which a log was told.
type step struct{ from, to string }

// Task reads the event logs of nodes.
func Task(every time.Duration, h History) periodic.Task {
	r := &reader{history: h, told: map[string]step{}}
	return periodic.Task{Name: Name, Every: every, Workers: 4, Wants: wants, Do: r.read}
}

func wants(n *node.Document, hw *driver.Hardware) bool {
	_, can := hw.Management().(driver.EventLog)
	return can && !n.Maintenance && !n.State.In([]provision.State{provision.Enroll})
}

// mark is up to where the node's log was told.
func (r *reader) mark(n *node.Document) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ahead := r.told[n.UUID]
	switch {
	case !ahead:
		return n.LogMark
	case s.from == n.LogMark: // central has not written it yet
		return s.to
	}
	delete(r.told, n.UUID)
	return n.LogMark
}

func (r *reader) read(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	log := hw.Management().(driver.EventLog)
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	mark := r.mark(n)
	if mark == "" {
		end, err := log.LogEnd(reading, n)
		if err != nil {
			return err
		}
		r.tell(ctx, n, end, []work.Line{{Time: time.Now().UTC(), Phase: phase, Detail: "read for the first time: what is new in it from here on is told here"}})
		return nil
	}
	entries, next, err := log.LogEntries(reading, n, mark)
	if err != nil || next == mark {
		return err
	}
	r.tell(ctx, n, next, lines(entries, time.Now().UTC()))
	return nil
}

// tell reports what is new. What cannot be reported is so at the next reading; the history tells the log.
func (r *reader) tell(ctx context.Context, n *node.Document, mark string, list []work.Line) {
	if r.history.TellLog(ctx, n, &hardware.Observation{LogMark: &mark}, list) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[n.UUID] = step{n.LogMark, mark}
}

// lines puts entries into lines of history. A line has the time at which it was read: BMCs' clocks are often wrong.
func lines(entries []driver.LogEntry, now time.Time) (list []work.Line) {
	if more := len(entries) - mostLines; more > 0 {
		list = append(list, work.Line{Time: now, Phase: phase, Detail: fmt.Sprintf("%d new entries; the oldest %d are left out here, get_event_log shows them", len(entries), more)})
		entries = entries[more:]
	}
	for _, e := range entries {
		var about []string
		if e.Severity != "" {
			about = append(about, e.Severity)
		}
		about = append(about, "entry "+e.ID)
		if !e.At.IsZero() {
			about = append(about, "by the BMC's clock "+e.At.UTC().Format(time.RFC3339))
		}
		text := e.Text
		if len(text) > mostText {
			text = strings.ToValidUTF8(text[:mostText], "") + " …"
		}
		list = append(list, work.Line{Time: now, Phase: phase, Detail: fmt.Sprintf("%s (%s)", text, strings.Join(about, ", "))})
	}
	return list
}
