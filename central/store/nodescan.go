package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// nodeScanner reads rows of nodes, one after the other, into one place that is made
// ready once.
type nodeScanner struct {
	row                  Node
	traits, verb, owner  string
	dest                 []any
	texts                *Texts // nil: no column is left as it lies
	interfaces           string // the text that row.Interfaces was read from
	interfacesOfLastText map[string]string
}

func newNodeScanner(columns []column[Node]) *nodeScanner {
	sc := new(nodeScanner)
	sc.dest = append([]any{&sc.row.Revision}, fields(columns, &sc.row)...)
	sc.dest = append(sc.dest, &sc.traits, &sc.row.WorkID, &sc.verb, &sc.owner)
	return sc
}

var nodeScanners = sync.Pool{New: func() any { return newNodeScanner(nodeColumns) }}

func borrowScanner() *nodeScanner { return nodeScanners.Get().(*nodeScanner) }

func (sc *nodeScanner) giveBack() {
	sc.row = Node{}
	nodeScanners.Put(sc)
}

// scan reads a row, which holds until the next.
func (sc *nodeScanner) scan(r rows) error {
	sc.row, sc.traits, sc.verb, sc.owner = Node{}, "", "", ""
	if err := r.Scan(sc.dest...); err != nil {
		return fmt.Errorf("read node: %w", err)
	}
	sc.row.finish(sc.traits, sc.verb, sc.owner)
	sc.row.read = sc.row.shown()
	return nil
}

// node reads a row for good.
func (sc *nodeScanner) node(r rows) (*Node, error) {
	if err := sc.scan(r); err != nil {
		return nil, err
	}
	n := sc.row
	return &n, nil
}

// Texts are the object columns that a node which is only shown has as they lie in the
// database: JSON text, empty for an empty object.
type Texts struct{ Extra, Properties, NetworkData string }

// What is not read of a node that is only shown: the halves of what the database puts
// together.
var notShown = map[string]bool{"accepted_state": true, "accepted_target": true, "accepted_at": true, "accepted_error": true,
	"maintenance_set": true, "maintenance_why": true, "fault_acked": true, "power_generation": true, "power_target": true,
	"observed_epoch": true, "observed_seq": true, "observed_state": true, "observed_target": true, "observed_at": true,
	"observed_error": true, "power_at": true, "power_observed_generation": true, "fault_number": true, "observed_fault": true, "fault_why": true}

var shownColumns = func() (list []column[Node]) {
	for _, c := range nodeColumns {
		if !notShown[c.name] {
			list = append(list, c)
		}
	}
	return list
}()

var selectShown = "SELECT n.revision, " + names(shownColumns, "n.") +
	", " + nodeTraits + ", COALESCE(w.id, ''), COALESCE(w.verb, ''), COALESCE(w.owner, '')" +
	" FROM nodes n LEFT JOIN works w ON w.node = n.uuid AND w.state = 'open'"

func newShownScanner() *nodeScanner {
	sc := newNodeScanner(shownColumns)
	sc.texts = new(Texts)
	for i, c := range shownColumns {
		switch c.name {
		case "extra":
			sc.dest[1+i] = &sc.texts.Extra
		case "properties":
			sc.dest[1+i] = &sc.texts.Properties
		case "network_data":
			sc.dest[1+i] = &sc.texts.NetworkData
		case "interfaces":
			sc.dest[1+i] = &sc.interfaces
		}
	}
	return sc
}

// shown reads a row of a page. Most nodes of one have the same interfaces.
func (sc *nodeScanner) shown(r rows) error {
	last := sc.interfaces
	if err := sc.scan(r); err != nil {
		return err
	}
	if sc.interfaces == "" {
		sc.interfacesOfLastText = nil
	} else if sc.interfaces != last || sc.interfacesOfLastText == nil {
		m, err := decodeTexts(sc.interfaces)
		if err != nil {
			return fmt.Errorf("interfaces of node %s: %w", sc.row.UUID, err)
		}
		sc.interfacesOfLastText = m
	}
	sc.row.Interfaces, sc.row.Texts = sc.interfacesOfLastText, sc.texts
	return nil
}

var shownScanners = sync.Pool{New: func() any { return newShownScanner() }}

