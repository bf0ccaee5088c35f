package bmcevents

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

const (
	// linesAtOnce and lineEvery bound the lines of events in a node's history, which keeps its newest 300 lines. The code in an address
	// may be known to the machine's users, and some BMCs tell without end.
	linesAtOnce = 10
	lineEvery   = time.Minute
	// sameFor is for how long an event that comes again in the same words has no line of its own: some BMCs tell of a fan for days. Of a
	// node mostSame of them are remembered.
	sameFor  = time.Hour
	mostSame = 16
	// telling bounds how long the bus may take for a line.
	telling = 10 * time.Second
	// mostText bounds what is shown of an event, in bytes.
	mostText = 500
	// phase is what the lines begin with.
	phase = "BMC event"
)

// budget is how many lines a node's history may get.
type budget struct {
	room float64
	as   time.Time // of what time room is
	left int       // events that were left out since the last line
	said map[[sha256.Size]byte]*repeated
}

// repeated is an event that has a line.
type repeated struct {
	text  string // as it was shown
	since time.Time
	more  int // how often it came since
}

// again reports whether an event has a line since a while, and counts it then. mu is held.
func (b *budget) again(e driver.BMCEvent, now time.Time) bool {
	r := b.said[wordsOf(e)]
	if r == nil || now.Sub(r.since) >= sameFor {
		return false
	}
	r.more++
	return true
}

// note remembers an event that gets a line. mu is held.
func (b *budget) note(e driver.BMCEvent, text string, now time.Time) {
	key := wordsOf(e)
	if b.said[key] == nil && len(b.said) < mostSame {
		b.said[key] = &repeated{text: text, since: now}
	}
}

// wordsOf tells events apart, without their times.
func wordsOf(e driver.BMCEvent) [sha256.Size]byte {
	return sha256.Sum256([]byte(e.Severity + "\x00" + e.ID + "\x00" + e.Text))
}

// due are the lines of events that came again, whose time is over, as far as there is room. mu is held.
func (b *budget) due(now time.Time) (lines []work.Line) {
	for key, r := range b.said {
		switch {
		case now.Sub(r.since) < sameFor:
		case r.more == 0:
			delete(b.said, key)
		case b.room >= 1:
			b.room--
			lines = append(lines, work.Line{Time: now.UTC(), Phase: phase, Detail: fmt.Sprintf("this came %d times more within %s: %s", r.more, now.Sub(r.since).Round(time.Minute), r.text)})
			r.since, r.more = now, 0
		}
	}
	return lines
}

// refill brings room up to date.
func (b *budget) refill(now time.Time) {
	b.room = min(linesAtOnce, b.room+now.Sub(b.as).Minutes()/lineEvery.Minutes())
	b.as = now
}

// budgetOf is that of a node. mu is held.
func (l *Listener) budgetOf(id string, now time.Time) *budget {
	b := l.shown[id]
	if b == nil {
		b = &budget{room: linesAtOnce, as: now, said: map[[sha256.Size]byte]*repeated{}}
		l.shown[id] = b
	}
	return b
}

// take reports whether there is room for a line of a node, and how many events were left out before it. mu is held.
func (b *budget) take(now time.Time) (left int, room bool) {
	b.refill(now)
	if b.room < 1 {
		b.left++
		return 0, false
	}
	left, b.left, b.room = b.left, 0, b.room-1
	return left, true
}

