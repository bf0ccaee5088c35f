package console

import (
	"context"
	"errors"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/consolecopy"
)

// Place is where the copy of a node's console lies.
type Place struct{ Group, Node string }

// Key is the place's key in bus.ConsolesBucket.
func (p Place) Key() string { return bus.NodeKey(p.Group, p.Node) }

// There is a copy that lies on the bus.
type There struct {
	Key      string
	Revision uint64
	Written  time.Time
}

// Copies keeps copies of logs where they outlive this rackd (rackd/consolebus). Safe for concurrent use.
type Copies interface {
	// Load returns the copy of a log and its revision. Without one it returns nil and 0, with one that is not to be used nil and its
	// revision.
	Load(ctx context.Context, at Place) (*consolecopy.Copy, uint64, error)
	// Save writes a copy if the one that is there has that revision; 0: if none is there. It returns the new revision and the
	// bytes that were written.
	Save(ctx context.Context, at Place, c consolecopy.Copy, revision uint64) (now uint64, bytes int, err error)
	// Remove removes the copy if it has that revision.
	Remove(ctx context.Context, key string, revision uint64) error
	// List returns all copies of the groups that this rackd may serve.
	List(ctx context.Context) ([]There, error)
	// Key names the key that Save seals with; empty: there is none.
	Key(group string) string
}

// The errors of Copies.
var (
	// ErrNoCopies means that no copies are kept: there is no place for them, or this rackd may not use it.
	ErrNoCopies = errors.New("no copies of consoles' logs are kept")
	// ErrCopyChanged means that the copy has not the revision that was named: another rackd has written it, or it was lost.
	ErrCopyChanged = errors.New("another rackd has written the copy of the console's log")
)

// The times and rates of copies.
const (
	// settles is how long a machine has to be silent for its log to be copied at once.
	settles = time.Second
	// copyWithin is how long a machine may write before its log is copied, while rates allow.
	copyWithin = 5 * time.Second
	// CopyRate is how many bytes of copies a second one console has, and RackdCopyRate all of a rackd. Both are of
	// what is written to the bus, which is compressed.
	CopyRate      = 8 << 10
	RackdCopyRate = 256 << 10
	// copyTick is how often the copier looks which logs have changed.
	copyTick = 250 * time.Millisecond
	// copyTimeout bounds one request to the bus about a copy.
	copyTimeout = 2 * time.Second
	// copyAgain is the pause of a console whose copy could not be written.
	copyAgain = 5 * time.Second
	// fullFor is that where the site has no room for it: each attempt packs the log in several sizes.
	fullFor = time.Minute
	// noCopiesFor is the pause where no copies are kept.
	noCopiesFor = time.Minute
)
