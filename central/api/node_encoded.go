package api

import (
	"context"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// keeps reports whether an answer shows nodes as encodedNodes keeps them.
func (r *Request) keeps(sel fields.Selection) bool {
	if sel.Chosen {
		return false
	}
	see := r.sightOf()
	return see.whole && !see.passwords && !see.instanceWords && (r.may == nil || r.may.Decide(readNode).Always())
}

// encode appends the whole fields of a node, without links, for one who sees all but secrets,
// and keeps them: kept is what is shared from now on.
func (s *Server) encode(b []byte, r *Request, n *store.Node) (appended []byte, kept *encodedNode) {
	begin := len(b)
	all := nodeTable.All(r.Version)
	v := s.view(r, n, all)
	b = nodeTable.AppendBefore(append(b, '{'), all, v)
	before := len(b)
	b = nodeTable.AppendBehind(b, all, v)
	return b, s.encoded.keep(r.Version, n, v.owner, b[begin:], len(b)-before)
}

// append appends a node as answers show it.
func (n *encodedNode) append(b []byte, r *Request, uuid string) ([]byte, error) {
	b, err := n.fields.Append(b)
	if err != nil {
		return b, err
	}
	return n.link(b, r, uuid), nil
}

// link puts the links among the node's fields, with which b ends, and ends the node.
func (n *encodedNode) link(b []byte, r *Request, uuid string) []byte {
	var room [256]byte
	before := len(b) - n.behind
	behind := append(room[:0], b[before:]...)
	b = wire.AppendLinks(wire.AppendName(b[:before], "links"), r.Base, "nodes/", uuid)
	b = append(b, behind...)
	return append(appendSubresources(b, r, uuid), '}')
}

// encodedBefore is what encode kept of the node; nil when that is not how it is
// now. The stamp has been read since the request began.
func (s *Server) encodedBefore(v microversion.Version, uuid string, stamp store.Stamp) *encodedNode {
	n := s.encoded.find(uuid, v)
	if n == nil || n.stamp != stamp {
		return nil
	}
	if f, _ := nodeTable.Lookup("conductor"); v >= f.Since {
		if m, _ := s.Roster.Owner(uuid, n.driver, n.group); m.Name != n.conductor {
			return nil
		}
	}
	return n
}

// encodedNow is encodedBefore for a single node, whose stamp it reads where that is of
// use. The node may be gone: that is for whoever reads it then to find.
func (s *Server) encodedNow(ctx context.Context, v microversion.Version, uuid string) *encodedNode {
	if !s.encoded.age() || s.encoded.find(uuid, v) == nil {
		return nil
	}
	stamp, err := s.Store.NodeStamp(ctx, uuid)
	if err != nil {
		return nil
	}
	return s.encodedBefore(v, uuid, stamp)
}

// maxFilled is how many nodes of a page may be missing among the encoded ones for them
// to be read by themselves.
const maxFilled = 32

// encodedPage finds a page of nodes most of which have been encoded before. known
// false: they have not, or change meanwhile, and the page has to be read as a whole.
func (s *Server) encodedPage(p *nodePage, q store.NodeQuery) (known bool, err error) {
	r := p.r
	if !s.encoded.age() {
		return false, nil
	}
	list := make([]place, 0, q.Limit)
	missing := 0
	_, err = s.Store.NodeStamps(r.Context(), q, func(uuid string, stamp store.Stamp) {
		kept := s.encodedBefore(r.Version, uuid, stamp)
		if kept == nil {
			missing++
		}
		list = append(list, place{uuid, stamp, kept})
	})
	if err != nil || missing > maxFilled {
		return false, err
	}
	if missing > 0 {
		if whole, err := s.fill(r, list, missing); err != nil || !whole {
			return false, err
		}
	}
	p.nodes, p.count = list, len(list)
	if len(list) > 0 {
		p.last = list[len(list)-1].uuid
	}
	return true, nil
}

// fill reads the nodes of a page that have not been encoded, and reports whether they
// still are what the page was made of.
func (s *Server) fill(r *Request, list []place, missing int) (whole bool, err error) {
	at := make(map[string]*place, missing)
	q := store.NodeQuery{IncludeChildren: true}
	for i := range list {
		if list[i].kept == nil {
			at[list[i].uuid] = &list[i]
			q.UUIDs = append(q.UUIDs, list[i].uuid)
		}
	}
	filled := 0
	var room []byte
	_, err = s.Store.ShowNodes(r.Context(), q, func(n *store.Node) {
		if p := at[n.UUID]; p != nil && p.stamp == n.Stamp() {
			room, p.kept = s.encode(room[:0], r, n)
			filled++
		}
	})
	return filled == missing, err
}
