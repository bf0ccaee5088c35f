package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A request that changes a node and gives no rack any work has no line in node_history: its
// line in the audit, which is in the request's own transaction, tells of it. So the node's
// history shows both, and nobody has to write the same twice.

// deeds are the actions of the audit that a node's history shows. The others have lines of
// their own there, or are about a node that was not there before or is not afterwards.
var deeds = []string{"baremetal:node:update", "baremetal:node:set_maintenance", "baremetal:node:clear_maintenance",
	"baremetal:node:traits:set", "baremetal:node:traits:delete", "baremetal:node:vif:attach", "baremetal:node:vif:detach",
	"baremetal:node:set_boot_device", "baremetal:node:set_raid_state", "baremetal:node:set_indicator_state", "baremetal:node:inject_nmi",
	"baremetal:port:create", "baremetal:port:update", "baremetal:port:delete",
	"baremetal:portgroup:create", "baremetal:portgroup:update", "baremetal:portgroup:delete",
	"baremetal:volume:create", "baremetal:volume:update", "baremetal:volume:delete"}

// unserved are those of them that ask for something that no rack does.
var unserved = []string{"baremetal:node:vif:attach", "baremetal:portgroup:create", "baremetal:portgroup:update"}

var selectDeed = register(selectAudit + " WHERE a.node = $1 AND a.uuid = $2")

// entry is a line of the audit as a line of a node's history.
func (a *Audit) entry() *HistoryEntry {
	user := a.UserID
	if user == "" {
		user = a.User
	}
	kind := strings.TrimPrefix(strings.TrimPrefix(a.Action, "baremetal:"), "node:")
	event := fmt.Sprintf("%s by %s %s", kind, a.Method, a.Path)
	if slices.Contains(unserved, a.Action) {
		event += "; no rack acts on it"
	}
	return &HistoryEntry{UUID: a.UUID, Node: a.Node, CreatedAt: a.At, Severity: "INFO", EventType: kind, Event: event, User: user, Project: a.Project}
}

// shown reports whether a node's history shows a line of the audit.
func (a *Audit) shown() bool { return a.Result == Accepted && slices.Contains(deeds, a.Action) }

// instant is where a line stands in a node's history: lines of node_history by time and id,
// those of the audit by id, which begins with the millisecond in which they were written.
// In one millisecond those of node_history come first.
type instant struct {
	at   time.Time
	id   string
	deed bool
}

func (i instant) compare(j instant) int {
	switch {
	case i.deed && j.deed || i.at.Equal(j.at) && i.deed == j.deed:
		return strings.Compare(i.id, j.id)
	case i.deed != j.deed && i.at.UnixMilli() == j.at.UnixMilli():
		return map[bool]int{true: 1, false: -1}[i.deed]
	}
	return i.at.Compare(j.at)
}

func (h *HistoryEntry) instant() instant { return instant{at: h.CreatedAt, id: h.UUID} }

func (a *Audit) instant() instant { return instant{at: writtenAt(a.UUID), id: a.UUID, deed: true} }

// writtenAt is the millisecond that an id begins with; idAt is the other way round.
func writtenAt(id string) time.Time {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return time.Time{}
	}
	sec, nsec := parsed.Time().UnixTime()
	return time.Unix(sec, nsec).Truncate(time.Millisecond)
}

// behind narrows to what comes behind the marker.
func behind(f, g *filter, m instant, desc bool) {
	ms := m.at.Truncate(time.Millisecond)
	switch {
	case m.deed && !desc:
		f.add("h.created_at >= ?", toMicros(ms.Add(time.Millisecond)))
		g.add("a.uuid > ?", m.id)
	case m.deed:
		f.add("h.created_at < ?", toMicros(ms.Add(time.Millisecond)))
		g.add("a.uuid < ?", m.id)
	case !desc:
		f.add("(h.created_at, h.uuid) > (?, ?)", toMicros(m.at), m.id)
		g.add("a.uuid >= ?", idAt(ms))
	default:
		f.add("(h.created_at, h.uuid) < (?, ?)", toMicros(m.at), m.id)
		g.add("a.uuid < ?", idAt(ms))
	}
}

