package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/feed"
)

// The bounds of a stream.
const (
	// heartbeat is after how long without news a stream says that it lives.
	heartbeat = 15 * time.Second
	// writeWithin is how long a reader may take for a piece of what is written to it.
	writeWithin = 10 * time.Second
	// streamFor is after how long a stream ends: its client comes back with the number it
	// has come to, and what it may see is decided anew.
	streamFor = time.Hour
)

// stream is an answer that goes on: server-sent events, or a JSON object on each line.
type stream struct {
	w      http.ResponseWriter
	flush  *http.ResponseController
	events bool // server-sent events
	buf    []byte
}

// streamed is an answer that run writes until it returns.
func streamed(run func(context.Context, *stream) error) (Reply, error) {
	return Reply{Status: http.StatusOK, Stream: run}, nil
}

// serve answers with a stream. Its end says nothing: a client tells a stream that was cut
// from one that was not by coming back.
func (s *Server) serve(r *Request, client context.Context, run func(context.Context, *stream) error) {
	out := &stream{w: r.writer, flush: http.NewResponseController(r.writer), events: wantsEvents(r.Header)}
	h := r.writer.Header()
	h.Set("Content-Type", "application/x-ndjson")
	if out.events {
		h.Set("Content-Type", "text/event-stream")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy's
	r.writer.WriteHeader(http.StatusOK)
	_ = out.flush.SetReadDeadline(time.Time{}) // the server's bounds reading a request; a recorder of tests has none
	ctx, cancel := context.WithTimeout(client, streamFor)
	defer cancel()
	r.Request = r.WithContext(ctx)
	if err := run(ctx, out); err != nil && ctx.Err() == nil && !errors.Is(err, feed.ErrStopped) {
		s.Log.Warn("a stream was cut", "request_id", r.ID, "path", r.URL.Path, "error", err)
	}
}

// wantsEvents: the client asks for server-sent events.
func wantsEvents(h http.Header) bool {
	return strings.Contains(strings.Join(h.Values("Accept"), ","), "text/event-stream")
}

// event adds an event of a kind: a JSON object, told to begin with '{'. id is the number
// with which a client that has read it comes back.
func (o *stream) event(id int64, kind string, object []byte) {
	if o.events {
		o.buf = strconv.AppendInt(append(o.buf, "id: "...), id, 10)
		o.buf = append(append(append(o.buf, "\nevent: "...), kind...), "\ndata: "...)
		o.buf = append(append(o.buf, object...), "\n\n"...)
		return
	}
	o.buf = strconv.AppendInt(append(o.buf, `{"id":`...), id, 10)
	o.buf = wire.AppendString(wire.AppendName(o.buf, "type"), kind)
	o.buf = append(append(append(o.buf, ','), object[1:]...), '\n')
}

// alive adds a sign of life, which tells how far the client has come.
func (o *stream) alive(id int64) {
	if o.events {
		o.buf = append(strconv.AppendInt(append(o.buf, "id: "...), id, 10), "\n\n"...)
		return
	}
	o.event(id, "bookmark", []byte("{}"))
	o.buf = append(o.buf[:len(o.buf)-3], "}\n"...) // no member follows the comma
}

// send sends what was added, piece by piece; a reader that is too slow for one is cut.
func (o *stream) send() (err error) {
	if len(o.buf) == 0 {
		return nil
	}
	for piece := range slices.Chunk(o.buf, pieceSize) {
		if err = o.within(time.Now().Add(writeWithin)); err == nil {
			_, err = o.w.Write(piece)
		}
		if err != nil {
			break
		}
	}
	if o.buf = o.buf[:0]; cap(o.buf) > pieceSize {
		o.buf = nil // a stream may be quiet for an hour with what it began with
	}
	if err == nil {
		err = o.flush.Flush()
	}
	if err == nil {
		// Over HTTP/2 a deadline ends the stream when it comes, whether anything is written or not.
		err = o.within(time.Time{})
	}
	if errors.Is(err, io.ErrClosedPipe) {
		return context.Canceled
	}
	return err
}

// within bounds what is written from now on; a recorder of tests has no bounds.
func (o *stream) within(deadline time.Time) error {
	if err := o.flush.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// follow opens the feed where the client has come to, or at the newest change.
func (s *Server) follow(r *Request) (w *feed.Follower, resumed bool, err error) {
	if s.Feed == nil {
		return nil, false, wire.Errorf(http.StatusServiceUnavailable, "This server keeps no stream of changes.")
	}
	after, text := int64(-1), r.Header.Get("Last-Event-Id")
	if r.Query.Has("last_event_id") {
		text = r.Query["last_event_id"]
	}
	if text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return nil, false, wire.Invalid("Invalid Last-Event-ID: %.40q is not the number of an event", text)
		}
	}
	w, err = s.Feed.Follow(r.Context(), after)
	switch {
	case errors.Is(err, feed.ErrGone):
		return nil, false, wire.Errorf(http.StatusGone, "The events after %d are not kept any more. Begin again, without Last-Event-ID.", after)
	case errors.Is(err, feed.ErrFull), errors.Is(err, feed.ErrStopped):
		return nil, false, wire.Errorf(http.StatusServiceUnavailable, "No stream can begin: %v. Please retry.", err)
	}
	return w, after >= 0, err
}
