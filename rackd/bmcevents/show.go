package bmcevents

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

const (
	// linesAtOnce and lineEvery bound the lines of events in a node's history, which keeps its newest 300 lines. The code in an address
	// may be known to the machine's users, and some BMCs tell without end.
	linesAtOnce = 10
	lineEvery   = time.Minute
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
}

// refill brings room up to date.
func (b *budget) refill(now time.Time) {
	b.room = min(linesAtOnce, b.room+now.Sub(b.as).Minutes()/lineEvery.Minutes())
	b.as = now
}

// take reports whether there is room for a line of a node, and how many events were left out before it. mu is held.
func (l *Listener) take(id string, now time.Time) (left int, room bool) {
	b := l.shown[id]
	if b == nil {
		b = &budget{room: linesAtOnce, as: now}
		l.shown[id] = b
	}
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
			left, room := l.take(id, now)
			if !room {
				l.Metrics.BMCEventHeard(way, severity, "left_out")
				continue
			}
			if left > 0 {
				lines = append(lines, leftOutLine(left, now))
			}
			lines = append(lines, lineOf(n, e, now))
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
	hidden := secretsOf(n.DriverInfo)
	slices.SortFunc(hidden, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	plain := func(text string) string {
		// Before it is cut, so that no half of a secret stays.
		text = ourAddress.ReplaceAllLiteralString(text, hiddenPath)
		for _, s := range hidden {
			text = strings.ReplaceAll(text, s, masked)
		}
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

// shortestSecret is the shortest value that is hidden, in bytes: hiding a letter would hide where it stands.
const shortestSecret = 4

// secretsOf are the secrets in driver_info, however deep.
func secretsOf(fields map[string]any) (list []string) {
	for name, v := range fields {
		switch v := v.(type) {
		case map[string]any:
			list = append(list, secretsOf(v)...)
		case string:
			if seal.IsSecret(name) && len(v) >= shortestSecret {
				list = append(list, v)
			}
		}
	}
	return list
}

func leftOutLine(left int, now time.Time) work.Line {
	return work.Line{Time: now.UTC(), Phase: phase, Detail: fmt.Sprintf("%d events of the BMC were left out here: it tells more than a node's history has room for", left)}
}

// leftOut tells of what was left out, once there is room, and forgets the nodes that have all their room.
func (l *Listener) leftOut(ctx context.Context) {
	now := time.Now()
	due := map[string]int{}
	l.mu.Lock()
	for id, b := range l.shown {
		switch b.refill(now); {
		case b.left > 0 && b.room >= 1:
			due[id] = b.left
			b.left, b.room = 0, b.room-1
		case b.left == 0 && b.room >= linesAtOnce:
			delete(l.shown, id)
		}
	}
	l.mu.Unlock()
	for id, left := range due {
		if n, _, err := l.Nodes.Owned(id); err == nil && n != nil {
			_ = l.tell(ctx, n, []work.Line{leftOutLine(left, now)}) // the metrics count them
		}
	}
}
