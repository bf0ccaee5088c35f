package drivertest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

// Mishap is what becomes of one request to a BMC.
type Mishap int

// What becomes of it.
const (
	Sound   Mishap = iota
	Late           // done, and answered after Lateness
	Lost           // done, and the connection ends in place of the answer
	Half           // done, and half of the answer comes
	Twice          // done, and answered twice
	Dropped        // not done, and the connection ends
	Reset          // done, and the BMC starts again in place of the answer: it knows no session from before
)

// mishaps are the names of all that is not sound.
var mishaps = map[Mishap]string{Late: "answered late", Lost: "not answered", Half: "half answered", Twice: "answered twice", Dropped: "dropped", Reset: "answered with a reset"}

// Lateness is how late a late answer is. Drivers of tests wait longer.
const Lateness = 150 * time.Millisecond

// Spoiler counts the requests to a BMC and has one of them come to grief. Safe for concurrent use.
type Spoiler struct {
	// Restart has the BMC forget its sessions; nil: it knows none.
	Restart func()
	// Away is how many requests a BMC of HTTP drops while it starts again.
	Away int

	mu        sync.Mutex
	how       Mishap
	at, asked int
	away      int
}

// Spoil has the request with number at, counted from 1 and from now on, come to grief.
func (s *Spoiler) Spoil(how Mishap, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how, s.at, s.asked, s.away = how, at, 0, 0
}

// Asked counts the requests since Spoil.
func (s *Spoiler) Asked() int { s.mu.Lock(); defer s.mu.Unlock(); return s.asked }

// Next counts a request and says what becomes of it, to a server that does that itself.
func (s *Spoiler) Next() Mishap {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.asked++; {
	case s.asked == s.at:
		if s.how == Reset {
			s.away = s.Away
		}
		return s.how
	case s.away > 0:
		s.away--
		return Dropped
	}
	return Sound
}

// Forget forgets what a BMC that starts again forgets.
func (s *Spoiler) Forget() {
	if s.Restart != nil {
		s.Restart()
	}
}

// Send sends the answer to a request of a connection of its own, of which how becomes what Next has said. more: the connection goes on.
func (s *Spoiler) Send(how Mishap, conn io.Writer, answer []byte) (more bool) {
	switch how {
	case Lost, Dropped:
		return false
	case Reset:
		s.Forget()
		return false
	case Half:
		_, _ = conn.Write(answer[:len(answer)/2])
		return false
	case Twice:
		answer = append(bytes.Clone(answer), answer...)
	case Late:
		<-time.After(Lateness)
	}
	_, err := conn.Write(answer)
	return err == nil
}

// Serve answers a request of HTTP as next does, if all goes well with it.
func (s *Spoiler) Serve(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	how := s.Next()
	switch how {
	case Sound:
		next(w, r)
		return
	case Dropped:
		panic(http.ErrAbortHandler)
	}
	kept := httptest.NewRecorder()
	next(kept, r)
	body := kept.Body.Bytes()
	switch how {
	case Reset:
		s.Forget()
		panic(http.ErrAbortHandler)
	case Lost:
		panic(http.ErrAbortHandler)
	case Twice:
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		// The first answer says that the connection ends. Without that Go's client may take the second for the answer to the next request:
		// which of the two it is depends on its goroutines, and no driver compares what was asked with what came.
		for range 2 {
			whole := http.Response{Close: true, StatusCode: kept.Code, ProtoMajor: 1, ProtoMinor: 1, Header: kept.Header(), ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: r}
			_ = whole.Write(out)
		}
		_ = out.Flush()
		return
	case Late:
		late := time.NewTimer(Lateness)
		defer late.Stop()
		select {
		case <-late.C:
		case <-r.Context().Done():
		}
	}
	maps.Copy(w.Header(), kept.Header())
	if how == Half {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1)) // an empty answer breaks off, too
		w.WriteHeader(kept.Code)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(kept.Code)
	_, _ = w.Write(body)
}

// Datagrams is a Spoiler on a wire of datagrams, where each request and its answer are one.
type Datagrams struct {
	Spoiler

	mu       sync.Mutex
	answer   Mishap // what becomes of the next answer
	starting sync.WaitGroup
	deaf     bool // the BMC starts
}

// Up reports whether a datagram to the BMC reaches it.
func (d *Datagrams) Up() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf {
		return false
	}
	how := d.Next()
	if how == Dropped {
		return false
	}
	if how != Sound {
		d.answer = how
	}
	return true
}

// Down is what comes of a datagram from the BMC, and how late it is.
func (d *Datagrams) Down(b []byte) (packets [][]byte, late time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf {
		return nil, 0
	}
	how := d.answer
	d.answer = Sound
	switch how {
	case Lost:
		return nil, 0
	case Reset:
		d.deaf = true
		d.starting.Go(func() {
			d.Forget()
			d.mu.Lock()
			defer d.mu.Unlock()
			d.deaf = false
		})
		return nil, 0
	case Half:
		return [][]byte{b[:len(b)/2]}, 0
	case Twice:
		return [][]byte{b, b}, 0
	case Late:
		return [][]byte{b}, Lateness
	}
	return [][]byte{b}, 0
}

// Wait returns when no BMC is starting.
func (d *Datagrams) Wait() { d.starting.Wait() }
