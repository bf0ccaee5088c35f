package vbmc

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Faults are troubles on demand. The zero value is a healthy BMC. Safe for
// concurrent use; each setting acts from the next connection or request on.
type Faults struct {
	mu       sync.Mutex
	refuse   bool
	hang     bool
	lockout  bool
	failures int
	spoil    func(*http.Request) Spoilt
	late     time.Duration
	away     time.Duration
	back     time.Time // when a BMC that starts takes calls
	hollow   int
}

// Spoilt is what a BMC makes of one request.
type Spoilt int

// What becomes of it.
const (
	Sound   Spoilt = iota
	Late           // done, and answered after a second, or Lateness
	Lost           // done, and the connection ends in place of the answer
	Half           // done, and half of the answer comes
	Twice          // done, and answered twice on a connection that is said to end
	Dropped        // not done, and the connection ends
	Reset          // done, and the BMC starts again in place of the answer: it knows no session from before, and takes no call for a while
	Refused        // not done: the credentials are refused, although they are right
)

// lateness is how late a Late answer is, where nothing else was set.
const lateness = time.Second

// Lateness is how late a Late answer is; a second at first.
func (f *Faults) Lateness(d time.Duration) { f.set(func() { f.late = d }) }

// Spoil has each request spoilt as it says; nil: none is. It is called by several goroutines.
func (f *Faults) Spoil(how func(*http.Request) Spoilt) { f.set(func() { f.spoil = how }) }

// Away is how long a BMC takes no call that starts again; at first 0, or after an update of its firmware as long as that takes.
func (f *Faults) Away(d time.Duration) { f.set(func() { f.away = d }) }

func (f *Faults) restarts() time.Duration { f.mu.Lock(); defer f.mu.Unlock(); return f.away }

// Refuse drops every connection as soon as it is made.
func (f *Faults) Refuse(on bool) { f.set(func() { f.refuse = on }) }

// Hang takes requests and never answers them, as a BMC whose web server is stuck.
func (f *Faults) Hang(on bool) { f.set(func() { f.hang = on }) }

// RejectCredentials answers 401 to right credentials and live sessions too.
func (f *Faults) RejectCredentials(on bool) { f.set(func() { f.lockout = on }) }

// Fail answers 500 to the next n requests.
func (f *Faults) Fail(n int) { f.set(func() { f.failures = n }) }

// Hollow has the virtual CD drive show the next n images that are inserted, and not have them.
func (f *Faults) Hollow(n int) { f.set(func() { f.hollow = n }) }

// hollow takes an image that the computer does not get.
func (b *BMC) hollow(image string) bool {
	b.Faults.mu.Lock()
	taken := b.Faults.hollow > 0
	if taken {
		b.Faults.hollow--
	}
	b.Faults.mu.Unlock()
	if taken {
		b.mediumMu.Lock()
		defer b.mediumMu.Unlock()
		b.hollowImage = image
	}
	return taken
}

// hollowed is the image that the drive shows and does not have; empty: none.
func (b *BMC) hollowed() string {
	b.mediumMu.Lock()
	defer b.mediumMu.Unlock()
	return b.hollowImage
}

func (f *Faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *Faults) refusing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refuse || time.Now().Before(f.back)
}

func (f *Faults) rejecting() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.lockout }

// wrap is next with its faults. restart starts the BMC again.
func (f *Faults) wrap(serving context.Context, restart func(away time.Duration), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		hang, refuse, fail, spoil, late := f.hang, f.refuse || time.Now().Before(f.back), f.failures > 0, f.spoil, cmp.Or(f.late, lateness)
		if fail && !hang && !refuse {
			f.failures--
		}
		f.mu.Unlock()
		switch {
		case hang:
			select {
			case <-r.Context().Done():
			case <-serving.Done():
			}
			panic(http.ErrAbortHandler)
		case refuse:
			panic(http.ErrAbortHandler) // a connection from before the fault
		case fail:
			refusal{http.StatusInternalServerError, "InternalError", "The request failed due to an internal service error."}.write(w)
		case spoil != nil:
			how := spoil(r)
			if how == Reset {
				defer func() { restart(f.restarts()) }()
			}
			spoilt(serving, how, late, next, w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// spoilt answers a request as a fault has it.
func spoilt(serving context.Context, how Spoilt, late time.Duration, next http.Handler, w http.ResponseWriter, r *http.Request) {
	switch how {
	case Sound:
		next.ServeHTTP(w, r)
		return
	case Dropped:
		panic(http.ErrAbortHandler)
	case Refused:
		unauthorized.write(w)
		return
	}
	kept := &answer{header: http.Header{}}
	next.ServeHTTP(kept, r)
	body := kept.body.Bytes()
	code := cmp.Or(kept.code, http.StatusOK)
	switch how {
	case Lost, Reset:
		panic(http.ErrAbortHandler)
	case Twice:
		if conn, out, err := http.NewResponseController(w).Hijack(); err == nil {
			for range 2 {
				whole := http.Response{StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Header: kept.header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Close: true}
				_ = whole.Write(out)
			}
			_ = out.Flush()
			_ = conn.Close()
			return
		}
	case Late:
		wait := time.NewTimer(late)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-serving.Done():
		}
	}
	maps.Copy(w.Header(), kept.header)
	if how == Half {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1)) // an empty answer breaks off, too
		w.WriteHeader(code)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// answer keeps what a handler answers.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = cmp.Or(a.code, code) }

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
