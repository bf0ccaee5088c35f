package api

import (
	"io"
	"runtime"
	"strings"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/store"
)

// nodePage is a page of nodes. One that shows nodes as encodedNodes keeps them refers to
// those, and is put together while it is written into the answer: so pages that are on
// their way, however slowly, take little memory of their own. Others are in body.
type nodePage struct {
	s     *Server
	r     *Request
	keeps bool
	nodes []place
	body  []byte
	tail  []byte // of the answer, behind the nodes
	last  string // node's UUID
	count int    // of nodes, left out or not
}

const beforeNodes = `{"nodes":[`

// place is a node's on a page.
type place struct {
	uuid  string
	stamp store.Stamp
	kept  *encodedNode // shared with encodedNodes
}

// next begins the next node in body.
func (p *nodePage) next() {
	if p.body[len(p.body)-1] != '[' {
		p.body = append(p.body, ',')
	}
}

// Size implements long.
func (p *nodePage) Size() int {
	size := len(beforeNodes) + max(0, len(p.nodes)-1) + len(p.tail)
	linked, links := -1, 0 // links differ by UUIDs, which are all of one length
	for i := range p.nodes {
		n := &p.nodes[i]
		if len(n.uuid) != linked {
			linked, links = len(n.uuid), p.links(n)
		}
		size += n.kept.fields.Len() + links
	}
	return size
}

// links is how long a node's links are.
func (p *nodePage) links(n *place) int {
	whole, err := n.kept.append(nil, p.r, n.uuid)
	if err != nil {
		return 0 // WriteTo says so
	}
	return len(whole) - n.kept.fields.Len()
}

// WriteTo implements io.WriterTo.
func (p *nodePage) WriteTo(w io.Writer) (written int64, err error) {
	b := append(p.s.piece(), beforeNodes...)
	defer func() { p.s.pieces.Put(&b) }()
	for i := range p.nodes {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = p.nodes[i].kept.append(b, p.r, p.nodes[i].uuid); err != nil {
			return written, err
		}
		if len(b) > pieceSize-pieceSize/8 {
			n, err := w.Write(b)
			if written += int64(n); err != nil {
				return written, err
			}
			b = b[:0]
		}
	}
	n, err := w.Write(append(b, p.tail...))
	return written + int64(n), err
}

// readPage reads a page's nodes.
func (s *Server) readPage(p *nodePage, q store.NodeQuery, sel fields.Selection) error {
	r := p.r
	conductor, byConductor := r.Query["conductor"], r.Query.Has("conductor")
	if p.keeps {
		if !byConductor {
			if known, err := s.encodedPage(p, q); known || err != nil {
				return err
			}
		}
		select {
		case s.anew <- struct{}{}:
			defer func() { <-s.anew }()
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	var room []byte
	_, err := s.Store.ShowNodes(r.Context(), q, func(n *store.Node) {
		p.last, p.count = n.UUID, p.count+1
		switch {
		case byConductor && s.ownerName(n) != conductor:
			// Filtered after the page was cut, as Ironic does: pages may be short.
		case p.keeps:
			var kept *encodedNode
			room, kept = s.encode(room[:0], r, n)
			p.nodes = append(p.nodes, place{uuid: strings.Clone(n.UUID), kept: kept})
		default:
			p.next()
			p.body = s.appendNode(p.body, r, sel, n)
		}
	})
	return err
}

// pagesAnew is how many pages are read and encoded anew at once: as many as keep the
// processors at work, since each takes megabytes meanwhile.
func pagesAnew() int { return min(16, max(2, runtime.GOMAXPROCS(0))) }