// storyStatements are those of a page of a node's history, and of the deeds that may be on it.
func storyStatements(node string, p Page, marker *instant) (lines, done string, ofLines, ofDone []any) {
	var f, g filter
	f.add("h.node = ?", node)
	g.add("a.node = ?", node)
	g.add("a.result = ?", Accepted)
	g.in("a.action", deeds)
	if marker != nil {
		behind(&f, &g, *marker, p.Desc)
	}
	p = Page{Limit: p.Limit, Desc: p.Desc}
	tail := f.page(p, "node_history", "h", "created_at")
	deedTail := g.page(p, "audit", "a", "uuid")
	return selectHistory + tail, selectAudit + deedTail, f.args, g.args
}

func init() {
	builders = append(builders, func() (out []string) {
		for _, desc := range []bool{false, true} {
			for _, marker := range []*instant{nil, {}, {deed: true}} {
				lines, done, _, _ := storyStatements("n", Page{Desc: desc}, marker)
				out = append(out, lines, done)
			}
		}
		return out
	})
}

// Story returns a page of a node's history together with what requests have changed of it,
// oldest first unless Desc or by the field that SortKey names. A marker that is in neither
// is ErrNotFound.
func (s *Store) Story(ctx context.Context, node string, p Page) ([]*HistoryEntry, error) {
	if order := storyOrders[p.SortKey]; order != nil {
		return s.storyBy(ctx, node, p, order)
	}
	var marker *instant
	if p.Marker != "" {
		at, err := s.instantOf(ctx, node, p.Marker)
		if err != nil {
			return nil, err
		}
		marker = &at
	}
	if p.Limit <= 0 {
		p.Limit = 1000
	}
	lineStmt, deedStmt, ofLines, ofDeeds := storyStatements(node, p, marker)
	lines, err := readHistory(ctx, s.engine, lineStmt, ofLines...)
	if err != nil {
		return nil, err
	}
	done, err := readAudit(ctx, s.engine, deedStmt, ofDeeds...)
	if err != nil {
		return nil, err
	}
	var story []*HistoryEntry
	for len(story) < p.Limit && len(lines)+len(done) > 0 {
		if len(done) == 0 || len(lines) > 0 && (lines[0].instant().compare(done[0].instant()) < 0) != p.Desc {
			story, lines = append(story, lines[0]), lines[1:]
		} else {
			story, done = append(story, done[0].entry()), done[1:]
		}
	}
	return story, nil
}

func (s *Store) instantOf(ctx context.Context, node, id string) (instant, error) {
	h, err := s.HistoryEntry(ctx, node, id)
	if err == nil {
		return h.instant(), nil
	}
	if !errors.Is(err, ErrNotFound) {
		return instant{}, err
	}
	a, err := s.deed(ctx, node, id)
	if err != nil {
		return instant{}, err
	}
	return a.instant(), nil
}

// deed returns the line of the audit that is shown in a node's history under that id.
func (s *Store) deed(ctx context.Context, node, id string) (*Audit, error) {
	list, err := readAudit(ctx, s.engine, selectDeed, node, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || !list[0].shown() {
		return nil, fmt.Errorf("history entry %s of node %s: %w", id, node, ErrNotFound)
	}
	return list[0], nil
}

// StoryEntry returns one entry of Story, or ErrNotFound.
func (s *Store) StoryEntry(ctx context.Context, node, id string) (*HistoryEntry, error) {
	h, err := s.HistoryEntry(ctx, node, id)
	if !errors.Is(err, ErrNotFound) {
		return h, err
	}
	a, err := s.deed(ctx, node, id)
	if err != nil {
		return nil, err
	}
	return a.entry(), nil
}
