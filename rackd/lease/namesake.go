package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// ErrNamesake means that a rackd of this one's name runs in another conductor group of the
// site. Work documents name their owner, machines and operators know rackds by their names:
// each name is one rackd's.
var ErrNamesake = errors.New("another rackd of this site has this name")

// youth is how long after its first lease began a rackd still gives way to a namesake: two
// that start at one moment may not see each other before both are announced. Later it
// stays, whatever comes.
const youth = 3 * bus.LeaseTTL

// soleBearer returns nil when no rackd in another group bears this rackd's name. It is asked
// before the first announcement, and reads what the watch may not have shown yet.
func (l *Lease) soleBearer(ctx context.Context) error {
	if l.ID() != "" {
		return nil
	}
	keys, err := l.site.List(ctx, l.site.Alive)
	if err != nil {
		return fmt.Errorf("look for other rackds of this name: %w", err)
	}
	for key, e := range keys {
		if key == l.key() {
			continue
		}
		if m, err := bus.ReadMember(key, e.Value()); err == nil && m.Name == l.self.Name && l.rival.sees(m.Instance, e.Revision()) {
			return namesake(m)
		} else if err == nil && m.Name == l.self.Name {
			return fmt.Errorf("rackd %s of conductor group %q has left its lease, or lives: waiting up to %s to see which", m.Name, m.Group, bus.LeaseTTL)
		}
	}
	return nil
}

// elder returns an error when a namesake has begun at the same moment as this rackd and
// is to stay.
func (l *Lease) elder(began time.Time) error {
	if time.Since(began) > youth {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, m := range l.members {
		if key == l.key() || m.Name != l.self.Name {
			continue
		}
		if order := m.StartedAt.Compare(l.self.StartedAt); order < 0 || order == 0 && key < l.key() {
			return namesake(m)
		}
	}
	return nil
}

func namesake(m bus.Member) error {
	return fmt.Errorf("%w: rackd %s of conductor group %q, started %s, lives; give this rackd a name of its own with --name (its default is the host's name), or stop that one",
		ErrNamesake, m.Name, m.Group, m.StartedAt.Format(time.RFC3339))
}

// sees takes in that a rival's key is at a revision, and reports whether it was seen to be
// renewed so often that its holder must live: one that is dead leaves its key behind, at
// most with a renewal that was on its way.
func (r *rival) sees(instance string, rev uint64) (lives bool) {
	if r.instance != instance {
		*r = rival{instance, rev, 0}
	} else if r.rev != rev {
		r.rev = rev
		r.renewals++
	}
	return r.renewals > 1
}