// ShowNodes calls show for each node of a page, in order, and returns how many there
// were. A node is good for showing it, and until show returns: what observation and
// intent it was put together from is missing, and some objects are in its Texts.
// Errors are those of Nodes.
func (s *Store) ShowNodes(ctx context.Context, q NodeQuery, show func(*Node)) (count int, err error) {
	stmt, args, err := nodesStatement(selectShown, q)
	if err != nil {
		return 0, err
	}
	scan := shownScanners.Get().(*nodeScanner)
	defer shownScanners.Put(scan)
	r, err := s.engine.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		if err := scan.shown(r); err != nil {
			return err
		}
		count++
		show(&scan.row)
		return nil
	})
	if err != nil {
		return count, fmt.Errorf("list nodes: %w", err)
	}
	if count == 0 && q.Marker != "" {
		return 0, s.markerExists(ctx, selectNodeExists, "node", q.Marker)
	}
	return count, nil
}

func init() {
	builders = append(builders, func() []string {
		stmt, _, err := nodesStatement(selectShown, NodeQuery{})
		if err != nil {
			panic(err)
		}
		some, _ := nodesByUUID([]string{"a", "b"})
		return []string{stmt, some}
	})
}

// gatherer reads single nodes for concurrent callers together: those who ask while a
// statement runs are answered by the next. So each sees what was committed before it
// asked.
type gatherer struct {
	engine engine

	mu      sync.Mutex
	waiting []*wanted
	running int
}

// wanted is a node that somebody asks for.
type wanted struct {
	id     string
	answer chan error // buffered
	node   *Node
}

const (
	// gatherers is how many statements run at once, maxGathered how many nodes one reads.
	gatherers   = 2
	maxGathered = 32
)

func nodesByUUID(ids []string) (string, []any) {
	list, args := inList(1, ids)
	return selectNodes + " WHERE n.uuid IN (" + list + ")", args
}

func (g *gatherer) read(ctx context.Context, id string) (*Node, error) {
	w := &wanted{id: id, answer: make(chan error, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	if g.running < gatherers {
		g.running++
		go g.run(context.WithoutCancel(ctx))
	}
	g.mu.Unlock()
	select {
	case err := <-w.answer:
		if err != nil {
			return nil, fmt.Errorf("read node %s: %w", id, err)
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("read node %s: %w", id, ctx.Err())
	}
	if w.node == nil {
		return nil, fmt.Errorf("node %s: %w", id, ErrNotFound)
	}
	return w.node, nil
}

// run reads until nobody waits. What one caller's context says is not for the others:
// only time bounds a statement.
func (g *gatherer) run(ctx context.Context) {
	for {
		g.mu.Lock()
		n := min(len(g.waiting), maxGathered)
		if n == 0 {
			g.running--
			g.mu.Unlock()
			return
		}
		part := append([]*wanted(nil), g.waiting[:n]...)
		g.waiting = append(g.waiting[:0], g.waiting[n:]...)
		g.mu.Unlock()
		limited, cancel := context.WithTimeoutCause(ctx, groupPatience, errSlow)
		err := g.together(limited, part)
		cancel()
		for _, w := range part {
			w.answer <- err
		}
	}
}

var errSlow = errors.New("the database did not answer in time")

func (g *gatherer) together(ctx context.Context, part []*wanted) error {
	stmt, args := selectNodeByUUID, []any{part[0].id}
	byID := make(map[string][]*wanted, len(part))
	for _, w := range part {
		byID[w.id] = append(byID[w.id], w)
	}
	if len(byID) > 1 {
		ids := make([]string, 0, len(byID))
		for id := range byID {
			ids = append(ids, id)
		}
		stmt, args = nodesByUUID(ids)
	}
	scan := borrowScanner()
	defer scan.giveBack()
	r, err := g.engine.query(ctx, stmt, args...)
	return scanAll(r, err, func(r rows) error {
		if err := scan.scan(r); err != nil {
			return err
		}
		for i, w := range byID[strings.ToLower(scan.row.UUID)] {
			if i > 0 { // each gets maps of its own
				if err := scan.scan(r); err != nil {
					return err
				}
			}
			n := scan.row
			w.node = &n
		}
		return nil
	})
}