// show puts what a BMC has told into the histories of its nodes, as far as they are this rackd's and there is room.
func (l *Listener) show(ctx context.Context, way string, ids []string, events []driver.BMCEvent) {
	if len(events) == 0 {
		return
	}
	for _, id := range ids {
		n, _, err := l.Nodes.Owned(id)
		if err != nil || n == nil {
			continue
		}
		var lines []work.Line
		var severities []string
		now := time.Now()
		l.mu.Lock()
		for _, e := range events {
			if e.Concerns != nil && !e.Concerns(n) {
				continue
			}
			severity := strings.ToLower(cmp.Or(e.Severity, "unknown"))
			b := l.budgetOf(id, now)
			if b.again(e, now) {
				l.Metrics.BMCEventHeard(way, severity, "left_out")
				continue
			}
			left, room := b.take(now)
			if !room {
				l.Metrics.BMCEventHeard(way, severity, "left_out")
				continue
			}
			if left > 0 {
				lines = append(lines, leftOutLine(left, now))
			}
			line := lineOf(n, e, now)
			b.note(e, line.Detail, now)
			lines = append(lines, line)
			severities = append(severities, severity)
		}
		l.mu.Unlock()
		result := "shown"
		if len(lines) > 0 && l.tell(ctx, n, lines) != nil {
			result = "failed"
		}
		for _, s := range severities {
			l.Metrics.BMCEventHeard(way, s, result)
		}
	}
}

// tell reports lines. The nodes' keeper tells the log of what it could not report.
func (l *Listener) tell(ctx context.Context, n *node.Document, lines []work.Line) error {
	ctx, cancel := context.WithTimeout(ctx, telling)
	defer cancel()
	return l.History.TellLog(ctx, n, &hardware.Observation{}, lines)
}

// masked stands for what nothing may show. hiddenPath is what the paths that BMCs post to become: BMCs tell of their subscriptions, too.
const masked, hiddenPath = "******", Prefix + masked

// ourAddress is the part of an address of ours that nothing may show.
var ourAddress = regexp.MustCompile(regexp.QuoteMeta(Prefix) + `[^\s"'<>]+`)

// lineOf is an event in a node's history. It has the time at which it was heard: BMCs' clocks are often wrong.
func lineOf(n *node.Document, e driver.BMCEvent, now time.Time) work.Line {
	plain := func(text string) string {
		// Before it is cut, so that no half of a secret stays.
		text = ourAddress.ReplaceAllLiteralString(text, hiddenPath)
		text = bmc.Told(n.DriverInfo, text)
		text = strings.Join(strings.Fields(work.Text(strings.ToValidUTF8(text, "?"))), " ") // one line is one line
		if len(text) > mostText {
			text = strings.ToValidUTF8(text[:mostText], "") + " …"
		}
		return text
	}
	var about []string
	if e.Severity != "" {
		about = append(about, e.Severity)
	}
	if id := plain(e.ID); id != "" {
		about = append(about, id)
	}
	if !e.At.IsZero() {
		about = append(about, "by the BMC's clock "+e.At.UTC().Format(time.RFC3339))
	}
	detail := plain(e.Text)
	if len(about) > 0 {
		detail += " (" + strings.Join(about, ", ") + ")"
	}
	return work.Line{Time: now.UTC(), Phase: phase, Detail: detail}
}

func leftOutLine(left int, now time.Time) work.Line {
	return work.Line{Time: now.UTC(), Phase: phase, Detail: fmt.Sprintf("%d events of the BMC were left out here: it tells more than a node's history has room for", left)}
}

// leftOut tells of what was left out, once there is room, and forgets the nodes that have all their room.
func (l *Listener) leftOut(ctx context.Context) {
	now := time.Now()
	due := map[string][]work.Line{}
	l.mu.Lock()
	for id, b := range l.shown {
		b.refill(now)
		if lines := b.due(now); len(lines) > 0 {
			due[id] = lines
		}
		switch {
		case b.left > 0 && b.room >= 1:
			due[id] = append(due[id], leftOutLine(b.left, now))
			b.left, b.room = 0, b.room-1
		case b.left == 0 && b.room >= linesAtOnce && len(b.said) == 0:
			delete(l.shown, id)
		}
	}
	l.mu.Unlock()
	for id, lines := range due {
		if n, _, err := l.Nodes.Owned(id); err == nil && n != nil {
			_ = l.tell(ctx, n, lines) // the metrics count them
		}
	}
}
