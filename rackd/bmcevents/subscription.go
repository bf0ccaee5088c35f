package bmcevents

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Prefix is the path below which BMCs post.
const Prefix = "/bmc-events/"

// address is where the BMC of a node posts, empty where nothing takes its posts. It changes with the account.
func (l *Listener) address(n *node.Document, account string) string {
	code := l.Codes.Code(n, account)
	if l.Base == "" || code == "" {
		return ""
	}
	return l.Base + Prefix + n.UUID + "/" + code
}

// nodeOf is the node that a destination of events names, if it is one of the group's or stands at this rackd.
func (l *Listener) nodeOf(destination string) (id string, ours bool) {
	at := strings.LastIndex(destination, Prefix)
	if at < 0 {
		return "", false
	}
	id, code, _ := strings.Cut(destination[at+len(Prefix):], "/")
	return id, l.Codes.Fits(id, code) || destination[:at] == l.Base
}

// subscribe has the BMC of a node post its events here, and forget what stands there for nodes that have gone, or at a rackd that had
// the node before. without says why the BMC is not read from.
func (l *Listener) subscribe(ctx context.Context, n *node.Document, hw *driver.Hardware, account string, without error) error {
	sender, can := hw.Management().(driver.EventSender)
	l.mu.Lock()
	s := l.streams[account]
	named := n
	ids := map[string]bool{n.UUID: true}
	if s != nil {
		if !s.seen[s.node.UUID].IsZero() {
			named = s.node
		}
		ids[s.node.UUID] = true
		for id := range s.seen {
			ids[id] = true
		}
	}
	l.mu.Unlock()
	to := l.address(named, account)
	if !can || to == "" {
		return without
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	fence := l.Nodes.Fence(n)
	err := driver.Settle(func() error {
		return sender.SendEvents(ctx, fence, n, to, func(destination string) bool {
			id, ours := l.nodeOf(destination)
			return ours && (ids[id] || !l.Nodes.Knows(id))
		})
	})
	if errors.Is(err, driver.ErrFenced) {
		return nil // work has begun, or another rackd has the node
	}
	if err != nil {
		return err
	}
	// What happened before the BMC had the address was not told.
	if l.note(n, named, account, sender) {
		l.Look(n.UUID, lookPause)
	}
	return nil
}

// note notes a subscription that a BMC has; begun is set for a new one.
func (l *Listener) note(n, named *node.Document, account string, sender driver.EventSender) (begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends == nil {
		return false
	}
	s := l.streams[account]
	if begun = s == nil; begun {
		s = &stream{account: account, seen: map[string]time.Time{}}
		l.streams[account] = s
	} else {
		delete(l.named, s.node.UUID)
	}
	s.seen[n.UUID], s.checked, s.sender, s.left = time.Now(), time.Now(), sender, 0
	if s.node == nil || named == n {
		s.node = n
	}
	l.named[s.node.UUID] = s
	return begun
}

// farewell ends a subscription none of whose nodes has its turn here any more. Those of nodes that are another rackd's, or rest, stay:
// their rackd looks after them.
func (l *Listener) farewell(ctx context.Context, s *stream) {
	n, fence, here := s.node, driver.Fence(nil), ""
	switch now, hw, err := l.Nodes.Owned(n.UUID); {
	case err != nil: // its fields are wrong now
	case now != nil && accountOf(now, hw) != s.account:
		fence, here = l.Nodes.Fence(n), l.address(now, accountOf(now, hw)) // the BMC may be the same
	case now == nil && !l.Nodes.Knows(n.UUID):
		fence = l.Nodes.LeftFence(n)
	}
	l.mu.Lock()
	s.left++
	if fence == nil || s.left > farewells {
		l.drop(s)
		l.mu.Unlock()
		if fence != nil {
			l.Log.Warn("a BMC goes on to post its events to this rackd, for a node that it does not serve: remove the subscription there", "node", n.UUID)
		}
		return
	}
	l.running.Add(1)
	l.mu.Unlock()
	go func() {
		defer l.running.Done()
		ctx, cancel := context.WithTimeout(ctx, asking)
		defer cancel()
		err := driver.Settle(func() error {
			return s.sender.SendEvents(ctx, fence, n, "", func(destination string) bool {
				id, ours := l.nodeOf(destination)
				return ours && destination != here && (id == n.UUID || !l.Nodes.Knows(id))
			})
		})
		// With another password it is the BMC of before, and the new turn has cleaned up.
		lasting := errors.Is(err, driver.ErrFenced) || errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrDenied)
		if err != nil && !lasting {
			l.Log.Info("a BMC does not forget where it posts its events yet", "node", n.UUID, "error", err)
			return // the next sweep tries again
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(s.seen) == 0 {
			l.drop(s)
		}
	}()
}

// drop forgets a subscription; mu is held.
func (l *Listener) drop(s *stream) {
	if l.streams[s.account] == s {
		delete(l.streams, s.account)
	}
	if l.named[s.node.UUID] == s {
		delete(l.named, s.node.UUID)
	}
}
