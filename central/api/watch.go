package api

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store"
)

// watches reads "watch", which is ours: an answer that begins with the nodes as they are
// and goes on with their changes. The argument and those that come with it are taken out
// of the query.
func watches(r *Request) (bool, error) {
	text, given := r.Query["watch"]
	if !given {
		return false, nil
	}
	on, valid := wire.Bool(text)
	if text == "" {
		on, valid = true, true
	}
	if !valid {
		return false, wire.Invalid("Invalid watch: unrecognized value %.40q", text)
	}
	delete(r.Query, "watch")
	if !on {
		return false, nil
	}
	for _, name := range []string{"limit", "marker", "sort_key", "sort_dir"} {
		if _, paged := r.Query[name]; paged {
			return false, wire.Invalid("A watch has no pages: %s cannot be used with it.", name)
		}
	}
	return true, nil
}

// watch is a stream of nodes.
type watch struct {
	s    *Server
	r    *Request
	sel  fields.Selection
	q    store.NodeQuery // what the client asks for and may see, in pages
	from *feed.Follower
	// shown are the nodes that the client knows of.
	shown map[uuid.UUID]bool
	// resumed: the client knows of nodes from an earlier stream.
	resumed bool
}

// watchNodes answers with a stream of those nodes that a list would show.
func (s *Server) watchNodes(r *Request, sel fields.Selection) (Reply, error) {
	if err := r.Query.Allow(nodeArguments("fields", "detail", "last_event_id")...); err != nil {
		return Reply{}, err
	}
	q, _, err := s.nodeQuery(r)
	if err != nil {
		return Reply{}, err
	}
	return s.watch(r, sel, q)
}

// watchNode answers with a stream of one node.
func (s *Server) watchNode(r *Request, sel fields.Selection) (Reply, error) {
	if err := r.Query.Allow("fields", "last_event_id"); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	delete(r.Query, "fields")
	q, _, err := s.nodeQuery(r)
	if err != nil {
		return Reply{}, err
	}
	q.UUIDs, q.IncludeChildren = []string{n.UUID}, true
	return s.watch(r, sel, q)
}

func (s *Server) watch(r *Request, sel fields.Selection, q store.NodeQuery) (Reply, error) {
	from, resumed, err := s.follow(r)
	if err != nil {
		return Reply{}, err
	}
	w := &watch{s: s, r: r, sel: sel, q: q, from: from, shown: map[uuid.UUID]bool{}, resumed: resumed}
	return streamed(func(ctx context.Context, out *stream) error {
		defer from.Close()
		return w.run(ctx, out)
	})
}

func (w *watch) run(ctx context.Context, out *stream) error {
	if err := w.begin(ctx, out); err != nil {
		return err
	}
	for sent := time.Now(); ; {
		soon, cancel := context.WithDeadline(ctx, sent.Add(heartbeat))
		before := w.from.Seq()
		changes, err := w.from.Next(soon)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			out.alive(before)
		case err != nil:
			return err
		default:
			if err := w.changed(ctx, out, before, changes); err != nil {
				return err
			}
			if len(out.buf) == 0 && time.Since(sent) >= heartbeat { // much happens, and nothing that is watched
				out.alive(w.from.Seq())
			}
		}
		if len(out.buf) == 0 {
			continue
		}
		if err := out.send(); err != nil {
			return err
		}
		sent = time.Now()
	}
}

