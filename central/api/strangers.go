package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/strangers"
)

// stranger is a request of a caller who is not known, or not yet.
type stranger struct {
	gate *strangers.Gate
	from netip.Addr
	room *strangers.Room // nil before its body is read
	body []byte          // read, and not decoded
	// is: nothing has shown that its caller is known, so far.
	is bool
	// beyond: it was refused because a part of the budget is used up.
	beyond bool
}

// Enter implements auth.Door: a password or a token that has to be checked takes a slot of strangers.
func (r *Request) Enter() (ctx context.Context, leave func(), err error) {
	g := r.stranger.gate
	release, ok := g.Enter(r.stranger.from)
	if !ok {
		r.stranger.beyond = true
		r.writer.Header().Set("Retry-After", retryAfter)
		return nil, nil, &auth.Denied{Status: http.StatusServiceUnavailable, Title: "Service Unavailable",
			Message: "Too many requests of unknown callers are being checked. Please retry.",
			Reason:  "the slots of strangers are taken (--strangers-slots, --strangers-slots-per-address): passwords or tokens of many requests are being checked"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.Time)
	return ctx, func() { cancel(); release() }, nil
}

// The flags that say how much strangers may have.
const (
	slotFlags = "--strangers-slots, --strangers-slots-per-address"
	byteFlags = "--strangers-bytes, --strangers-bytes-per-address"
)

// full is the refusal of a request beyond a part of the strangers' budget.
func (r *Request) full(flags string) error {
	r.stranger.beyond = true
	r.writer.Header().Set("Retry-After", retryAfter)
	return wire.Errorf(http.StatusServiceUnavailable, "This server takes no more requests of unknown callers at this moment, in all or from this address "+
		"(%s). Nothing was changed; please retry.", flags)
}

// anonymously lets a request in that needs no account: its body is read first, at most as long and as large as the
// budget says; then it takes a slot. leave follows also an error.
func (s *Server) anonymously(r *Request, route *Route) (leave func(), err error) {
	r.stranger.room = s.strangers.Room(r.stranger.from)
	leave = r.stranger.room.Free
	if err := s.gather(r, route); err != nil {
		return leave, err
	}
	if route.Known != nil && route.Known(r) {
		r.stranger.is = false
		return s.agentIn(r, leave)
	}
	release, ok := s.strangers.Enter(r.stranger.from)
	if !ok {
		return leave, r.full(slotFlags)
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.strangers.Time)
	r.Request = r.WithContext(ctx)
	return func() { cancel(); release(); r.stranger.room.Free() }, nil
}

// agentIn lets the request of an agent in that is known: such requests have half of what all known callers have.
func (s *Server) agentIn(r *Request, free func()) (leave func(), err error) {
	if !s.inWork.enter() {
		r.cause = nil
		return free, tooMany(r, s.inWork, "requests")
	}
	if !s.fromRamdisks.enter() {
		s.inWork.leave()
		r.cause = nil
		return free, tooMany(r, s.fromRamdisks, "requests of ramdisks")
	}
	return func() { s.fromRamdisks.leave(); s.inWork.leave(); free() }, nil
}

// gather reads the body of a request, of at most route.Body bytes. What is longer than a connection takes anyway has its
// whole size reserved before it is read on: bodies that come slowly hold no more than their share, and not for long.
func (s *Server) gather(r *Request, route *Route) error {
	limit := route.Body
	if limit == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > limit {
		return wire.TooLarge(limit)
	}
	control := http.NewResponseController(r.writer)
	// Connections that have no deadlines are those of tests.
	control.SetReadDeadline(time.Now().Add(s.strangers.BodyTime))
	defer control.SetReadDeadline(time.Time{})
	from := http.MaxBytesReader(r.writer, r.Body, limit)
	size := r.ContentLength
	if size < 0 || size > strangers.Free {
		size = strangers.Free
	}
	body := make([]byte, size)
	n, err := io.ReadFull(from, body)
	body = body[:n]
	if err == nil && r.ContentLength != int64(n) {
		if route.Known == nil && !s.strangers.Open(r.stranger.from) {
			return r.full(slotFlags) // it is not read to be refused then
		}
		body, err = s.gatherMore(r, control, from, body, limit)
	}
	if err != nil && !errors.Is(err, io.EOF) && (!errors.Is(err, io.ErrUnexpectedEOF) || r.ContentLength >= 0) {
		return notCome(err, limit)
	}
	r.stranger.body = body
	return nil
}

// notCome is what a client hears whose body did not come.
func notCome(err error, limit int64) error {
	var refusal *wire.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &large):
		return wire.TooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return wire.Errorf(http.StatusRequestTimeout, "The request's body did not come in time (--strangers-body-time, --strangers-body-rate).")
	}
	return wire.Invalid("The request's body could not be read: %v", err)
}

