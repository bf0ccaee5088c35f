// Package dispatch turns a verb of the API into work for a rack: it checks the
// state machine and everything that speaks against the request, and records in one
// transaction what was accepted (state, generation, work row, history row, outbox
// rows). The relay does the rest.
//
// It may import protocol and central/store. Invariants: what is refused changes
// nothing; what is accepted is in the database before anybody is told; a node has
// at most one open work row.
package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Roster knows the rackds that live. It must be safe for concurrent use.
type Roster interface {
	// Owner returns the rackd that serves a node, ok false for none.
	Owner(node, driver, group string) (m bus.Member, ok bool)
	// Conductors returns all live rackds in order of name.
	Conductors() []bus.Member
}

// Asker puts questions to a rackd. It must be safe for concurrent use. Its errors
// say their own HTTP status; 503 means that the rackd gave no answer.
type Asker interface {
	Ask(ctx context.Context, m bus.Member, q ask.Request) (json.RawMessage, error)
}

// GroupKeys returns a conductor group's key as it counts now (central/groupkeys). It must be safe for
// concurrent use.
type GroupKeys interface {
	ForGroup(group string) (*seal.Key, error)
}

// Dispatcher accepts requests. Its fields do not change; it is safe for concurrent use.
type Dispatcher struct {
	Store  *store.Store
	Roster Roster
	Ask    Asker
	Key    *seal.Key
	// Groups are the keys of the conductor groups; nil: those of Key, none of which was ever replaced.
	Groups GroupKeys
	Now    func() time.Time
	Log    *slog.Logger
	// DisallowedSteps are those, as "interface.step", that no list of steps may name; nil:
	// vendor.send_raw.
	DisallowedSteps []string
	Limits          Limits
	// Away says why the site of a conductor group cannot be reached, nil when it can.
	// Its error says its own HTTP status. nil: every site can always be reached.
	Away func(group string) error
}

// Refusal is a request that is not accepted, with the HTTP status that says so.
type Refusal struct {
	Status int
	Text   string // where Ironic refuses the same, in its words
	// Detail is what Ironic would not have said.
	Detail string
	// Locked is the UUID of a node whose open work alone is in the way, so that the same
	// request may be accepted once that has ended; else empty.
	Locked string
}

// Error is the text with its detail, for logs.
func (e *Refusal) Error() string {
	if e.Detail == "" {
		return e.Text
	}
	return e.Text + " (" + e.Detail + ")"
}

// Answer is what the client is told: the text, and the detail beside it.
func (e *Refusal) Answer() (text, detail string) { return e.Text, e.Detail }

// HTTPStatus is the status of the answer.
func (e *Refusal) HTTPStatus() int { return e.Status }

func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

// detailed sets Detail and returns e.
func (e *Refusal) detailed(format string, args ...any) *Refusal {
	e.Detail = fmt.Sprintf(format, args...)
	return e
}

// Locked is the refusal of a request about a node that has open work, and that may be
// accepted when it has none.
func Locked(n *store.Node) error {
	e := Occupied(n).(*Refusal)
	e.Locked = n.UUID
	return e
}

// Busy reports whether a rackd works on a node now: not when its work waits for the machine
// or for an operator.
func Busy(n *store.Node) bool {
	state, _ := provision.Describe(n.ProvisionState)
	return n.WorkID != "" && state.Kind != provision.Waiting && state.Kind != provision.Held
}

// Occupied is the refusal of a request that does not fit the state of a node, which has open work.
func Occupied(n *store.Node) error {
	holder := n.Reservation
	if holder == "" {
		holder = "a conductor that is not known yet"
	}
	return refuse(http.StatusConflict, "Node %s is locked by host %s, please retry after the current operation is completed.", n.UUID, holder).
		detailed("it is doing %q, work %s", n.WorkVerb, n.WorkID)
}

