package verdict

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/operators"
	"github.com/ironyard/ironyard/e2e/faults/witness"
	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Evidence is all that is left of a run.
type Evidence struct {
	Requests []*operators.Request
	Sights   []witness.Sight
	Nodes    []Node
	Works    []Work
	History  []Entry
	// Outbox is how many entries have not been published.
	Outbox int
	Sites  []Site
}

// Site is what lies on a site's bus.
type Site struct {
	Name string
	// Events are the stream's, in its order; First is the sequence number of the first.
	Events []work.Event
	First  uint64
	Nodes  map[string]node.Document // by key
	Work   map[string]work.Document // by key
	Groups map[string]bus.Group     // by key
	// Machines are the site's, and Audit what their journal proves to be wrong.
	Machines []control.Machine
	Audit    []audit.Finding
	// Journal is theirs, read only to be saved.
	Journal []journal.Record
	// Expected are the groups as central was configured, by key.
	Expected map[string]bus.Group
}

// Node is a row of the table nodes.
type Node struct {
	UUID, Name, Driver, Group, InstanceUUID string
	Generation, Observed                    int64
	State, Target                           provision.State
	ObservedState, ObservedTarget           provision.State
	Epoch                                   uint64
	LastError, ObservedError                string
	Power, PowerTarget                      string
	Image                                   string // checksum
	Maintenance                             bool
	MACs                                    []string
}

// Work is a row of the table works.
type Work struct {
	ID, Node, RequestID, State, Error string
	Generation                        int64
	Verb                              work.Verb
	Requested, Ended                  time.Time
}

// Entry is a row of the table node_history.
type Entry struct {
	ID, Node, Work, Kind, Text, Conductor string
	At                                    time.Time
}

// Save writes the evidence into a folder, a file of JSON lines for each kind.
func (e *Evidence) Save(dir string) error {
	if err := save(dir, "nodes", e.Nodes); err != nil {
		return err
	}
	if err := save(dir, "works", e.Works); err != nil {
		return err
	}
	if err := save(dir, "history", e.History); err != nil {
		return err
	}
	for _, s := range e.Sites {
		if err := save(dir, "events-"+s.Name, s.Events); err != nil {
			return err
		}
		if err := save(dir, "machines-"+s.Name, s.Machines); err != nil {
			return err
		}
		if err := save(dir, "journal-"+s.Name, s.Journal); err != nil {
			return err
		}
	}
	return nil
}

func save[T any](dir, name string, rows []T) (err error) {
	f, err := os.Create(filepath.Join(dir, name+".jsonl"))
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	out := json.NewEncoder(f)
	for _, r := range rows {
		if err := out.Encode(r); err != nil {
			return fmt.Errorf("save %s: %w", name, err)
		}
	}
	return nil
}