// gatherMore reads what follows the first bytes of a body, in room that it takes of the budget.
func (s *Server) gatherMore(r *Request, control *http.ResponseController, from io.Reader, first []byte, limit int64) ([]byte, error) {
	size, known := r.ContentLength, r.ContentLength >= 0
	if !known { // it grows to what it needs
		size = min(limit, 4*strangers.Free)
	}
	need := withCopies(size)
	if most := min(s.strangers.Bytes, s.strangers.BytesPerAddress); need > most {
		return nil, wire.TooLarge(most) // there will never be room for it
	}
	soon, cancel := context.WithTimeout(r.Context(), s.strangers.BodyTime)
	defer cancel()
	if !r.stranger.room.Take(soon, need) {
		return nil, r.full(byteFlags)
	}
	longest := limit
	if known {
		longest = size
	}
	control.SetReadDeadline(time.Now().Add(s.strangers.Deadline(longest)))
	body := append(make([]byte, 0, size), first...)
	for {
		n, err := io.ReadFull(from, body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil || known {
			return body, err
		}
		larger := min(2*int64(cap(body)), limit+1)
		if !r.stranger.room.TakeNow(withCopies(larger)) {
			return nil, r.full(byteFlags)
		}
		old := withCopies(int64(cap(body)))
		body = append(make([]byte, 0, larger), body...)
		r.stranger.room.Give(old)
	}
}

// copiesOfCarried is how often what goes on to a rack is in memory at once, beside the body: as it is sent on, in the
// question to the rack, and in that to the bus.
const copiesOfCarried = 4

// withCopies is the room that a body of so many bytes needs.
func withCopies(size int64) int64 { return size + copiesOfCarried*min(size, maxCarried) }

// surveyed is the body of a request that gather has read, looked through as far as can be done without decoding it,
// and what it would cost to decode it.
func (r *Request) surveyed() (raw wire.Raw, cost int64, err error) {
	if len(r.stranger.body) > strangers.Free {
		done, err := r.work()
		if err != nil {
			return nil, 0, err
		}
		defer done()
	}
	return wire.Survey(r.stranger.body, r.stranger.gate.Values)
}

// object is the body of a request that gather has read, decoded.
func (r *Request) object() (map[string]any, error) {
	raw, cost, err := r.surveyed()
	if err == nil {
		err = r.affords(len(raw), cost)
	}
	if err != nil {
		return nil, err
	}
	return raw.Object()
}

// affords takes room for what is made of a part of the body, when that part is not small.
func (r *Request) affords(size int, cost int64) error {
	if size > strangers.Free && !r.stranger.room.TakeNow(cost) {
		return r.full(byteFlags)
	}
	return nil
}

// decodes takes room for what becomes of parts of the body that are decoded, and a processor for that; done follows.
func (r *Request) decodes(parts ...[]byte) (done func(), err error) {
	for _, part := range parts {
		_, cost, err := wire.Survey(part, r.stranger.gate.Values)
		if err == nil {
			err = r.affords(len(part), cost)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.work()
}

// work waits for a processor of those that strangers' large bodies may use; done follows.
func (r *Request) work() (done func(), err error) {
	done, ok := r.stranger.gate.Work(r.Context())
	if !ok {
		return nil, r.full("half of the processors, for large bodies")
	}
	return done, nil
}