// Owner returns the rackd that serves a node; while its site is away, the one that
// did. Without one: 503 when its site is away or no rackd is alive at all, else
// status, which says whether the node or the request is at fault.
func (d *Dispatcher) Owner(n *store.Node, status int) (bus.Member, error) {
	if m, ok := d.Roster.Owner(n.UUID, n.Driver, n.ConductorGroup); ok {
		return m, nil
	}
	if err := d.away(n); err != nil {
		return bus.Member{}, err
	}
	if len(d.Roster.Conductors()) == 0 {
		return bus.Member{}, refuse(http.StatusServiceUnavailable,
			"No conductor is alive: start a rackd, or look at the link to its site. Retry then.")
	}
	return bus.Member{}, refuse(status, "No valid host was found. Reason: No conductor service registered which supports driver %s "+
		"for conductor group \"%s\". Ensure the driver is valid and enabled.", n.Driver, n.ConductorGroup)
}

// away says why the node's site cannot be reached, nil when it can.
func (d *Dispatcher) away(n *store.Node) error {
	if d.Away == nil {
		return nil
	}
	return d.Away(n.ConductorGroup)
}

// workOwner returns the rackd that work on n is meant for. While its site is away
// nobody needs to be known: whoever the ring names then takes the work when the site
// is back.
func (d *Dispatcher) workOwner(n *store.Node) (bus.Member, error) {
	m, err := d.Owner(n, http.StatusNotFound)
	if err != nil && d.away(n) != nil {
		return bus.Member{}, nil
	}
	return m, err
}

// Dirty is the outbox row that makes the relay bring a node's documents up to date.
func Dirty(n *store.Node) *store.Outbox {
	return &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: n.ConductorGroup}
}

// Caller is who asks, for the records.
type Caller struct {
	RequestID string
	User      string
	Project   string // of User, empty for the system's
}

// newWork is the row of a piece of work that n, as just accepted, begins.
func (d *Dispatcher) newWork(n *store.Node, owner string, c Caller) *store.Work {
	return &store.Work{ID: NewWorkID(), Node: n.UUID, Group: n.ConductorGroup, Generation: n.Generation,
		RequestID: c.RequestID, Entry: n.ProvisionState, EntryTarget: n.TargetProvisionState,
		State: store.WorkOpen, Owner: owner, RequestedAt: d.Now().UTC()}
}

// acceptance is what an accepted request writes.
type acceptance struct {
	node *store.Node // its open work, if any, is superseded
	verb string      // as the request named it
	work *store.Work // nil for none
	// history is the line that tells of it.
	history store.HistoryEntry
	// ofChildren are lines of other nodes, on which steps of it run.
	ofChildren []*store.HistoryEntry
	// drive, if not nil, is the config drive that travels before the work.
	drive *store.Outbox
	// keep, if not nil, is the config drive that the node keeps from now on.
	keep *store.ConfigDrive
}

// write writes a. The node comes first: when it is no longer as it was read,
// nothing has been written and the error is store.ErrConflict.
func (d *Dispatcher) write(ctx context.Context, tx *store.Tx, a *acceptance) error {
	n, w := a.node, a.work
	if w != nil { // refused before anything is written, a request undoes none that share its commit
		w.Args.Supersedes = n.WorkID
		if err := checkArgs(w); err != nil {
			return err
		}
		if n.WorkID == "" { // open work of its own keeps its parent's steps away
			if err := Engaged(ctx, tx, n); err != nil {
				return err
			}
		}
	}
	if err := tx.UpdateNode(ctx, n); err != nil {
		return err
	}
	if a.keep != nil {
		if err := tx.SetConfigDrive(ctx, a.keep); err != nil {
			return err
		}
	}
	if n.WorkID != "" {
		if err := tx.EndWork(ctx, n.WorkID, store.WorkSuperseded, "superseded by "+a.verb); err != nil {
			return err
		}
	}
	h, dirty := &a.history, Dirty(n)
	if w != nil {
		h.Work, dirty.Object = w.ID, w.ID
		if err := tx.InsertWork(ctx, w); err != nil {
			return err
		}
	}
	h.Node, h.CreatedAt, h.Severity = n.UUID, d.Now().UTC(), "INFO"
	h.State, h.Target, h.Revision = n.ProvisionState, n.TargetProvisionState, n.Revision
	if err := tx.AppendHistory(ctx, append(a.ofChildren, h)...); err != nil {
		return err
	}
	if a.drive == nil {
		return tx.Enqueue(ctx, dirty)
	}
	return tx.Enqueue(ctx, a.drive, dirty)
}