// begin sends the nodes as they are, page by page, and then that this is all. A client
// that comes back knows them already; here they are only counted.
func (w *watch) begin(ctx context.Context, out *stream) error {
	q := w.q
	q.Limit = wire.MaxLimit
	for markers := []string{""}; ; {
		q.Marker = markers[len(markers)-1]
		nodes, err := w.s.Store.Nodes(ctx, q)
		if errors.Is(err, store.ErrNotFound) { // deleted meanwhile: on after the one before it
			markers = markers[:len(markers)-1]
			continue
		}
		if err != nil {
			return err
		}
		for _, n := range nodes {
			markers = append(markers, n.UUID)
			if w.knows(n.UUID) {
				continue
			}
			if w.admits(n) && !w.resumed {
				w.tell(out, w.from.Seq(), "existing", n)
			} else if w.admits(n) {
				w.know(n.UUID, true)
			}
		}
		if len(out.buf) > 0 {
			if err := out.send(); err != nil {
				return err
			}
		}
		if len(nodes) < q.Limit {
			break
		}
	}
	out.event(w.from.Seq(), "synced", []byte(`{"nodes":`+strconv.Itoa(len(w.shown))+`}`))
	return out.send()
}

// changed sends the nodes that changes are about as they are now. Until the last is
// sent a client that comes back begins before them again.
func (w *watch) changed(ctx context.Context, out *stream, before int64, changes []*store.Change) error {
	var ids []string
	about := map[string]*store.Change{}
	for _, c := range changes {
		if c.Resource != "node" || len(w.q.UUIDs) > 0 && c.Object != w.q.UUIDs[0] {
			continue
		}
		if about[c.Object] == nil {
			ids = append(ids, c.Object)
		}
		about[c.Object] = c
	}
	if len(ids) == 0 {
		return nil
	}
	q := w.q
	q.UUIDs, q.Limit = ids, len(ids)
	nodes, err := w.s.Store.Nodes(ctx, q)
	if err != nil {
		return err
	}
	now := map[string]*store.Node{}
	for _, n := range nodes {
		if w.admits(n) {
			now[n.UUID] = n
		}
	}
	for i, id := range ids {
		number := before
		if i == len(ids)-1 {
			number = changes[len(changes)-1].Seq
		}
		n, known := now[id], w.knows(id)
		gone := known
		if n == nil && !known && w.resumed {
			if gone, err = w.hearsOf(ctx, about[id]); err != nil {
				return err
			}
		}
		switch {
		case n != nil && known:
			w.tell(out, number, "changed", n)
		case n != nil:
			w.tell(out, number, "added", n)
		case gone:
			w.know(id, false)
			object := append(wire.AppendString([]byte(`{"node":{"uuid":`), id), "}}"...)
			out.event(number, "removed", object)
		}
	}
	return nil
}

// hearsOf: the client, which may or may not know a node that its filters do not admit,
// may hear that there is one. Whose a deleted node was, its change says.
func (w *watch) hearsOf(ctx context.Context, c *store.Change) (bool, error) {
	n, err := w.s.Store.Node(ctx, c.Object)
	if errors.Is(err, store.ErrNotFound) {
		owner, _ := c.Facts["owner"].(string)
		lessee, _ := c.Facts["lessee"].(string)
		n, err = &store.Node{UUID: c.Object, Owner: owner, Lessee: lessee}, nil
	}
	return err == nil && w.r.see(n, c.Object) == nil, err
}

// admits applies what the database cannot: the filter by conductor, and, for a node that
// was the client's to see when the stream began, whether it still is.
func (w *watch) admits(n *store.Node) bool {
	if w.r.see(n, n.UUID) != nil {
		return false
	}
	conductor, given := w.r.Query["conductor"], w.r.Query.Has("conductor")
	return !given || w.s.ownerName(n) == conductor
}

func (w *watch) tell(out *stream, number int64, kind string, n *store.Node) {
	w.know(n.UUID, true)
	out.event(number, kind, append(w.s.appendNode([]byte(`{"node":`), w.r, w.sel, n), '}'))
}

func (w *watch) know(id string, known bool) {
	key, err := uuid.Parse(id)
	if err != nil {
		return
	}
	if known {
		w.shown[key] = true
	} else {
		delete(w.shown, key)
	}
}

func (w *watch) knows(id string) bool {
	key, err := uuid.Parse(id)
	return err == nil && w.shown[key]
}
