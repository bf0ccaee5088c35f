package driver

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
)

// LogEntry is an entry of the event log of a BMC.
type LogEntry struct {
	ID string `json:"id"`
	// At is by the BMC's clock; zero: it tells no time.
	At time.Time `json:"created,omitzero"`
	// Severity is hardware.OK, Warning or Critical; empty: the BMC does not say.
	Severity string `json:"severity,omitempty"`
	Text     string `json:"message"`
}

// EventLog is implemented by management interfaces of machines whose BMC keeps a log of events. Where the machine has none it is
// ErrUnsupported.
type EventLog interface {
	// LogEnd returns the mark of the newest entry, without reading the others. An empty log has a mark too.
	LogEnd(ctx context.Context, n *node.Document) (mark string, err error)
	// LogEntries returns the entries after a mark, oldest first, at most MostLogEntries of them, and the mark of the last. All that
	// the log holds come after an empty mark, and after one whose entry it no longer has.
	LogEntries(ctx context.Context, n *node.Document, after string) (entries []LogEntry, mark string, err error)
	// ClearLog removes all entries, and returns once the log shows none but those that say so. An empty log is left alone.
	ClearLog(ctx context.Context, f Fence, n *node.Document) error
}

// MostLogEntries bounds what is read of an event log at once.
const MostLogEntries = 500

// clearLog is a step and a method that Ironic does not have.
const clearLog, getLog = "clear_event_log", "get_event_log"

// EventLogSteps are the steps of a kind of interface that concern the event log.
func EventLogSteps(kind string, l EventLog) []Step {
	return []Step{{Interface: kind, Name: clearLog, Kind: Repeatable, Retries: 2, Pause: 5 * time.Second, In: InClean | InService, NoRamdisk: true,
		Run: func(ctx context.Context, t *Task) (Outcome, error) {
			return Done(), Settle(func() error { return l.ClearLog(ctx, t.Fence, t.Node) })
		}}}
}

// EventLogMethods are vendor methods that concern the event log.
func EventLogMethods(l EventLog) []VendorMethod {
	none := func(n *node.Document, args map[string]any) error {
		for name := range args {
			return Refuse("Node %s: unknown argument %q: the method takes none", n.UUID, name)
		}
		return nil
	}
	return []VendorMethod{
		{Method: Method{Name: getLog, HTTPMethods: []string{http.MethodGet}, Description: "List the BMC's event log, the oldest of its entries first, at most 500."}, Shared: true, Check: none,
			Call: func(ctx context.Context, _ Fence, n *node.Document, _ map[string]any) (any, error) {
				entries, _, err := l.LogEntries(ctx, n, "")
				if entries == nil {
					entries = []LogEntry{}
				}
				return map[string]any{"entries": entries}, err
			}},
		{Method: Method{Name: clearLog, HTTPMethods: []string{http.MethodPost}, Description: "Remove all entries of the BMC's event log.", Async: true}, Check: none,
			Call: func(ctx context.Context, f Fence, n *node.Document, _ map[string]any) (any, error) {
				return nil, Settle(func() error { return l.ClearLog(ctx, f, n) })
			}},
	}
}

// WithEventLog is methods of a vendor interface with those that concern the event log in place of any of their names.
func WithEventLog(methods []VendorMethod, l EventLog) []VendorMethod {
	others := slices.DeleteFunc(methods, func(m VendorMethod) bool { return m.Name == getLog || m.Name == clearLog })
	return append(others, EventLogMethods(l)...)
}
