package store

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"sync"
)

// nodeScanner reads rows of nodes, one after the other, into one place that is made
// ready once.
type nodeScanner struct {
	row                  Node
	verb, owner          string
	dest                 []any
	texts                *Texts // nil: no column is left as it lies
	interfaces           string // the text that row.Interfaces was read from
	interfacesOfLastText map[string]string
}

func newNodeScanner(columns []column[Node]) *nodeScanner {
	sc := new(nodeScanner)
	sc.dest = append([]any{&sc.row.Revision}, fields(columns, &sc.row)...)
	sc.dest = append(sc.dest, &sc.row.WorkID, &sc.verb, &sc.owner)
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
	sc.row, sc.verb, sc.owner = Node{}, "", ""
	if err := r.Scan(sc.dest...); err != nil {
		return fmt.Errorf("read node: %w", err)
	}
	sc.row.finish(sc.verb, sc.owner)
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

// byUUID is a statement that reads the nodes of some UUIDs: for 1 of them, for 2, 4, and
// so on.
type byUUID []string

func newByUUID(what string) (forms byUUID) {
	for n := 1; n <= maxGathered; n *= 2 {
		forms = append(forms, what+" WHERE n.uuid IN ("+placeholders(1, n)+")")
	}
	return forms
}

// of returns the statement and its arguments for at most maxGathered UUIDs. The last is
// repeated, so that the database sees few different texts.
func (forms byUUID) of(ids []string) (stmt string, args []any) {
	form := bits.Len(uint(len(ids) - 1))
	args = make([]any, 1<<form)
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)]
	}
	return forms[form], args
}

var selectNodesByUUID = newByUUID(selectNodes)

// fetchNodes reads nodes for a gatherer. Each caller gets maps of its own.
func fetchNodes(ctx context.Context, c conn, ids []string, give func(id string, read func() (*Node, error)) error) error {
	stmt, args := selectNodesByUUID.of(ids)
	scan := borrowScanner()
	defer scan.giveBack()
	r, err := c.query(ctx, stmt, args...)
	return scanAll(r, err, func(r rows) error {
		if err := scan.scan(r); err != nil {
			return err
		}
		fresh := true
		return give(strings.ToLower(scan.row.UUID), func() (*Node, error) {
			if fresh {
				fresh = false
				n := scan.row
				return &n, nil
			}
			return scan.node(r)
		})
	})
}

func init() {
	builders = append(builders, func() []string {
		return selectNodesByUUID[1:2]
	})
}
