package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// Texts are the object columns that a node which is only shown has as they lie in the
// database: JSON text, empty for an empty object.
type Texts struct{ Extra, Properties, NetworkData string }

// What is not read of a node that is only shown: the halves of what the database puts
// together.
var notShown = map[string]bool{"accepted_state": true, "accepted_target": true, "accepted_at": true, "accepted_error": true,
	"maintenance_set": true, "maintenance_why": true, "fault_acked": true, "power_generation": true, "power_target": true,
	"observed_epoch": true, "observed_seq": true, "observed_site": true, "observed_place": true, "observed_state": true, "observed_target": true, "observed_at": true,
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
	", COALESCE(w.id, ''), COALESCE(w.verb, ''), COALESCE(w.owner, '')" +
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
	err = s.eachStatement(ctx, selectShown, q, func(stmt string, args []any) (int, error) {
		before := count
		err := showRows(ctx, s.engine, stmt, args, func(n *Node) {
			count++
			show(n)
		})
		return count - before, err
	})
	if err != nil {
		return count, fmt.Errorf("list nodes: %w", err)
	}
	return count, nil
}

// ShownNode returns the node with that UUID or name as ShowNodes reads it, or
// ErrNotFound. Others may hold the same one: it must not be changed.
func (s *Store) ShownNode(ctx context.Context, ident string) (*Node, error) {
	if IsUUID(ident) {
		return s.shown.read(ctx, strings.ToLower(ident))
	}
	var node *Node
	err := showRows(ctx, s.engine, selectShownByName, []any{ident}, func(n *Node) { node = n.kept() })
	if err == nil && node == nil {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", ident, err)
	}
	return node, nil
}

// kept is a node of ShowNodes for longer than until the next row.
func (n *Node) kept() *Node {
	copied, texts := *n, *n.Texts
	copied.Texts = &texts
	return &copied
}

// fetchShown reads nodes for a gatherer, whose callers only read them.
func fetchShown(ctx context.Context, c conn, ids []string, give func(id string, read func() (*Node, error)) error) error {
	stmt, args := selectShownByUUID.of(ids)
	var failed error
	err := showRows(ctx, c, stmt, args, func(n *Node) {
		node := n.kept()
		if failed == nil {
			failed = give(strings.ToLower(n.UUID), func() (*Node, error) { return node, nil })
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

func showRows(ctx context.Context, c conn, stmt string, args []any, show func(*Node)) error {
	scan := shownScanners.Get().(*nodeScanner)
	defer shownScanners.Put(scan)
	r, err := c.query(ctx, stmt, args...)
	return scanAll(r, err, func(r rows) error {
		if err := scan.shown(r); err != nil {
			return err
		}
		show(&scan.row)
		return nil
	})
}

var selectShownByUUID = newByUUID(selectShown)

var selectShownByName = register(selectShown + " WHERE n.name = $1")

func init() {
	builders = append(builders, func() []string {
		stmt, _, err := nodesStatement(selectShown, NodeQuery{})
		if err != nil {
			panic(err)
		}
		return []string{stmt, selectShownByUUID[1]}
	})
}
